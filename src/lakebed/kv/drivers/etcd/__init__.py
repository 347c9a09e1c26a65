"""A store in etcd (3.4 or newer), shared by any number of processes and machines.

``etcd://user:password@host:2379/prefix``; several members as ``host1:2379,host2:2379``;
``?tls=true`` for TLS, see `lakebed.kv.urls.tls_context`. All keys begin with the prefix (default:
``lakebed``), so installations can share a cluster. The driver uses etcd's HTTP gateway.

**Versions.** A stored value is prefixed with its version. A conditional write compares the stored
bytes with the version and its successor, so it needs no prior read.

**Delayed writes.** A request may be delayed and applied after its client gave up. So every write is
a transaction that also compares a *session key* with the epoch known to the writer. A session is
used by one call at a time. After a lost reply the driver changes the epoch, and raises only when
etcd has confirmed the change: delayed requests then fail their comparison. This is exact and needs
no clock. A session key has a lease of a day. After its expiry, writes of the session are refused,
and the next write makes a new session.

If etcd does not confirm the epoch change within a minute, the process ends, for the same reason as
in `lakebed.kv.fenced`.

**Durability.** etcd answers a write when a majority of its members have flushed it to disk, unless
it runs with ``--unsafe-no-fsync``. This option is not reported, but the metrics count the log
flushes of a member: a member whose count does not change with a write is rejected.
``?durable=true`` skips the check. A member without accessible metrics is accepted.

**Limits.** etcd accepts requests up to 1.5 MiB, and is designed for a few gigabytes in total. It
suits small installations: millions of staged objects need another database.
"""

from lakebed.kv.drivers.etcd.driver import EtcdStore, open_driver

__all__ = ["EtcdStore", "open_driver"]
