"""The record of a purge: which objects were deleted from all history, by whom and why.

    _lakebed/purges/<purge id>/<content id>.parquet

A restore of the repository elsewhere reads these files, and so do auditors.
"""

from typing import Final

import pyarrow as pa

from lakebed.formats.parquet import FileType, required

PURGE_SCHEMA: Final = pa.schema(
    [
        required("purge_id", pa.string()),
        required("address", pa.string()),
        required("key", pa.binary()),  # one of those that it was found by
        required("size", pa.int64()),
        required("checksum", pa.string()),
        required("versions", pa.int64()),  # how many the storage had
        required("error", pa.string()),  # empty: it is gone, or is about to go
        required("reason", pa.string()),
        required("username", pa.string()),
        required("requested_us", pa.int64()),
        required("purged_us", pa.int64()),  # 0: its bytes may still be there
    ]
)
_FILE_TYPE: Final = FileType("purge", PURGE_SCHEMA)


def encode_purge(table: pa.Table) -> tuple[bytes, str]:
    """Return the file of a table with the columns of `PURGE_SCHEMA`, and the id of its content."""
    return _FILE_TYPE.encode(table), _FILE_TYPE.content_id(table)


def decode_purge(data: bytes, content_id: str, *, file: str) -> pa.Table:
    """Return the table in a file, proven to be the one with this id.

    Raises:
        DamagedFile: The file does not hold it.
        ForeignFile: It is not such a file, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return _FILE_TYPE.decode(data, content_id=content_id, file=file)
