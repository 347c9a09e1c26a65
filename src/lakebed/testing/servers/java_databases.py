"""Real Java database servers for tests, from Maven: ``make test-all PARTS=fetched``.

- Cassandra: the real server, with a single node.
- HBase: the real server, with ZooKeeper and the Thrift server in one process, on the local disk.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lakebed.testing.servers.databases import DatabaseServer, running
from lakebed.testing.servers.fetch_databases import fetched
from lakebed.testing.servers.object_stores import free_ports

_HEAP: Final = ("-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx512m")

# JDK internals that Cassandra accesses, as in its own start script.
_CASSANDRA_OPENS: Final = (
    *("java.base/java.io", "java.base/java.lang", "java.base/java.lang.module"),
    *("java.base/java.lang.reflect", "java.base/java.math", "java.base/java.net"),
    *("java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent"),
    *("java.base/java.util.concurrent.atomic", "java.base/jdk.internal.loader"),
    *("java.base/jdk.internal.math", "java.base/jdk.internal.module"),
    *("java.base/jdk.internal.ref", "java.base/jdk.internal.reflect"),
    *("java.base/jdk.internal.util.jar", "java.base/sun.nio.ch"),
    *("java.management/com.sun.jmx.remote.security", "java.rmi/sun.rmi.transport"),
    "jdk.management/com.sun.management.internal",
)
_CASSANDRA_EXPORTS: Final = (
    *("java.base/jdk.internal.misc", "java.base/jdk.internal.ref", "java.base/sun.nio.ch"),
    *("java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry"),
    *("java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql"),
    *("jdk.attach/sun.tools.attach", "jdk.naming.dns/com.sun.jndi.dns"),
)
_CASSANDRA_YAML: Final = """\
cluster_name: test
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
num_tokens: 1
listen_address: 127.0.0.1
storage_port: {gossip}
rpc_address: 127.0.0.1
native_transport_port: {port}
{sync}
# The machine may be busy with other tests.
cas_contention_timeout: 4500ms
read_request_timeout: 4500ms
write_request_timeout: 4500ms
data_file_directories: [{folder}/data]
commitlog_directory: {folder}/commitlog
saved_caches_directory: {folder}/caches
hints_directory: {folder}/hints
cdc_raw_directory: {folder}/cdc
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [seeds: "127.0.0.1:{gossip}"]
"""
_AT_ONCE: Final = "commitlog_sync: batch"
_LATER: Final = "commitlog_sync: periodic\ncommitlog_sync_period: 10s"
_QUIET_LOG: Final = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
_KEYSPACE: Final = "lakebed"


@contextmanager
def cassandra_server(*, durable: bool = True) -> Iterator[DatabaseServer]:
    """Run a single-node Cassandra during the block, with the keyspace of `cassandra_url`.

    With `durable`, replies wait for the disk, which is not Cassandra's default.
    """
    home = fetched("cassandra")
    (gossip,) = free_ports(1)

    def command(folder: Path, port: int) -> Sequence[str]:
        settings, log = folder / "cassandra.yaml", folder / "logback.xml"
        sync = _AT_ONCE if durable else _LATER
        settings.write_text(
            _CASSANDRA_YAML.format(folder=folder, port=port, gossip=gossip, sync=sync)
        )
        log.write_text(_QUIET_LOG)
        return [
            *("java", *_HEAP, "-Djdk.attach.allowAttachSelf=true"),
            *(f"--add-opens={each}=ALL-UNNAMED" for each in _CASSANDRA_OPENS),
            *(f"--add-exports={each}=ALL-UNNAMED" for each in _CASSANDRA_EXPORTS),
            *(f"-Dcassandra.config={settings.as_uri()}", f"-Dlogback.configurationFile={log}"),
            *(f"-Dcassandra.storagedir={folder}", "-Dcassandra-foreground=yes"),
            # Do not wait for other nodes.
            *("-Dcassandra.ring_delay_ms=1", "-Dcassandra.skip_wait_for_gossip_to_settle=0"),
            *("-cp", f"{home}/*", "org.apache.cassandra.service.CassandraDaemon"),
        ]

    with running(command) as server:
        make_keyspace(server.port, _KEYSPACE)
        yield server


def cassandra_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"cassandra://127.0.0.1:{port}/{_KEYSPACE}"


def make_keyspace(port: int, name: str, *, durable: bool = True) -> None:
    """Create a keyspace with a single replica."""
    from cassandra.cluster import Cluster  # only these tests need the library

    patience = {"connect_timeout": 60.0, "control_connection_timeout": 60.0}
    with Cluster(["127.0.0.1"], port=port, protocol_version=4, **patience) as cluster:
        cluster.connect().execute(
            f"CREATE KEYSPACE {name} WITH replication ="
            " {'class': 'SimpleStrategy', 'replication_factor': 1}"
            f" AND durable_writes = {str(durable).lower()}",
            timeout=60.0,
        )


_HBASE_OPENS: Final = (
    *("java.base/java.io", "java.base/java.lang", "java.base/java.lang.reflect"),
    *("java.base/java.net", "java.base/java.nio", "java.base/java.util"),
    *("java.base/java.util.concurrent", "java.base/jdk.internal.ref", "java.base/sun.nio.ch"),
)
_HBASE_SITE: Final = """\
<configuration>
{properties}
</configuration>
"""
_HBASE_LOG: Final = """\
log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""


@contextmanager
def hbase_server() -> Iterator[DatabaseServer]:
    """Run an HBase with its Thrift server during the block."""
    home = fetched("hbase")
    source = home.parent.parent / "requirements/databases/HBaseServer.java"
    (zookeeper,) = free_ports(1)

    def command(folder: Path, port: int) -> Sequence[str]:
        settings = {
            "hbase.rootdir": (folder / "data").as_uri(),
            "hbase.tmp.dir": folder / "tmp",
            "hbase.zookeeper.property.dataDir": folder / "zookeeper",
            "hbase.zookeeper.property.clientPort": zookeeper,
            "hbase.zookeeper.quorum": "127.0.0.1",
            "hbase.localcluster.assign.random.ports": "true",
            "hbase.master.hostname": "localhost",
            "hbase.regionserver.hostname": "localhost",
            **dict.fromkeys(
                (
                    "hbase.master.info.port",
                    "hbase.regionserver.info.port",
                    "hbase.thrift.info.port",
                ),
                -1,
            ),
            # Hadoop's other local file system keeps the end of the log in this process.
            "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "hbase.wal.provider": "filesystem",
            "hbase.unsafe.stream.capability.enforce": "false",
        }
        properties = "\n".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        )
        (folder / "hbase-site.xml").write_text(_HBASE_SITE.format(properties=properties))
        (folder / "log4j.properties").write_text(_HBASE_LOG)
        return [
            *("java", *_HEAP, f"-Djava.io.tmpdir={folder}"),
            *(f"--add-opens={each}=ALL-UNNAMED" for each in _HBASE_OPENS),
            *("-cp", f"{folder}:{home}/*", str(source), str(port)),
        ]

    with running(command) as server:
        yield server


def hbase_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"hbase://127.0.0.1:{port}/lakebed"
