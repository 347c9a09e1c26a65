"""A store in Valkey or Redis (6.2 or newer), shared by any number of processes and machines.

``valkey://user:password@host:6379/0``, or equivalently ``redis://…``; ``?tls=true`` for TLS,
see `lakebed.kv.urls.tls_context`.

A partition is a hash of its values and a sorted set of its keys. Every write is one atomic script.

**Cluster.** With ``cluster-enabled yes``, both names of a partition have the same hash tag, and
are in one slot; redirections are followed (`nodes`). The host of the URL may be any node. Without
cluster mode, the names are others: a server with records of the other mode is rejected.

**Durability.** Acknowledged writes must be on disk, and remain. So a server is rejected unless it
has ``appendonly yes``, ``appendfsync always`` and ``maxmemory-policy noeviction``, and no replicas:
replication is asynchronous, and a failover would lose acknowledged writes. ``?durable=true``
declares that the service is durable by other means (as Amazon MemoryDB is), and skips these checks.

**Delayed writes.** A script may be delayed and run after its client gave up. So a script has a
deadline, which the server compares with its own clock before any change. After a lost reply the
driver waits until the deadline has passed, and then raises. Assumptions:

- The deadline is computed from the server's clock, read when the connection was made and every two
  minutes, plus the client's monotonic clock since. The latest possible time of the reading is
  assumed, so that deadlines are rather too early than too late. If the server's clock is set *back*
  by more than the margin meanwhile, deadlines are late by as much.
- A server that is suspended within a script, for longer than the margin, may apply it after the
  call raised.

**Limits.** All data must fit into the memory of the servers.
"""

from lakebed.kv.drivers.valkey.driver import ValkeyStore, open_driver

__all__ = ["ValkeyStore", "open_driver"]
