"""From what a storage lists to entries of a branch, column by column.

An imported object belongs to somebody else, who may write it again. So its entry keeps the ETag
that the storage listed, and reads compare it (`lakebed.lake.entry_metadata`). The ETag is part
of the identity too: an object that was written again and imported again is another one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.entries import ENTRY_SCHEMA, KEY_BYTES_MAX, AddressType
from lakebed.formats.parquet import FileType, one_array, required

CONTENT: Final = "::lakebed::content"
"""Under this name the metadata of an entry has the place and the ETag of the object."""

ANY_PLACE: Final = "*"
"""Instead of the place: wherever the entry says. Of an imported object, whose address is a whole
one: it names the same object wherever the repository is restored to. A copy of its bytes does not
take the mark along."""

# An empty component (also a slash at the end, which marks a folder), "." or "..", which programs on
# the way may resolve, and control characters.
_STRANGE: Final = r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f]"
_SPACE, _DOT, _SLASH, _DELETE = 0x20, 0x2E, 0x2F, 0x7F
_PIECE: Final = 1 << 16
_LONGEST: Final = 1 << 20
"""Where a slice of an address ends that has no end."""

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
"""The columns of a listing, as `lakebed.block.LIST_SCHEMA` has them."""

_LISTING: Final = FileType("import_listing", LISTING_SCHEMA)

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

    @property
    def last_folder(self) -> str:
        """The address of the folder that the last entry is in; empty: there are no entries."""
        if not self.entries.num_rows:
            return ""
        address: str = self.entries["address"][-1].as_py()
        return address[: address.rindex("/") + 1]


def imported_page(listed: pa.Table, place: str, destination: bytes) -> ImportedPage:
    """Return the entries of objects that were listed.

    Args:
        listed: With the columns of `lakebed.block.LIST_SCHEMA`.
        place: What the addresses begin with; it is left out of the keys.
        destination: What the keys begin with instead.
    """
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
    """Return the keys of objects that were listed, and which cannot be imported; None: all can."""
    addresses = one_array(listed, "address").cast(pa.binary())
    begin = len(place.encode())
    # One step of Arrow for all rows: to join texts row by row takes several times as long.
    keys = pc.binary_replace_slice(addresses, 0, begin, destination)
    too_long = pc.greater(pc.binary_length(keys), KEY_BYTES_MAX)
    if not _may_be_strange(keys, len(destination)) and not too_long.true_count:
        return keys, None
    paths = pc.binary_slice(addresses, begin, _LONGEST)
    strange = pc.or_(pc.match_substring_regex(paths.cast(pa.string()), _STRANGE), too_long)
    return keys, strange if strange.true_count else None


def _may_be_strange(keys: pa.Array, begin: int) -> bool:
    """Whether `_STRANGE` may match a path; if not, it need not be tried on each.

    Args:
        keys: Which end with the paths.
        begin: Where the path begins in each of them.
    """
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
    """Whether a control character, or a slash with a slash or a dot behind it, is among bytes.

    All bytes are looked at together, whichever key they belong to, in pieces that stay in the
    cache of the processor: both take a fraction of the time.
    """
    for place in range(0, len(data), _PIECE):
        piece = data[place : place + _PIECE + 1]
        is_slash = piece == _SLASH
        behind = is_slash[1:] | (piece[1:] == _DOT)
        if piece.min() < _SPACE or (piece == _DELETE).any() or (is_slash[:-1] & behind).any():
            return True
    return False


def encode_listing(listed: pa.Table) -> tuple[bytes, str]:
    """Return a file of objects that were listed, and the id of its content."""
    return _LISTING.encode(listed), _LISTING.content_id(listed)


def decode_listing(data: bytes, content_id: str, *, file: str) -> pa.Table:
    """Return the objects in a file, proven to be those with this id.

    Raises:
        DamagedFile: The file does not hold them.
        ForeignFile: It is not such a file, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return _LISTING.decode(data, content_id=content_id, file=file)


def _entries(keys: pa.Array, listed: pa.Table) -> pa.Table:
    """Return entries under some keys for objects that were listed."""
    count = listed.num_rows
    etags = one_array(listed, "etag")
    sizes = listed["size"]
    marks = pc.binary_replace_slice(etags, 0, 0, f"{ANY_PLACE}:")
    metadata = pa.MapArray.from_arrays(
        pa.array(np.arange(count + 1, dtype=np.int32)),
        pa.repeat(CONTENT, count),
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
        "checksum": _checksums(etags),
        "mtime": listed["mtime"],
        "content_type": pa.repeat("", count),
        "metadata": metadata,
    }
    return pa.table(columns, schema=ENTRY_SCHEMA)


def _checksums(etags: pa.Array) -> pa.Array:
    """Return those ETags that are an MD5, or one of an object that was uploaded in parts."""
    if not len(etags):
        return etags
    bounds = np.frombuffer(etags.buffers()[1], np.int32)[etags.offset :][: len(etags) + 1]
    if (np.diff(bounds) == _MD5_DIGITS).all():
        data = np.frombuffer(etags.buffers()[2] or b"", np.uint8)[bounds[0] : bounds[-1]]
        if _are_digits(data):
            return etags
    return pc.if_else(pc.match_substring_regex(etags, _MD5), etags, "")


def _are_digits(data: npt.NDArray[np.uint8]) -> bool:
    """Whether all bytes are hexadecimal digits; what is below a bound wraps around, and is high."""
    for place in range(0, len(data), _PIECE):
        piece = data[place : place + _PIECE]
        if not ((piece - _ZERO < 10) | (piece - _A < 6)).all():  # noqa: PLR2004 - the digits
            return False
    return True


def imported_object(listed: pa.Table, key: bytes) -> ImportedPage:
    """Return the entry of one object, which has a row as in a listing."""
    keys = pa.array([key], pa.binary())
    return ImportedPage(_entries(keys, listed), _NO_KEYS, _NO_ADDRESSES)


def listed_of(entries: pa.Table) -> pa.Table | None:
    """Return what imported entries were made of; None: one of them was not imported."""
    maps = one_array(entries, "metadata")
    begin, end = ANY_PLACE + ":", entries.num_rows
    offsets = maps.offsets.to_numpy()
    first = int(offsets[0])
    marks = maps.items.slice(first, int(offsets[-1]) - first)
    if not np.array_equal(offsets - first, np.arange(end + 1)):
        return None
    columns = [
        entries["address"],
        entries["size"],
        entries["mtime"],
        pc.utf8_slice_codeunits(marks, len(begin)),
    ]
    return pa.table(columns, schema=LISTING_SCHEMA)
