"""From what a storage lists to entries of a branch, column by column.

An imported object belongs to somebody else, who may write it again. So its entry keeps the ETag
that the storage listed, and reads compare it (`lakebed.catalog.entry_metadata`). The ETag is part
of the identity too: an object that was written again and imported again is another one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import LIST_SCHEMA, ObjectInfo
from lakebed.catalog.entry_metadata import ANY_PLACE, CONTENT
from lakebed.catalog.model import PATH_BYTES_MAX
from lakebed.formats import ENTRY_SCHEMA, AddressType

# An empty component (also a slash at the end, which marks a folder), "." or "..", which programs on
# the way may resolve, and control characters.
_STRANGE: Final = r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f]"
_MD5: Final = "^[0-9a-f]{32}(-[0-9]{1,5})?$"

_NO_KEYS: Final = pa.chunked_array([], pa.binary())
_NO_ADDRESSES: Final = pa.chunked_array([], pa.string())


@dataclass(frozen=True, slots=True)
class ImportedPage:
    """Some of the objects that are imported, in order of their keys."""

    entries: pa.Table
    skipped_keys: pa.ChunkedArray
    """The keys of objects that cannot be imported, if they could,"""
    skipped_addresses: pa.ChunkedArray
    """and where these objects are."""


def imported_page(listed: pa.Table, place: str, destination: bytes) -> ImportedPage:
    """Return the entries of objects that were listed.

    Args:
        listed: With the columns of `LIST_SCHEMA`.
        place: What the addresses begin with; it is left out of the keys.
        destination: What the keys begin with instead.
    """
    paths = pc.utf8_slice_codeunits(listed["address"], len(place))
    keys = pc.binary_join_element_wise(
        pa.scalar(destination, pa.binary()), paths.cast(pa.binary()), b""
    )
    strange = pc.or_(
        pc.match_substring_regex(paths, _STRANGE),
        pc.greater(pc.binary_length(keys), PATH_BYTES_MAX),
    )
    if not pc.any(strange, min_count=0).as_py():
        return ImportedPage(_entries(keys, listed), _NO_KEYS, _NO_ADDRESSES)
    good = pc.invert(strange)
    return ImportedPage(
        _entries(keys.filter(good), listed.filter(good)),
        keys.filter(strange),
        listed["address"].filter(strange),
    )


def _entries(keys: pa.ChunkedArray, listed: pa.Table) -> pa.Table:
    """Return entries under some keys for objects that were listed."""
    count = listed.num_rows
    etags = listed["etag"].combine_chunks()
    sizes = listed["size"]
    is_md5 = pc.match_substring_regex(etags, _MD5)
    marks = pc.binary_join_element_wise(ANY_PLACE, etags, ":")
    metadata = pa.MapArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32)),
        pa.array([CONTENT], pa.string()).take(pa.array(np.zeros(count, np.int32))),
        marks,
        ENTRY_SCHEMA.field("metadata").type,
    )
    columns = {
        "key": keys,
        "identity": pc.binary_join_element_wise(etags, sizes.cast(pa.string()), ":").cast(
            pa.binary()
        ),
        "address": listed["address"],
        "address_type": pa.array(np.full(count, AddressType.FULL, np.int8)),
        "size": sizes,
        "checksum": pc.if_else(is_md5, etags, ""),
        "mtime": listed["mtime"],
        "content_type": pa.array([""]).take(pa.array(np.zeros(count, np.int32))),
        "metadata": metadata,
    }
    return pa.table(columns, schema=ENTRY_SCHEMA)


def imported_object(info: ObjectInfo, key: bytes) -> ImportedPage:
    """Return the entry of one object."""
    row = {"address": str(info.address), "size": info.size, "mtime": info.mtime, "etag": info.etag}
    listed = pa.Table.from_pylist([row], schema=LIST_SCHEMA)
    keys = pa.chunked_array([[key]], pa.binary())
    return ImportedPage(_entries(keys, listed), _NO_KEYS, _NO_ADDRESSES)
