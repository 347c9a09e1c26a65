"""A store in etcd (3.4 or newer), shared by any number of processes and machines.

``etcd://user:password@host:2379/prefix``; several members as ``host1:2379,host2:2379``;
``?tls=true`` for TLS, ``&ca=/path`` for a certificate authority of one's own. All keys begin with
the prefix (``lakebed`` if there is none), so installations can share a cluster. It is asked over
its HTTP gateway.

**Versions.** A value is stored behind its version. The condition of a write is that what is stored
lies between the version and its successor, as bytes, so it needs no read before.

**Late application.** A request may be held up and land after its client gave up. So every write is
a transaction that also compares a *session key* with the epoch that the writer knows. One call at a
time uses a session. After a lost reply the driver changes the epoch, and raises only when etcd has
said that it is changed: whatever is still on its way fails its comparison. This is exact; no clocks
take part in it. A session key has a lease of a day. If it is gone, writes of that session are
refused, and the next one makes a new session.

If etcd does not answer for a minute whether the epoch is changed, the process ends, as in
`lakebed.kv.fenced`, and for the same reason.

**Durability.** etcd answers a write when a majority of its members have flushed it to disk, unless
it runs with ``--unsafe-no-fsync``. It does not tell that, but its metrics count how often a member
has flushed its log: a member whose count stays the same over a write is refused. ``?durable=true``
skips this. A member whose metrics cannot be had is taken as it is.

**Limits.** etcd takes requests of 1.5 MiB, and is made for a few gigabytes in all. It suits small
installations: millions of staged objects need another database.
"""

from lakebed.kv.drivers.etcd.driver import EtcdStore, open_driver

__all__ = ["EtcdStore", "open_driver"]
