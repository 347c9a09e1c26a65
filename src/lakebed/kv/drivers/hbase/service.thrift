// The part of HBase's Thrift 2 interface (2.2 or newer) that the driver uses. Field numbers and types
// are HBase's; unused fields and calls are omitted.

enum TDurability { FSYNC_WAL = 4 }

struct TColumn { 1: required binary family, 2: optional binary qualifier }

struct TColumnValue { 1: required binary family, 2: required binary qualifier, 3: required binary value }

struct TResult { 1: optional binary row, 2: required list<TColumnValue> columnValues }

struct TGet { 1: required binary row }

struct TPut {
  1: required binary row,
  2: required list<TColumnValue> columnValues,
  6: optional TDurability durability
}

struct TDelete { 1: required binary row, 6: optional TDurability durability }

struct TScan {
  1: optional binary startRow,
  2: optional binary stopRow,
  3: optional list<TColumn> columns,
  4: optional i32 caching,
  15: optional i32 limit
}

struct TTableName { 1: optional binary ns, 2: required binary qualifier }

struct TColumnFamilyDescriptor {
  1: required binary name,
  10: optional i32 maxVersions,
  13: optional i32 timeToLive
}

struct TTableDescriptor { 1: required TTableName tableName, 2: optional list<TColumnFamilyDescriptor> columns }

exception TIOError { 1: optional string message }

service THBaseService {
  TResult get(1: required binary table, 2: required TGet tget) throws (1: TIOError io),
  bool checkAndPut(
    1: required binary table,
    2: required binary row,
    3: required binary family,
    4: required binary qualifier,
    5: binary value,
    6: required TPut tput
  ) throws (1: TIOError io),
  bool checkAndDelete(
    1: required binary table,
    2: required binary row,
    3: required binary family,
    4: required binary qualifier,
    5: binary value,
    6: required TDelete tdelete
  ) throws (1: TIOError io),
  list<TResult> getScannerResults(
    1: required binary table, 2: required TScan tscan, 3: i32 numRows
  ) throws (1: TIOError io),
  bool tableExists(1: TTableName tableName) throws (1: TIOError io),
  TTableDescriptor getTableDescriptor(1: required TTableName table) throws (1: TIOError io),
  void createTable(1: required TTableDescriptor desc, 2: optional list<binary> splitKeys) throws (1: TIOError io)
}
