"""A store in Valkey or Redis (6.2 or newer), shared by any number of processes and machines.

``valkey://user:password@host:6379/0``, or ``redis://…``, which is the same; ``?tls=true`` for TLS,
``&ca=/path`` for a certificate authority of one's own.

A partition is a hash of its values and a sorted set of its keys. Every write is one script, which
runs alone and whole.

**Durability.** An acknowledged write must be on disk, and stay. So a server is refused unless it
has ``appendonly yes``, ``appendfsync always`` and ``maxmemory-policy noeviction``, and no replicas:
replication does not wait, and a failover would lose what was acknowledged. ``?durable=true`` says
that the service keeps its writes by other means, and skips these checks. A server in cluster mode
(as Amazon MemoryDB always is) is refused.

**Late application.** A script may be held up and land after its client gave up. So it carries a
deadline, which the server compares with its own clock before it changes anything. After a lost
reply the driver waits until that deadline has passed; only then it raises. What that assumes:

- The deadline is computed from the server's clock, read when the connection was made and every two
  minutes, and the client's steady clock since. The moment at which the server read its clock is
  taken as late as it can have been, which makes deadlines too early rather than too late. If the
  server's clock is set *back* by more than the margin meanwhile, they are too late by as much.
- A server that is frozen whole in the middle of a script, for longer than the margin, may apply it
  after the call raised.

**Limits.** All data must fit into the memory of one server.
"""

from lakebed.kv.drivers.valkey.driver import ValkeyStore, open_driver

__all__ = ["ValkeyStore", "open_driver"]
