"""A store in a MySQL or MariaDB database, shared by any number of processes and machines.

``mysql://user:password@host:3306/database``, or ``mariadb://…``, which is the same; ``?tls=true``
for TLS, ``&ca=/path`` for a certificate authority of one's own, ``&pool_size=40`` for that many
connections at most. MySQL 8.0 or MariaDB 10.6, or newer, reached directly: a proxy that gives
statements to other connections is detected and refused.

One table of InnoDB; every call is one statement that commits by itself.

**Durability.** A server is refused unless ``innodb_flush_log_at_trx_commit`` is 1 and, where it
writes a binary log, ``sync_binlog`` is 1. A Galera cluster is refused: its nodes take writes side
by side, and a read on one of them may be older than a write on another. ``?durable=true`` says that
the service keeps its writes by other means (Amazon Aurora does), and skips the first two checks. A
server that is read-only, as replicas are, is never used.

**Late application.** A statement may be held up and land after its client gave up. So every
connection takes a *named lock* of the server when it is made, under a name that is used once. The
server lets go of it when the connection has ended there, and whatever it did with it. After a lost
reply the driver opens another connection, kills the lost one and takes its lock. Once it has that,
the lost connection's write was applied or never will be. This is exact and needs no clock: a server
that was restarted has no such lock, and has recovered what was committed before it lets anyone in.
A fence that cannot be finished in time ends the process, as `lakebed.kv.fenced` says.

After a failover the new primary decides. The old one must be kept from serving, as for any other
use of MySQL, and replication must wait for the new one (semi-synchronous replication), or what was
acknowledged is lost.
"""

from lakebed.kv.drivers.mysql.driver import MySQLStore, open_driver

__all__ = ["MySQLStore", "open_driver"]
