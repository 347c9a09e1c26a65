"""Record of a purge: the objects deleted from all history, the user and the reason.

    _lakebed/purges/<purge id>/<content id>.parquet

A restore of the repository elsewhere reads these files, and so do auditors.
"""

from typing import Final

import pyarrow as pa

from lakebed.formats.files import FileType, required

PURGE_SCHEMA: Final = pa.schema(
    [
        required("purge_id", pa.string()),
        required("address", pa.string()),
        required("key", pa.binary()),  # one of the keys with the address
        required("size", pa.int64()),
        required("checksum", pa.string()),
        required("versions", pa.int64()),  # number of deleted versions
        required("error", pa.string()),  # empty if deleted, or about to be
        required("reason", pa.string()),
        required("username", pa.string()),
        required("requested_us", pa.int64()),
        required("purged_us", pa.int64()),  # 0 if its bytes may still exist
    ]
)
_FILE_TYPE: Final = FileType("purge", PURGE_SCHEMA)


def encode_purge(table: pa.Table) -> tuple[bytes, str]:
    """Return the file of a table with the columns of `PURGE_SCHEMA`, and its content id."""
    return _FILE_TYPE.encode(table), _FILE_TYPE.content_id(table)


def decode_purge(data: bytes, content_id: str, *, file: str) -> pa.Table:
    """Return the table in a file after verifying its content id."""
    return _FILE_TYPE.decode(data, content_id=content_id, file=file)
