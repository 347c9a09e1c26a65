"""A store in a PostgreSQL database, shared by any number of processes and machines.

One table; every call is one statement that commits by itself. Writes of single keys that come at
the same time share a statement (`batches`), and what follows is said of that one. A read behind a
write (`Store.write`) is another statement, sent along with it. PostgreSQL 14 or newer, reached
directly: a connection pooler in between is detected and refused, since it may give each statement
to another process, and what follows would not hold.

A process keeps up to 20 connections. ``?pool_size=40`` in the URL changes that; the number of
processes times the size of the pool must stay below the server's ``max_connections``. A call that
gets no connection within a few seconds fails (see `lakebed.kv.pool`).

**Three outcomes.** A reply to a write is certain: rows changed, no row changed (`PredicateFailed`)
or an SQL error, with which PostgreSQL has rolled the statement back (`StoreUnavailable`). When the
reply is lost (the connection breaks, or nothing comes for too long), the write may have been
applied, may be under way, or may still be on its way to the server, held up in a network. The
caller must not be told before its fate is sealed, so that a write is **never applied after the
call raised**. Two mechanisms see to that:

1. *The backend is ended.* Every connection knows the process that serves it: its process id, the
   time at which it started, and the time at which the server started. The driver opens another
   connection, ends that process and waits until the server no longer lists it. A process leaves
   that list after its transaction has ended, one way or the other; what is still on its way to
   it reaches a closed socket. A server that started later than the one of the lost connection has
   no process of that time left, and has recovered what was committed before it lets anyone in.

2. *The write carries a deadline*, for when the server cannot be reached. The statement compares it
   with the server's clock and fails when it came too late; it fails with an error and not by
   matching no row, so that nobody takes it for a failed predicate. ``statement_timeout`` bounds
   what comes after the comparison, waiting for locks included. The driver goes on trying to
   connect until the deadline and the timeout have surely passed; only then it raises.

What the second mechanism assumes, and what it does not cover:

- The deadline is computed from the server's clock, read when the connection was made, and the
  client's steady clock since. The moment at which the server read its clock is taken as late as it
  can have been, which makes deadlines too early rather than too late. Connections are renewed
  every two minutes, so that drift between the clocks stays far below the margin. If the server's
  clock is set *back* by more than the margin while a connection lives, deadlines on it are too
  late by as much. (Set forward, they are too early: the call raises `StoreUnavailable`.)
- ``statement_timeout`` ends before the commit: a commit that hangs in flushing the log or in
  waiting for a synchronous standby, on a server that the client cannot reach, may be applied after
  the call raised. So may a write on a server that is frozen whole, after the comparison, for
  longer than the margin. While the server *can* be reached, the first mechanism waits as long as
  it takes.
- After a failover the new primary decides. The old one must be kept from serving, as for any
  other use of PostgreSQL; what an old primary commits then is never seen.
"""

from lakebed.kv.drivers.postgresql.driver import PostgreSQLStore, open_driver

__all__ = ["PostgreSQLStore", "open_driver"]
