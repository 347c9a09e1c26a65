"""Reserved entry metadata: headers, tags, parts, checksum, content ETag, encryption and requests.

S3 clients set headers that accompany the bytes of an object (``Content-Encoding`` and others) and
tags, read single parts of a multipart upload, and request the checksum sent with the bytes. Entries
store all of this in their metadata, under keys with the prefix `RESERVED`: the files of commits
need no mostly empty columns, and commits, merges, copies and dumps carry it along unchanged.
Clients never see these keys: `metadata` of `ObjectStats` and `Difference` has only the user's own.

The storage's ETag is stored for objects that another client could overwrite (see `links`). It is
valid for one address only: a copy of the storage elsewhere has other ETags, and no URLs to write
it. An object linked before its upload is marked as *unverified* instead (see `etag_pins`), again
for one address.

The encryption requested from the storage is stored to tell it apart from that of objects written by
others, for one address too.

A conditional write stores the digest of its request, to detect a repeat, and digests of earlier
requests (see `repeats`). They are valid for one path and branch, so copies omit them.

Checksum, ETag, unverified mark, encryption and digests are not part of an entry's identity: equal
bytes are the same object for commits and merges, whatever their checksum algorithm, address or
reader.

Clients that can write metadata through the REST API can write these keys too, so values are
validated when read, and invalid values ignored.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from lakebed.block import PART_NUMBER_MAX, Address, Encryption, ETag
from lakebed.formats import Entry
from lakebed.formats.imported import ANY_PLACE, CONTENT
from lakebed.lake.checksums import Checksum

RESERVED: Final = "::lakebed::"
_HEADER: Final = f"{RESERVED}header::"
_PARTS: Final = f"{RESERVED}parts"
CHECKSUM: Final = f"{RESERVED}checksum"
UNVERIFIED: Final = f"{RESERVED}unverified"
ENCRYPTION: Final = f"{RESERVED}encryption"
REQUESTS: Final = f"{RESERVED}requests"
TAGS: Final = f"{RESERVED}tags"

OUTSIDE_IDENTITY: Final = frozenset({CHECKSUM, CONTENT, ENCRYPTION, REQUESTS, UNVERIFIED})
"""Metadata keys that are not part of an entry's identity."""
REPLACEABLE: Final = frozenset({CONTENT, UNVERIFIED})
"""Metadata keys of objects that another client could overwrite."""
OF_ONE_ADDRESS: Final = REPLACEABLE | {ENCRYPTION}
"""Metadata keys without meaning for a copy of the bytes at another address."""

HEADERS: Final = (
    "Cache-Control",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Expires",
)
"""The headers stored with an object. (The content type has a field of its own.)"""

_NAMES: Final = {_HEADER + name.lower(): name for name in HEADERS}

_PARTS_TEXT_MAX: Final = 1000
"""The sizes of the parts are not stored if they need more characters."""

_ETAG: Final = re.compile(r"[!#-~]{1,256}", re.ASCII)

_REQUEST: Final = re.compile(r"[0-9a-f]{28}", re.ASCII)

_RUNS: Final = re.compile(r"[0-9]{1,13}x[0-9]{1,5}(?:,[0-9]{1,13}x[0-9]{1,5})*", re.ASCII)


class Split(NamedTuple):
    """User metadata and reserved metadata of an entry."""

    user: Mapping[str, str]
    reserved: Mapping[str, str]


class PartRange(NamedTuple):
    """The bytes of a part within its object."""

    offset: int
    size: int


_NOTHING: Final[Mapping[str, str]] = {}


def split(metadata: Mapping[str, str]) -> Split:
    """Split metadata into the user's own and reserved keys."""
    if not any(name.startswith(RESERVED) for name in metadata):
        return Split(metadata, _NOTHING)
    reserved = {name: value for name, value in metadata.items() if name.startswith(RESERVED)}
    user = {name: value for name, value in metadata.items() if name not in reserved}
    return Split(user, reserved)


def for_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Encode some of `HEADERS` as metadata."""
    return {_HEADER + name.lower(): value for name, value in headers.items()}


def headers_of(reserved: Mapping[str, str]) -> dict[str, str]:
    """Return the stored headers."""
    return {
        _NAMES[name]: value
        for name, value in reserved.items()
        if name in _NAMES and value.isascii() and value.isprintable()
    }


def for_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Encode tags, if any, as metadata."""
    return {TAGS: json.dumps(dict(tags), ensure_ascii=False)} if tags else {}


def tags_of(reserved: Mapping[str, str]) -> dict[str, str]:
    """Return the stored tags."""
    if TAGS not in reserved:  # the usual case
        return {}
    try:
        tags = json.loads(reserved[TAGS])
    except (ValueError, RecursionError):
        return {}
    is_valid = isinstance(tags, dict) and all(isinstance(each, str) for each in tags.values())
    return tags if is_valid else {}


def for_parts(sizes: Sequence[int]) -> dict[str, str]:
    """Encode the sizes of an object's parts, in order, as metadata."""
    runs = (f"{size}x{len(list(same))}" for size, same in groupby(sizes))
    text = ",".join(runs)
    return {_PARTS: text} if len(text) <= _PARTS_TEXT_MAX else {}


def of_bytes(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an entry's metadata that describes its bytes and accompanies copies."""
    names = (_PARTS, CHECKSUM, *OF_ONE_ADDRESS)
    return {name: metadata[name] for name in names if name in metadata}


def parts_of(reserved: Mapping[str, str], size: int) -> list[PartRange] | None:
    """Return the parts of an object of `size` bytes, in order, or None if unknown."""
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
    """Encode the checksum of an object, if it has one, as metadata."""
    return {} if checksum is None else {CHECKSUM: str(checksum)}


def checksum_of(reserved: Mapping[str, str]) -> Checksum | None:
    """Return the stored checksum, or None."""
    return Checksum.parse(reserved[CHECKSUM]) if CHECKSUM in reserved else None


def for_encryption(address: Address, encryption: Encryption | None) -> dict[str, str]:
    """Encode the encryption with which an address was written, if any, as metadata."""
    return {} if encryption is None else {ENCRYPTION: f"{_place(address)}:{encryption}"}


def has_encryption(reserved: Mapping[str, str], address: Address, encryption: Encryption) -> bool:
    """Whether the object at an address was written with an encryption."""
    if ENCRYPTION not in reserved:  # the usual case
        return False
    return reserved[ENCRYPTION] == f"{_place(address)}:{encryption}"


def for_requests(digests: Sequence[str]) -> dict[str, str]:
    """Encode digests of requests, newest first, as metadata."""
    return {REQUESTS: ",".join(digests)} if digests else {}


def requests_of(entry: Entry | None) -> list[str]:
    """Return the request digests stored with an entry, newest first."""
    if entry is None or REQUESTS not in entry.metadata:  # the usual case
        return []
    return list(filter(_REQUEST.fullmatch, entry.metadata[REQUESTS].split(",")))


def for_content(address: Address, etag: ETag) -> dict[str, str]:
    """Encode the storage's ETag of an address as metadata."""
    return {CONTENT: f"{_place(address)}:{etag}"}


def content_of(reserved: Mapping[str, str], address: Address) -> ETag | None:
    """Return the stored ETag of an address, or None if it is unknown."""
    if CONTENT not in reserved:  # the usual case
        return None
    place, _, etag = reserved[CONTENT].partition(":")
    if not _ETAG.fullmatch(etag) or (place != ANY_PLACE and place != _place(address)):
        return None
    return ETag(etag)


def is_imported(reserved: Mapping[str, str]) -> bool:
    """Whether an object was imported."""
    return reserved.get(CONTENT, "").startswith(f"{ANY_PLACE}:")


def for_unverified(address: Address) -> dict[str, str]:
    """Return metadata to mark the object at an address as unverified."""
    return {UNVERIFIED: _place(address)}


def is_unverified(reserved: Mapping[str, str], address: Address) -> bool:
    """Whether the object at an address was linked without having been seen."""
    return UNVERIFIED in reserved and reserved[UNVERIFIED] == _place(address)


def _place(address: Address) -> str:
    return hashlib.sha256(str(address).encode()).hexdigest()[:16]
