"""File formats: Arrow schemas, readers and writers of every file in the storage.

Committed metadata and dumps are Parquet files in the storage namespace of a repository:

    _lakebed/ranges/<id>.parquet        entries, sorted by key (`ENTRY_SCHEMA`)
    _lakebed/metaranges/<id>.parquet    the ranges of one commit (`METARANGE_SCHEMA`)
    _lakebed/refs/<dump id>/…           a dump of all branches, tags and commits (see `refs`)

DuckDB, Spark and pandas can read them directly. For example, the content of a commit with a known
metarange, largest files first, in DuckDB:

    SELECT key AS path, size, metadata
    FROM read_parquet('_lakebed/ranges/*.parquet', filename = true)
    WHERE regexp_extract(filename, '([0-9a-f]{64})', 1) IN (
        SELECT range_id FROM '_lakebed/metaranges/<id>.parquet')
    ORDER BY size DESC

(The column `key` of a range is text if all of its keys are UTF-8, and bytes if not.)

Imports PyArrow and `lakebed.base` only, so that a Spark job can import this package without the
rest. Public: the names below, and the modules of the files of garbage collection and purges.
"""

from lakebed.formats.entries import (
    CHANGE_SCHEMA,
    ENTRY_SCHEMA,
    AddressType,
    Entry,
    EntryRows,
    conform_entries,
    entries_of,
    entries_table,
)
from lakebed.formats.errors import (
    DamagedFile,
    ForeignFile,
    FormatError,
    FormatTooNew,
    InvalidEntries,
)
from lakebed.formats.files import FORMAT_VERSION
from lakebed.formats.layout import (
    OWNER_PATH,
    Owner,
    decode_owner,
    dump_path,
    encode_owner,
    metarange_path,
    range_path,
)
from lakebed.formats.metaranges import (
    EMPTY_METARANGE,
    METARANGE_SCHEMA,
    MetaRange,
    MetaRangeID,
    RangeID,
    RangeRef,
    decode_metarange,
    decode_range,
    encode_metarange,
    encode_range,
    metarange_id,
    metarange_table,
    range_id,
)
from lakebed.formats.refs import (
    MANIFEST_NAME,
    REF_SCHEMAS,
    DumpFile,
    DumpID,
    DumpManifest,
    RefKind,
    decode_manifest,
    decode_refs,
    encode_manifest,
    encode_refs,
    refs_id,
)

__all__ = [
    "CHANGE_SCHEMA",
    "EMPTY_METARANGE",
    "ENTRY_SCHEMA",
    "FORMAT_VERSION",
    "MANIFEST_NAME",
    "METARANGE_SCHEMA",
    "OWNER_PATH",
    "REF_SCHEMAS",
    "AddressType",
    "DamagedFile",
    "DumpFile",
    "DumpID",
    "DumpManifest",
    "Entry",
    "EntryRows",
    "ForeignFile",
    "FormatError",
    "FormatTooNew",
    "InvalidEntries",
    "MetaRange",
    "MetaRangeID",
    "Owner",
    "RangeID",
    "RangeRef",
    "RefKind",
    "conform_entries",
    "decode_manifest",
    "decode_metarange",
    "decode_owner",
    "decode_range",
    "decode_refs",
    "dump_path",
    "encode_manifest",
    "encode_metarange",
    "encode_owner",
    "encode_range",
    "encode_refs",
    "entries_of",
    "entries_table",
    "metarange_id",
    "metarange_path",
    "metarange_table",
    "range_id",
    "range_path",
    "refs_id",
]
