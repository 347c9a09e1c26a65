"""A store in a keyspace of Apache Cassandra (4.0 or newer), shared by processes and machines.

``cassandra://user:password@host1,host2:9042/keyspace``. Any nodes will do as contact points. The
keyspace must exist, since only its owner can choose the number of replicas; the table
``lakebed_kv`` is created in it. ``?tls=true`` for TLS, see `lakebed.kv.urls.tls_context`.

**Consistency.** All writes are *lightweight transactions* (Paxos), with ``SERIAL`` consistency
across all data centers, acknowledged when committed by a quorum. So a quorum read sees all
acknowledged writes. Reads are monotonic, since a read that finds diverging replicas first repairs a
quorum of them (``read_repair``, which is checked). An unfinished round of Paxos is visible to no
read, but the partition's next write completes or invalidates it. The fence writes after each lost
reply, so a live process leaves no unfinished round.

**Lanes.** Paxos agrees on one write at a time per Cassandra partition, and contending writers block
each other until they time out. So the keys of one partition are distributed over 16 Cassandra
partitions by a checksum (column ``lane``), and the threads of a process lock each of them.

**Delayed writes.** A request may be delayed and applied after its client gave up, so the driver
uses `lakebed.kv.fenced` over conditional changes of single rows. Cassandra refuses no request as
too old, so a deletion leaves a small row. Rows are not deleted as long as delayed requests could
match them: a deleted Cassandra cell may reappear after a long outage of a node.

**Durability.** A node is rejected unless ``commitlog_sync`` is ``batch`` or ``group``: with
``periodic``, the default, it acknowledges a write up to ten seconds before its disk has it. All
running nodes are checked. ``?durable=true`` declares that replicas on several machines are
sufficient, and skips this check. A keyspace with ``durable_writes = false`` and a table with a time
to live are always rejected.

**Limits.** A node accepts 16 MiB per request, and stores a value twice during agreement.
"""

from lakebed.kv.drivers.cassandra.driver import CassandraCells, open_driver

__all__ = ["CassandraCells", "open_driver"]
