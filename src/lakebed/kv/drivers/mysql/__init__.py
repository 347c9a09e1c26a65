"""A store in a MySQL or MariaDB database, shared by any number of processes and machines.

``mysql://user:password@host:3306/database``, or equivalently ``mariadb://…``; ``?tls=true`` for
TLS (see `lakebed.kv.urls.tls_context`), ``&pool_size=40`` for the maximum number of connections.
Requires MySQL 8.0 or MariaDB 10.6, or newer, and direct connections: a proxy that
distributes statements over connections is detected and rejected.

One InnoDB table; every call is one statement that commits by itself.

**Durability.** A server is rejected unless ``innodb_flush_log_at_trx_commit`` is 1 and, with a
binary log, ``sync_binlog`` is 1. A Galera cluster is rejected: its nodes accept writes
concurrently, and a read on one node may be older than a write on another. ``?durable=true``
declares that the service is durable by other means (as Amazon Aurora is), and skips the first two
checks. A read-only server, such as a replica, is never used.

**Delayed writes.** A statement may be delayed and applied after its client gave up. So every new
connection takes a *named lock* with a unique name on the server. The server releases the lock when
the connection has ended and its transaction is finished. After a lost reply the driver opens
another connection, kills the lost one and takes its lock. From then on the outcome of the lost
write is final. This is exact and needs no clock: a restarted server has no such lock, and has
finished its recovery before it accepts connections. A fence that cannot be finished in time ends
the process, see `lakebed.kv.fenced`.

After a failover the new primary is authoritative. The old primary must be fenced off, as for any
use of MySQL, and replication must be semi-synchronous, or acknowledged writes are lost.
"""

from lakebed.kv.drivers.mysql.driver import MySQLStore, open_driver

__all__ = ["MySQLStore", "open_driver"]
