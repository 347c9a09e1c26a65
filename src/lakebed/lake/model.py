"""Objects as shown to clients, their identity and their limits."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from lakebed.block import Address, InvalidAddress, Namespace
from lakebed.engine.model import Repository, size_of
from lakebed.formats import AddressType, Entry
from lakebed.formats.entries import KEY_BYTES_MAX
from lakebed.formats.imported import CONTENT
from lakebed.formats.object_paths import ObjectPath
from lakebed.lake.entry_metadata import OUTSIDE_IDENTITY, TAGS, split
from lakebed.lake.errors import InvalidMetadata, InvalidPath, UnreadableAddress

PATH_BYTES_MAX: Final = KEY_BYTES_MAX
"""The limit of S3, within the key size of every store."""
METADATA_BYTES_MAX: Final = 8 << 10
METADATA_NAMES_MAX: Final = 64
"""Limits of an object's metadata. S3 returns metadata as headers. Many clients and proxies accept
at most 16 KiB of headers, some at most 100 of them; encoding non-ASCII text adds half its size."""
_TAGS_BYTES_MAX: Final = 16 << 10
"""The limit of stored tags, which are not returned as headers: more than 10 tags of S3 take."""
_HEADER_CHARACTERS_MAX: Final = 1024
_DERIVED_DIGITS: Final = 40


class PinKey(NamedTuple):
    """The key of the record that pins an unverified object; see `etag_pins`."""

    partition: bytes
    """Partition of the store."""
    address: ObjectPath


@dataclass(frozen=True, slots=True)
class SeenAt:
    """The repository and ref that an object was read from."""

    repository: Repository
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStats:
    """An object as shown by a ref."""

    path: bytes
    location: Address | str
    """The object's address, or the entry's text if it is no valid address."""
    size: int
    """In bytes."""
    checksum: str
    """The ETag shown to clients: the hexadecimal MD5 of an object uploaded here; see `etag_of`."""
    mtime: datetime
    content_type: str
    metadata: Mapping[str, str] = field(hash=False)
    """The user's own metadata."""
    reserved: Mapping[str, str] = field(hash=False, default_factory=dict)
    """Metadata reserved for the catalog; see `entry_metadata`."""
    pin: PinKey | None = field(default=None, compare=False)
    """Set by `etag_pins.with_pin` for unverified objects."""
    seen_at: SeenAt | None = field(default=None, compare=False)
    """Set by `Objects.stat`."""

    @property
    def has_address(self) -> bool:
        return not isinstance(self.location, str)

    @property
    def address(self) -> Address:
        """The object's address; raises `UnreadableAddress` if the entry's address is invalid."""
        if isinstance(self.location, str):
            raise UnreadableAddress(self.path, self.location)
        return self.location


@dataclass(frozen=True, slots=True)
class PresignedURL:
    """A URL that grants read or write access to one object for a limited time."""

    url: str
    expires: datetime


def etag_of(entry: Entry) -> str:
    """Return the ETag of an entry: its checksum, or one derived from identity and address.

    An imported object has no checksum unless its storage reports an MD5. Its identity includes the
    storage's ETag, so the derived ETag changes when the object does.
    """
    return entry.checksum or derived_etag(entry.identity, entry.address)


def derived_etag(identity: bytes, address: str) -> str:
    """Return the ETag of an entry without a checksum.

    Clients that verify downloads take 32 hexadecimal digits for an MD5, and older Java SDKs
    anything without a hyphen. The derived ETag has 40 digits and a hyphen.
    """
    digest = hashlib.sha256(len(identity).to_bytes(8, "big") + identity + address.encode())
    return f"{digest.hexdigest()[:_DERIVED_DIGITS]}-1"


def stats_of(namespace: Namespace, entry: Entry, seen_at: SeenAt | None = None) -> ObjectStats:
    """Describe an entry in a repository's namespace."""
    return stats_at(location_of(namespace, entry.address, entry.address_type), entry, seen_at)


def stats_at(location: Address | str, entry: Entry, seen_at: SeenAt | None = None) -> ObjectStats:
    """Describe an entry whose bytes are at `location`."""
    user, reserved = split(entry.metadata)
    return ObjectStats(
        path=entry.key,
        location=location,
        size=entry.size,
        checksum=etag_of(entry),
        mtime=entry.mtime,
        content_type=entry.content_type,
        metadata=user,
        reserved=reserved,
        seen_at=seen_at,
    )


def physical_address(namespace: Namespace, entry: Entry) -> Address:
    """Return the address of an entry's bytes, in canonical form."""
    return address_in(namespace, entry.address, entry.address_type)


def location_of(namespace: Namespace, text: str, address_type: AddressType) -> Address | str:
    """Return the address of an entry, or the text itself if it is no valid address.

    Listings must not fail on such entries, migrated before addresses were checked.
    """
    try:
        return address_in(namespace, text, address_type)
    except InvalidAddress:
        return text


def address_in(namespace: Namespace, text: str, address_type: AddressType) -> Address:
    """Parse the address of an entry in a repository's namespace."""
    if address_type is AddressType.RELATIVE:
        return namespace.address(text)
    return Address.parse(text)


def new_entry(
    path: bytes,
    address: str,
    *,
    address_type: AddressType = AddressType.RELATIVE,
    size: int,
    checksum: str,
    modified: float,
    content_type: str,
    metadata: Mapping[str, str],
) -> Entry:
    """Build the entry of an object with its identity; `modified` is in seconds since 1970."""
    return Entry(
        key=path,
        identity=identity_of(size, checksum, content_type, metadata),
        address=address,
        address_type=address_type,
        size=size,
        checksum=checksum,
        mtime=datetime.fromtimestamp(modified, UTC),
        content_type=content_type,
        metadata=dict(metadata),
    )


def identity_of(size: int, checksum: str, content_type: str, metadata: Mapping[str, str]) -> bytes:
    """Return the identity of an object: a hash of its properties except address and time.

    Uploading the same bytes again yields the same identity, and so no change, whatever S3 checksum
    or storage ETag accompanies them. Each part is hashed with its length, so that the encoding is
    injective.
    """
    digest = hashlib.sha256(size.to_bytes(8, "big"))
    # An imported object may lack a checksum: then only its ETag identifies the content.
    outside = OUTSIDE_IDENTITY if checksum else OUTSIDE_IDENTITY - {CONTENT}
    counting = sorted(item for item in metadata.items() if item[0] not in outside)
    items = [text for item in counting for text in item]
    for text in (checksum, content_type, *items):
        part = text.encode()
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def check_path(path: bytes) -> None:
    """Raise `InvalidPath` if the path of an object is empty or too long."""
    if not path:
        raise InvalidPath("the path of an object must not be empty")
    if len(path) > PATH_BYTES_MAX:
        raise InvalidPath(
            f"the object path has {len(path)} bytes; at most {PATH_BYTES_MAX} are allowed"
        )


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Raise `InvalidMetadata` if metadata does not fit into the headers of an S3 response."""
    if len(metadata) > METADATA_NAMES_MAX:
        raise InvalidMetadata(
            f"the object metadata has {len(metadata)} names; at most {METADATA_NAMES_MAX} are"
            " allowed"
        )
    tags = {name: value for name, value in metadata.items() if name == TAGS}
    size = size_of(metadata) - min(size_of(tags), _TAGS_BYTES_MAX)
    if size > METADATA_BYTES_MAX:
        raise InvalidMetadata(
            f"the object metadata has {size} bytes of names and values; at most"
            f" {METADATA_BYTES_MAX} are allowed"
        )


def check_header(what: str, text: str) -> None:
    """Raise `InvalidMetadata` if a text, such as a content type, cannot be a response header."""
    if len(text) > _HEADER_CHARACTERS_MAX or not (text.isascii() and text.isprintable()):
        raise InvalidMetadata(
            f"the {what} of an object must be printable ASCII of at most {_HEADER_CHARACTERS_MAX}"
            f" characters; this one has {len(text)}"
        )
