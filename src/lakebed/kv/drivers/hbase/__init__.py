"""A store in a table of Apache HBase (2.2 or newer), shared by processes and machines.

``hbase://host:9090/table``, or ``…/namespace:table``. The host runs HBase's Thrift server of the
second kind (``hbase thrift2 start``), as it comes: the binary protocol, not framed. ``?tls=true``
for TLS, ``&ca=/path`` for a certificate authority of one's own, ``&pool_size=40`` for that many
connections at most. The table is made if there is none. The Thrift server asks for no password: let
only Lakebed's machines reach it.

**Consistency.** A row is served by one region server, which reads and changes it in order.

**Durability.** Each write asks for ``FSYNC_WAL``, whatever is set for the table: it is answered
when the disks of HDFS have it. A table whose columns have a time to live is refused. HBase on a
local disk (standalone) does not wait for it, and does not tell.

**Late application.** A request may be held up and land after its client gave up; the Thrift server
repeats requests by itself, too. HBase changes single rows on a condition, so
`lakebed.kv.fenced` makes the contract of it: a request matches one stamp, which is there
once, so it is applied once at most. There is no time after which HBase would refuse a request, so
what is deleted leaves a small row.

**Limits.** A row has a name of 32 KB at most, and a cell 10 MB, unless set otherwise.
"""

from lakebed.kv.drivers.hbase.driver import HBaseCells, open_driver

__all__ = ["HBaseCells", "open_driver"]
