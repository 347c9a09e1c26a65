"""What the catalog keeps in the metadata of an entry for itself: headers, parts, marks of bytes.

Clients of S3 set headers that go with the bytes wherever they are read (``Content-Encoding`` and
others). They may ask for one part of an object that was uploaded in parts, and for the checksum
that came with the bytes. All this is kept in the entry's metadata, under names that begin with
`RESERVED`. So the files of commits need no columns that nearly every row leaves empty, and commits,
merges, copies and dumps carry it along without knowing of it. No client sees these names: what the
catalog returns (`ObjectStats`, `Difference`) has only the user's own in its `metadata`.

The ETag of the storage is kept with objects that somebody else could write again (see `links`). It
holds for one address: a copy of the storage in another place has other ETags, and nobody has a URL
to write there. An object that was linked before it was there is marked as *unverified* instead (see
`pins`), and this mark holds for one address too.

A conditional write keeps a digest of its request, by which a repeat of it is recognised, and those
of the requests before it (see `repeats`). They hold for the path and the branch that were written
to; copies go without them.

Checksum, ETag, mark and digests are not part of an entry's identity: the same bytes are the same
object, for commits and merges, whatever algorithm a client used, wherever they are and whoever saw
them.

Whoever can write metadata by the REST API can write these names too. So what is read is checked,
and what makes no sense is ignored.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from lakebed.block import PART_NUMBER_MAX, Address, ETag
from lakebed.formats import Entry
from lakebed.formats.imported import ANY_PLACE, CONTENT
from lakebed.lake.checksums import Checksum

RESERVED: Final = "::lakebed::"
_HEADER: Final = f"{RESERVED}header::"
_PARTS: Final = f"{RESERVED}parts"
CHECKSUM: Final = f"{RESERVED}checksum"
UNVERIFIED: Final = f"{RESERVED}unverified"
REQUESTS: Final = f"{RESERVED}requests"

OUTSIDE_IDENTITY: Final = frozenset({CHECKSUM, CONTENT, REQUESTS, UNVERIFIED})
"""What objects may differ in and still count as the same."""
OF_ONE_ADDRESS: Final = frozenset({CONTENT, UNVERIFIED})
"""What means nothing for a copy of the bytes at another address."""

HEADERS: Final = (
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Expires",
)
"""The headers that are kept. (The content type has a place of its own.)"""

_NAMES: Final = {_HEADER + name.lower(): name for name in HEADERS}

_PARTS_TEXT_MAX: Final = 1000
"""If the sizes of the parts do not fit into so many characters, they are not kept."""

_ETAG: Final = re.compile(r"[!#-~]{1,256}", re.ASCII)

_REQUEST: Final = re.compile(r"[0-9a-f]{28}", re.ASCII)

_RUNS: Final = re.compile(r"[0-9]{1,13}x[0-9]{1,5}(?:,[0-9]{1,13}x[0-9]{1,5})*", re.ASCII)


class Split(NamedTuple):
    """The metadata of an entry, split in two."""

    user: Mapping[str, str]
    reserved: Mapping[str, str]


class PartRange(NamedTuple):
    """Where a part of an object is."""

    offset: int
    size: int


_NOTHING: Final[Mapping[str, str]] = {}


def split(metadata: Mapping[str, str]) -> Split:
    """Split metadata into the user's own and what is reserved."""
    if not any(name.startswith(RESERVED) for name in metadata):
        return Split(metadata, _NOTHING)
    reserved = {name: value for name, value in metadata.items() if name.startswith(RESERVED)}
    user = {name: value for name, value in metadata.items() if name not in reserved}
    return Split(user, reserved)


def for_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that keep some of `HEADERS`."""
    return {_HEADER + name.lower(): value for name, value in headers.items()}


def headers_of(reserved: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that are kept."""
    return {
        _NAMES[name]: value
        for name, value in reserved.items()
        if name in _NAMES and value.isascii() and value.isprintable()
    }


def for_parts(sizes: Sequence[int]) -> dict[str, str]:
    """Return the metadata that keep the sizes of an object's parts, in their order."""
    runs = (f"{size}x{len(list(same))}" for size, same in groupby(sizes))
    text = ",".join(runs)
    return {_PARTS: text} if len(text) <= _PARTS_TEXT_MAX else {}


def of_bytes(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that describe the bytes of an entry, and go wherever they go."""
    names = (_PARTS, CHECKSUM, CONTENT, UNVERIFIED)
    return {name: metadata[name] for name in names if name in metadata}


def parts_of(reserved: Mapping[str, str], size: int) -> list[PartRange] | None:
    """Return the parts of an object of a size, in their order; None: they are not known."""
    text = reserved.get(_PARTS, "")
    if len(text) > _PARTS_TEXT_MAX or not _RUNS.fullmatch(text):
        return None
    runs = [tuple(map(int, run.split("x"))) for run in text.split(",")]
    if sum(count for _, count in runs) > PART_NUMBER_MAX:
        return None
    sizes = [part_size for part_size, count in runs for _ in range(count)]
    ends = list(accumulate(sizes))
    if ends[-1:] != [size]:
        return None
    return [
        PartRange(end - part_size, part_size) for end, part_size in zip(ends, sizes, strict=True)
    ]


def for_checksum(checksum: Checksum | None) -> dict[str, str]:
    """Return the metadata that keep the checksum of an object, if it has one."""
    return {} if checksum is None else {CHECKSUM: str(checksum)}


def checksum_of(reserved: Mapping[str, str]) -> Checksum | None:
    """Return the checksum that is kept."""
    return Checksum.parse(reserved[CHECKSUM]) if CHECKSUM in reserved else None


def for_requests(digests: Sequence[str]) -> dict[str, str]:
    """Return the metadata that keep the digests of requests, the newest first."""
    return {REQUESTS: ",".join(digests)} if digests else {}


def requests_of(entry: Entry | None) -> list[str]:
    """Return the digests of requests that are kept with an entry, the newest first."""
    if entry is None or REQUESTS not in entry.metadata:  # as nearly always
        return []
    return list(filter(_REQUEST.fullmatch, entry.metadata[REQUESTS].split(",")))


def for_content(address: Address, etag: ETag) -> dict[str, str]:
    """Return the metadata that keep what the storage calls the content at an address."""
    return {CONTENT: f"{_place(address)}:{etag}"}


def content_of(reserved: Mapping[str, str], address: Address) -> ETag | None:
    """Return what the storage called the content at an address; None: that was not kept."""
    if CONTENT not in reserved:  # as nearly always
        return None
    place, _, etag = reserved[CONTENT].partition(":")
    if not _ETAG.fullmatch(etag) or (place != ANY_PLACE and place != _place(address)):
        return None
    return ETag(etag)


def is_imported(reserved: Mapping[str, str]) -> bool:
    """Whether an object was imported, by what is kept with it."""
    return reserved.get(CONTENT, "").startswith(f"{ANY_PLACE}:")


def for_unverified(address: Address) -> dict[str, str]:
    """Return the metadata that say that nobody has seen the object at an address."""
    return {UNVERIFIED: _place(address)}


def is_unverified(reserved: Mapping[str, str], address: Address) -> bool:
    """Whether nobody had seen the object at an address when its entry was made."""
    return UNVERIFIED in reserved and reserved[UNVERIFIED] == _place(address)


def _place(address: Address) -> str:
    return hashlib.sha256(str(address).encode()).hexdigest()[:16]
