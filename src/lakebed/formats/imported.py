"""Conversion of storage listings into imported entries, column by column.

An imported object is owned by another program, which may overwrite it. So its entry keeps the ETag
of the listing, and reads compare it (`lakebed.lake.entry_metadata`). The ETag is part of the
identity, too: an object overwritten and imported again is a changed object.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.content_types import content_type_of
from lakebed.formats.entries import ENTRY_SCHEMA, KEY_BYTES_MAX, AddressType
from lakebed.formats.files import FileType, one_array, required

CONTENT: Final = "::lakebed::content"
"""Metadata key with the location and the ETag of the object."""

ANY_PLACE: Final = "*"
"""Wildcard location, for an imported object: its full address is valid wherever the repository is
restored. A copy of the object's bytes does not keep it."""

# An empty component (including a trailing slash, which marks a folder), "." or "..", which
# intermediate programs may resolve, and control characters.
_STRANGE: Final = r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f]"
_SPACE, _DOT, _SLASH, _DELETE = 0x20, 0x2E, 0x2F, 0x7F
_PIECE: Final = 1 << 16
_LONGEST: Final = 1 << 20
"""Upper bound for the length of an address."""

_SUFFIX_BYTES: Final = len(".parquet")
_MD5_DIGITS: Final = 32
_ZERO, _A = np.frombuffer(b"0a", np.uint8)
_MD5: Final = "^[0-9a-f]{32}(-[0-9]{1,5})?$"

LISTING_SCHEMA: Final = pa.schema(
    [
        required("address", pa.string()),
        required("size", pa.int64()),
        required("mtime", ENTRY_SCHEMA.field("mtime").type),
        required("etag", pa.string()),
    ]
)
"""Columns of a listing, as in `lakebed.block.LIST_SCHEMA`."""

_LISTING: Final = FileType("import_listing", LISTING_SCHEMA)

_NO_KEYS: Final = pa.chunked_array([], pa.binary())
_NO_ADDRESSES: Final = pa.chunked_array([], pa.string())


@dataclass(frozen=True, slots=True)
class ImportedPage:
    """A page of imported objects, ordered by key."""

    entries: pa.Table
    skipped_keys: pa.ChunkedArray
    """Keys that objects which cannot be imported would have,"""
    skipped_addresses: pa.ChunkedArray
    """and their addresses."""

    @property
    def last_folder(self) -> str:
        """Address of the last entry's folder; empty without entries."""
        if not self.entries.num_rows:
            return ""
        address: str = self.entries["address"][-1].as_py()
        return address[: address.rindex("/") + 1]


def imported_page(listed: pa.Table, place: str, destination: bytes) -> ImportedPage:
    """Return the entries of listed objects, with `destination` instead of `place` in their keys."""
    listed = listed.combine_chunks()
    keys, strange = imported_keys(listed, place, destination)
    if strange is None:
        return ImportedPage(_entries(keys, listed), _NO_KEYS, _NO_ADDRESSES)
    good = pc.invert(strange)
    return ImportedPage(
        _entries(keys.filter(good), listed.filter(good)),
        pa.chunked_array([keys.filter(strange)]),
        listed["address"].filter(strange),
    )


def imported_keys(
    listed: pa.Table, place: str, destination: bytes
) -> tuple[pa.Array, pa.Array | None]:
    """Return the keys of listed objects, and a mask of invalid keys, or None if all are valid."""
    addresses = one_array(listed, "address").cast(pa.binary())
    begin = len(place.encode())
    # One Arrow call for all rows: joining strings row by row takes several times as long.
    keys = pc.binary_replace_slice(addresses, 0, begin, destination)
    too_long = pc.greater(pc.binary_length(keys), KEY_BYTES_MAX)
    if not _may_be_strange(keys, len(destination)) and not too_long.true_count:
        return keys, None
    strange = pc.or_(pc.match_substring_regex(paths_below(place, listed), _STRANGE), too_long)
    return keys, strange if strange.true_count else None


def paths_below(place: str, listed: pa.Table) -> pa.Array:
    """Return the paths of listed objects relative to `place`."""
    addresses = one_array(listed, "address").cast(pa.binary())
    return pc.binary_slice(addresses, len(place.encode()), _LONGEST).cast(pa.string())


def _may_be_strange(keys: pa.Array, begin: int) -> bool:
    """Return whether `_STRANGE` may match a path, which starts at `begin` in each key."""
    if not len(keys):
        return False
    bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset :][: len(keys) + 1]
    if np.diff(bounds).min() <= begin:
        return True  # a path is empty
    data = np.frombuffer(keys.buffers()[2], np.uint8)
    firsts, lasts = data[bounds[:-1] + begin], data[bounds[1:] - 1]
    return bool(
        ((firsts == _SLASH) | (firsts == _DOT)).any()
        or (lasts == _SLASH).any()
        or _has_strange_bytes(data[bounds[0] : bounds[-1]])
    )


def _has_strange_bytes(data: npt.NDArray[np.uint8]) -> bool:
    """Return whether bytes contain a control character, ``//`` or ``/.``.

    Keys are scanned together, in pieces that fit into the CPU cache, which takes a fraction of the
    time.
    """
    for place in range(0, len(data), _PIECE):
        piece = data[place : place + _PIECE + 1]
        is_slash = piece == _SLASH
        behind = is_slash[1:] | (piece[1:] == _DOT)
        if piece.min() < _SPACE or (piece == _DELETE).any() or (is_slash[:-1] & behind).any():
            return True
    return False


def encode_listing(listed: pa.Table) -> tuple[bytes, str]:
    """Return a file of listed objects, and its content id."""
    return _LISTING.encode(listed), _LISTING.content_id(listed)


def decode_listing(data: bytes, content_id: str, *, file: str) -> pa.Table:
    """Return the objects in a file after verifying its content id."""
    return _LISTING.decode(data, content_id=content_id, file=file)


def _entries(keys: pa.Array, listed: pa.Table) -> pa.Table:
    """Return entries with the given keys for listed objects."""
    count = listed.num_rows
    etags = one_array(listed, "etag")
    sizes = listed["size"]
    content_etags = pc.binary_replace_slice(etags, 0, 0, f"{ANY_PLACE}:")
    metadata = pa.MapArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32)),
        pa.repeat(CONTENT, count),
        content_etags,
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
        "checksum": _checksums(etags),
        "mtime": listed["mtime"],
        "content_type": _content_types(keys),
        "metadata": metadata,
    }
    return pa.table(columns, schema=ENTRY_SCHEMA)


def _content_types(keys: pa.Array) -> pa.Array:
    """Return the types by the ends of the keys, which have few distinct values."""
    ends = pc.binary_slice(keys, -_SUFFIX_BYTES).dictionary_encode()
    types = pa.array([_type_of(end) for end in ends.dictionary.to_pylist()], pa.string())
    return types.take(ends.indices)


@lru_cache(maxsize=1 << 16)
def _type_of(end: bytes) -> str:
    # The letter makes a whole suffix no hidden file.
    return content_type_of("x" + end.decode(errors="replace"))


def _checksums(etags: pa.Array) -> pa.Array:
    """Return the ETags that are MD5 digests, of whole or multipart uploads; others empty."""
    if not len(etags):
        return etags
    bounds = np.frombuffer(etags.buffers()[1], np.int32)[etags.offset :][: len(etags) + 1]
    if (np.diff(bounds) == _MD5_DIGITS).all():
        data = np.frombuffer(etags.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
        if _are_digits(data):
            return etags
    return pc.if_else(pc.match_substring_regex(etags, _MD5), etags, "")


def _are_digits(data: npt.NDArray[np.uint8]) -> bool:
    """Return whether all bytes are hexadecimal digits; smaller bytes wrap around to high values."""
    for place in range(0, len(data), _PIECE):
        piece = data[place : place + _PIECE]
        if not ((piece - _ZERO < 10) | (piece - _A < 6)).all():  # noqa: PLR2004 - the digits
            return False
    return True


def imported_object(listed: pa.Table, key: bytes) -> ImportedPage:
    """Return the entry of one object, given as a row of a listing."""
    keys = pa.array([key], pa.binary())
    return ImportedPage(_entries(keys, listed), _NO_KEYS, _NO_ADDRESSES)


def listed_of(entries: pa.Table) -> pa.Table | None:
    """Return the listing from which entries were imported, or None if any was not imported."""
    maps = one_array(entries, "metadata")
    begin, end = ANY_PLACE + ":", entries.num_rows
    offsets = maps.offsets.to_numpy()
    first = int(offsets[0])
    content_etags = maps.items.slice(first, int(offsets[-1]) - first)
    if not np.array_equal(offsets - first, np.arange(end + 1)):
        return None
    columns = [
        entries["address"],
        entries["size"],
        entries["mtime"],
        pc.utf8_slice_codeunits(content_etags, len(begin)),
    ]
    return pa.table(columns, schema=LISTING_SCHEMA)
