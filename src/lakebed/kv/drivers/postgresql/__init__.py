"""A store in a PostgreSQL database, shared by any number of processes and machines.

One table; every call is one statement that commits by itself. Concurrent writes of single keys
share a statement (`batches`). A read after a write (`Store.write`) is a second statement, pipelined
with the write. Requires PostgreSQL 14 or newer and direct connections: a connection pooler is
detected and rejected, since it may run each statement in another backend process, and the
guarantees below would not hold.

A process opens up to 20 connections, or ``?pool_size=40``; the number of processes times the pool
size must stay below the server's ``max_connections``. A call fails if no connection becomes
available within a few seconds (see `lakebed.kv.pool`).

**Durability.** A server is rejected unless ``fsync`` and ``full_page_writes`` are on.
``?durable=true`` declares that the service is durable by other means (as Amazon Aurora is), and
skips the check. Each session turns on ``synchronous_commit`` if it is off.

**Three outcomes.** A reply to a write is certain: rows changed, no row changed (`PredicateFailed`)
or an SQL error, after which PostgreSQL has rolled the statement back (`StoreUnavailable`). After a
lost reply (the connection breaks or times out), the write may have been applied, may be running, or
may still be delayed in the network. The call must not raise before the outcome is final, so that a
write is **never applied after the call raised**. Two mechanisms ensure this:

1. *Terminating the backend.* For every connection the driver knows the backend process that serves
  it: its process id, its start time, and the start time of the server. The driver opens another
  connection, terminates that process and waits until the server no longer lists it. A process
  leaves the list only after its transaction has ended, committed or not; data still in transit
  reaches a closed socket. If the server started later than the lost connection, no process of that
  time is left, and recovery of committed transactions has finished.

2. *A deadline in the statement*, for an unreachable server. The statement compares the deadline
  with the server's clock and fails if late: with an error rather than by matching no row, which
  would look like a failed predicate. ``statement_timeout`` bounds the time after the comparison,
  lock waits included. The driver tries to reconnect until both deadline and timeout have surely
  passed; only then it raises.

Assumptions and limits of the second mechanism:

- The deadline is computed from the server's clock, read when the connection was made, plus the
  client's monotonic clock since. The latest possible time of the reading is assumed, so that
  deadlines are rather too early than too late. Connections are renewed every two minutes, so that
  clock drift stays far below the margin. If the server's clock is set *back* by more than the
  margin during a connection, its deadlines are late by as much. (Set forward, they are too early:
  the call raises `StoreUnavailable`.)
- ``statement_timeout`` ends before the commit: a commit that hangs while flushing the log or
  waiting for a synchronous standby, on a server that the client cannot reach, may be applied after
  the call raised. So may a write on a server that is suspended after the comparison for longer than
  the margin. While the server *can* be reached, the first mechanism waits without limit.
- After a failover the new primary is authoritative. The old primary must be fenced off, as for any
  use of PostgreSQL; its later commits are never read.
"""

from lakebed.kv.drivers.postgresql.driver import PostgreSQLStore, open_driver

__all__ = ["PostgreSQLStore", "open_driver"]
