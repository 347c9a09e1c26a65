"""A store in a keyspace of Apache Cassandra (4.0 or newer), shared by processes and machines.

``cassandra://user:password@host1,host2:9042/keyspace``. Any of its nodes will do; they tell the
others. The keyspace must exist, since only its owner knows how many copies it should keep; the
table ``lakebed_kv`` is made in it. ``?tls=true`` for TLS, ``&ca=/path`` for a certificate authority
of one's own.

**Consistency.** All writes are *lightweight transactions* (Paxos), with ``SERIAL`` across all data
centers, and are answered when a quorum has committed them. So a read of a quorum sees all that was
answered before. What a read has seen, later ones see too, since a read that finds the replicas
different first makes a quorum of them alike (``read_repair``, which is checked). A round of Paxos
that nobody finished shows itself to no read, but the next write of that partition finishes it or
makes it void. The fence writes after each lost reply, so nothing of a live process is left behind.

**Lanes.** Paxos agrees on one write at a time for each of Cassandra's partitions, and writers that
meet there keep each other from it until time is up. So the keys of one partition are spread over
16 of Cassandra's by a checksum (column ``lane``), and the threads of a process take turns in each.

**Late application.** A request may be held up and land after its client gave up, so
`lakebed.kv.fenced` makes the contract of single rows that are changed on a condition.
There is no time after which Cassandra would refuse a request, so what is deleted leaves a small
row. Nothing is ever deleted in Cassandra's sense: a deleted cell comes back when a node was away
for too long.

**Durability.** A node is refused unless ``commitlog_sync`` is ``batch`` or ``group``: with
``periodic``, which is the default, it answers up to ten seconds before its disk has the write. All
nodes that are up are asked. ``?durable=true`` says that copies on several machines are enough, and
skips that check. A keyspace with ``durable_writes = false`` and a table with a time to live are
always refused.

**Limits.** A node takes 16 MiB at once, and keeps a value twice while it is agreed upon.
"""

from lakebed.kv.drivers.cassandra.driver import CassandraCells, open_driver

__all__ = ["CassandraCells", "open_driver"]
