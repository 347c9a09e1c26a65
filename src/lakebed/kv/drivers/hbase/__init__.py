"""A store in a table of Apache HBase (2.2 or newer), shared by processes and machines.

``hbase://host:9090/table``, or ``…/namespace:table``. The host runs HBase's Thrift 2 server
(``hbase thrift2 start``) with its defaults: the binary protocol, not framed. ``?tls=true`` for TLS
(see `lakebed.kv.urls.tls_context`), ``&pool_size=40`` for the maximum number of connections. A
missing table is created. The Thrift server has no authentication: restrict access to Lakebed's
machines.

**Consistency.** A row is served by one region server, which reads and changes it in order.

**Durability.** Each write requests ``FSYNC_WAL``, regardless of the table's setting: it is
acknowledged when the disks of HDFS have it. A table whose columns have a time to live is rejected.
HBase on a local disk (standalone) does not wait for the disk, which the driver cannot detect.

**Delayed writes.** A request may be delayed and applied after its client gave up; the Thrift server
also retries requests itself. So the driver uses `lakebed.kv.fenced` over HBase's conditional
changes of single rows: a request matches one unique stamp, so it is applied at most once. HBase
refuses no request as too old, so a deletion leaves a small row.

**Limits.** By default a row name has at most 32 KB, and a cell 10 MB.
"""

from lakebed.kv.drivers.hbase.driver import HBaseCells, open_driver

__all__ = ["HBaseCells", "open_driver"]
