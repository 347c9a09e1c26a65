"""Objects as the catalog shows them, and how an object becomes an entry."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from lakebed.block import Address, InvalidAddress, Namespace
from lakebed.engine.model import Repository
from lakebed.formats import AddressType, Entry
from lakebed.formats.entries import KEY_BYTES_MAX
from lakebed.formats.imported import CONTENT
from lakebed.formats.object_paths import ObjectPath
from lakebed.lake.entry_metadata import OUTSIDE_IDENTITY, split
from lakebed.lake.errors import InvalidMetadata, InvalidPath, UnreadableAddress

DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"

PATH_BYTES_MAX: Final = KEY_BYTES_MAX
"""As with S3; every store can hold it."""
METADATA_BYTES_MAX: Final = 8 << 10
METADATA_NAMES_MAX: Final = 64
"""Of an object. S3 answers its metadata in headers. Many clients and proxies take 16 KiB of them
and no more, some a hundred; text that is not ASCII grows by half on the way."""
_HEADER_CHARACTERS_MAX: Final = 1024
_DERIVED_DIGITS: Final = 40


class PinKey(NamedTuple):
    """Which record says what the first reader of an unverified object found; see `pins`."""

    partition: bytes
    """Of the store."""
    address: ObjectPath


@dataclass(frozen=True, slots=True)
class SeenAt:
    """Where an object was found."""

    repository: Repository
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStats:
    """An object as a ref shows it."""

    path: bytes
    location: Address | str
    """Where its bytes are; a text if the entry has an address that cannot be read."""
    size: int
    """In bytes."""
    checksum: str
    """The ETag that clients see: of an object that was uploaded here, the MD5 of its bytes in
    hexadecimal; see `etag_of`."""
    mtime: datetime
    content_type: str
    metadata: Mapping[str, str] = field(hash=False)
    """The user's own."""
    reserved: Mapping[str, str] = field(hash=False, default_factory=dict)
    """What the catalog keeps with it; see `entry_metadata`."""
    pin: PinKey | None = field(default=None, compare=False)
    """If it was linked before anybody had seen it, and `pins.with_pin` described it."""
    seen_at: SeenAt | None = field(default=None, compare=False)
    """Where `Objects.stat` found it."""

    @property
    def has_address(self) -> bool:
        """Whether `address` can be read."""
        return not isinstance(self.location, str)

    @property
    def address(self) -> Address:
        """Where its bytes are.

        Raises:
            UnreadableAddress: The entry has an address that cannot be read.
        """
        if isinstance(self.location, str):
            raise UnreadableAddress(self.path, self.location)
        return self.location


@dataclass(frozen=True, slots=True)
class PresignedURL:
    """A URL that lets its holder read, or write, one object for a while."""

    url: str
    expires: datetime


def etag_of(entry: Entry) -> str:
    """Return the ETag of an entry: its checksum, or else one derived from identity and address.

    An imported object has no checksum unless its storage names the MD5 of the bytes. Its identity
    holds the ETag of the storage, so that the derived one changes when the object does.
    """
    return entry.checksum or derived_etag(entry.identity, entry.address)


def derived_etag(identity: bytes, address: str) -> str:
    """Return the ETag of an entry without a checksum.

    Clients that verify downloads take 32 hexadecimal digits for an MD5, and older SDKs for Java
    take anything without a hyphen for one: this has 40 digits and a hyphen.
    """
    digest = hashlib.sha256(len(identity).to_bytes(8, "big") + identity + address.encode())
    return f"{digest.hexdigest()[:_DERIVED_DIGITS]}-1"


def stats_of(namespace: Namespace, entry: Entry, seen_at: SeenAt | None = None) -> ObjectStats:
    """Return what is known of an entry in a repository's namespace."""
    return stats_at(location_of(namespace, entry.address, entry.address_type), entry, seen_at)


def stats_at(location: Address | str, entry: Entry, seen_at: SeenAt | None = None) -> ObjectStats:
    """Return what is known of an entry whose bytes are at a place."""
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
    """Return where the bytes of an entry are, in the one canonical form."""
    return address_in(namespace, entry.address, entry.address_type)


def location_of(namespace: Namespace, text: str, address_type: AddressType) -> Address | str:
    """Return the address that an entry holds; the text itself if it is none.

    A listing goes on past such an entry: it moved in before addresses were checked.
    """
    try:
        return address_in(namespace, text, address_type)
    except InvalidAddress:
        return text


def address_in(namespace: Namespace, text: str, address_type: AddressType) -> Address:
    """Return the address that an entry in a repository's namespace holds as a text."""
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
    """Return the entry of an object, with its identity; `modified` is in seconds since 1970."""
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
    """Return the identity of an object: a hash of all that is known of it, except where and when.

    The same bytes uploaded again have the same identity, and so change nothing, with whatever
    checksum they come and whatever the storage calls them. Every part goes in with its length, so
    that no two objects hash alike.
    """
    digest = hashlib.sha256(size.to_bytes(8, "big"))
    # Of an imported object there may be no checksum: then its ETag alone says what it is.
    outside = OUTSIDE_IDENTITY if checksum else OUTSIDE_IDENTITY - {CONTENT}
    counting = sorted(item for item in metadata.items() if item[0] not in outside)
    items = [text for item in counting for text in item]
    for text in (checksum, content_type, *items):
        part = text.encode()
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def check_path(path: bytes) -> None:
    """Refuse what cannot be the path of an object.

    Raises:
        InvalidPath: It is empty, or too long.
    """
    if not path:
        raise InvalidPath("the path of an object must not be empty")
    if len(path) > PATH_BYTES_MAX:
        raise InvalidPath(
            f"the path of an object has at most {PATH_BYTES_MAX} bytes, and this one has"
            f" {len(path)}"
        )


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Refuse metadata that S3 could not answer in the headers of a response.

    Raises:
        InvalidMetadata: There is too much of it.
    """
    if len(metadata) > METADATA_NAMES_MAX:
        raise InvalidMetadata(
            f"the metadata of an object has at most {METADATA_NAMES_MAX} names, and this has"
            f" {len(metadata)}"
        )
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise InvalidMetadata(
            f"the metadata of an object has at most {METADATA_BYTES_MAX} bytes, names and values"
            f" together, and this has {size}"
        )


def check_header(what: str, text: str) -> None:
    """Refuse a text that cannot be a header of a response, as content types and checksums are.

    Raises:
        InvalidMetadata: It is too long, or has characters that no header has.
    """
    if len(text) > _HEADER_CHARACTERS_MAX or not (text.isascii() and text.isprintable()):
        raise InvalidMetadata(
            f"the {what} of an object has at most {_HEADER_CHARACTERS_MAX} characters, all of them"
            f" printable ASCII; this one has {len(text)}"
        )
