"""Object storage as a database: each record is an object.

Small values, which are nearly all, are stored in an object's metadata, so that one request lists
many records with their values. Each call has the latency of an object storage request: suited to
small installations without a database.

**Order.** Object names are text. Partitions and keys are encoded in a base 64 variant with digits
in code order, so a listing is in byte order of the keys.

**Delayed writes.** A request may be applied after its client gave up, so the driver uses
`lakebed.kv.fenced`. Tombstones are kept for a week, far longer than the credentials of any request
are valid. A listing of a partition then removes the expired tombstones that it meets;
`drop_tombstones` removes those of partitions that are never listed again.
"""

import struct
from abc import abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.kv.errors import OutcomeUnknown, StoreUnavailable
from lakebed.kv.fenced import Cell, CellDatabase, CellPage
from lakebed.kv.store import VERSION_BYTES, Limits, Version

_REMEMBERED: Final = 10_000


class ETagCells(CellDatabase):
    """A database with an ETag or a generation per record.

    A stamp is written once, so it corresponds to exactly one ETag, and a condition on the ETag is a
    condition on the stamp. This mapping never becomes stale: the ETags of the last stamps are
    cached, and the record is read if its ETag is not cached.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._etags: LRU[bytes, str] = LRU(runtime, cost_max=_REMEMBERED)

    @abstractmethod
    def _find(self, partition: bytes, key: bytes) -> tuple[Cell, str] | None:
        """Return the cell of a key and its ETag. Raises as `CellDatabase.read`."""

    @abstractmethod
    def _write(self, partition: bytes, key: bytes, etag: str | None, new: Cell) -> str | None:
        """Write a cell if the record has this ETag; None: if it does not exist.

        Returns:
            The new ETag, or None if the condition did not hold. Raises as `CellDatabase.swap`.
        """

    def _remember(self, cell: Cell, etag: str) -> None:
        self._etags.put(cell.stamp, etag)

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        found = self._find(partition, key)
        if found is None:
            return None
        self._remember(*found)
        return found[0]

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        etag = None
        if stamp is not None:
            etag = self._etags.get(stamp)
            if etag is None:
                found = self._find(partition, key)
                if found is None or found[0].stamp != stamp:
                    return None if found is None else found[0]
                etag = found[1]
        written = self._write(partition, key, etag, new)
        if written is None:
            return self.read(partition, key)
        self._remember(new, written)
        return new


TOMBSTONE_SECONDS: Final = 7 * 24 * 3600.0
REMOVED_AT_ONCE: Final = 64
"""Maximum number of expired tombstones that a page removes; the next page continues."""

FIELD: Final = "lakebed"
"""Name of the only metadata field."""
SEPARATOR: Final = "."
"""Between partition and key; not a slash, which some tools take for a folder."""

_CHANGES: Final = 10
"""How often a large value may change during a read."""
_INLINE_BYTES: Final = 4096
"""The limit of metadata is 8 KiB, and base 64 adds a third."""

# The version, the stamp, the location of the value, and the expiry time of a tombstone.
_HEAD: Final = struct.Struct(f">{VERSION_BYTES}s{VERSION_BYTES}sBd")
_USUAL_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_ORDERED_DIGITS: Final = bytes(sorted(b"-_" + _USUAL_DIGITS[:-2]))
_TO_ORDERED: Final = bytes.maketrans(_USUAL_DIGITS, _ORDERED_DIGITS)
_FROM_ORDERED: Final = bytes.maketrans(_ORDERED_DIGITS, _USUAL_DIGITS)


class _Place(IntEnum):
    """Location of a cell's value."""

    ABSENT = 0
    METADATA = 1
    BODY = 2


class Found(NamedTuple):
    """An object, without its body."""

    name: str
    metadata: Mapping[str, str]
    etag: str
    """The ETag or generation compared by the service: unique for each content."""


class ObjectCells(ETagCells):
    """The objects of a bucket; a driver implements the requests."""

    # A name has 1,024 characters: 340 for the partition, one separator, 680 for the key.
    limits = Limits(partition_bytes=255, key_bytes=510, value_bytes=16 << 20)
    shared_between_processes = True
    tombstone_seconds = TOMBSTONE_SECONDS
    erases = True

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._runtime = runtime

    @abstractmethod
    def _head(self, name: str) -> Found | None:
        """Return an object, or None if it does not exist."""

    @abstractmethod
    def _body(self, found: Found) -> bytes | None:
        """Return the body of an object, or None if it has changed. Raises as `_head`."""

    @abstractmethod
    def _put(
        self, name: str, etag: str | None, metadata: dict[str, str], body: bytes
    ) -> str | None:
        """Write an object if it has this ETag; None: if it does not exist.

        Returns:
            The new ETag, or None if the condition did not hold.

        Raises:
            StoreUnavailable: The service refused, or was never called: the write will not be
                applied.
            OutcomeUnknown: No reply; the write may have been applied, or may be later.
        """

    @abstractmethod
    def _list(
        self, prefix: str, first: str, limit: int, token: str | None
    ) -> tuple[list[Found], str | None]:
        """Return a page of a listing from `first`, and the next token. Raises as `_head`."""

    @abstractmethod
    def _remove(self, name: str, etag: str) -> None:
        """Delete an object if it still has this ETag.

        Raises:
            OutcomeUnknown: The object may have been deleted, or may be later.
        """

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        prefix = object_name(partition)
        # A start longer than any key sorts right after its truncation.
        first = object_name(partition, start[: self.limits.key_bytes])
        listed: list[tuple[bytes, Found]] = []
        token: str | None = None
        while not listed:
            page, token = self._list(prefix, first, limit, token)
            keyed = ((decode(found.name.removeprefix(prefix)), found) for found in page)
            listed = [(key, found) for key, found in keyed if key >= start]
            if token is None:
                return self._cells(partition, listed), None
        return self._cells(partition, listed), listed[-1][0] + b"\x00"

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        etag = self._etags.get(stamp)
        if etag is None:
            found = self._find(partition, key)
            if found is None or found[0].stamp != stamp:
                return
            etag = found[1]
        self._remove(object_name(partition, key), etag)

    def _write(self, partition: bytes, key: bytes, etag: str | None, new: Cell) -> str | None:
        return self._put(object_name(partition, key), etag, *stored(new))

    def _find(self, partition: bytes, key: bytes) -> tuple[Cell, str] | None:
        name = object_name(partition, key)
        for _ in range(_CHANGES):
            found = self._head(name)
            if found is None:
                return None
            cell, is_large = parse(found.metadata)
            if not is_large:
                return cell, found.etag
            body = self._body(found)
            if body is not None:
                return replace(cell, value=body), found.etag
        raise StoreUnavailable("a large value was overwritten repeatedly while it was read")

    def _cells(
        self, partition: bytes, listed: Iterable[tuple[bytes, Found]]
    ) -> list[tuple[bytes, Cell]]:
        """Return the cells of listed objects; remove expired tombstones among them."""

        def remove_old(found: Found) -> None:
            with suppress(OutcomeUnknown):  # a later page removes it
                self._remove(found.name, found.etag)

        cells: dict[bytes, Cell | None] = {}
        large: list[bytes] = []
        old: list[Found] = []
        for key, found in listed:
            cells[key], is_large = cell, _ = parse(found.metadata)
            self._remember(cell, found.etag)
            if is_large:
                large.append(key)
            elif cell.expires is not None and cell.expires < self._runtime.now():
                old.append(found)
        bodies = self._runtime.map_parallel(lambda key: self.read(partition, key), large)
        cells.update(zip(large, bodies, strict=True))
        self._runtime.map_parallel(remove_old, old[:REMOVED_AT_ONCE])
        return [(key, cell) for key, cell in cells.items() if cell is not None]


def encode(data: bytes) -> str:
    """Encode a partition or a key for an object name."""
    return b64encode(data).rstrip(b"=").translate(_TO_ORDERED).decode()


def decode(text: str) -> bytes:
    """Inverse of `encode`."""
    return b64decode(text.encode().translate(_FROM_ORDERED) + b"==")


def object_name(partition: bytes, key: bytes = b"") -> str:
    """Return the name of an object; without a key, the prefix of the partition's names."""
    return f"{encode(partition)}{SEPARATOR}{encode(key)}"


def stored(cell: Cell) -> tuple[dict[str, str], bytes]:
    """Return the metadata and the body of the object of a cell."""
    value, body, place = cell.value or b"", b"", _Place.METADATA
    if cell.value is None:
        place = _Place.ABSENT
    elif len(value) > _INLINE_BYTES:
        value, body, place = b"", value, _Place.BODY
    head = _HEAD.pack(cell.version, cell.stamp, place, cell.expires or 0.0)
    return {FIELD: b64encode(head + value).decode()}, body


def parse(metadata: Mapping[str, str]) -> tuple[Cell, bool]:
    """Return the cell of an object, and whether its value is in the body and still to be read."""
    packed = b64decode(metadata[FIELD])
    version, stamp, place, expires = _HEAD.unpack_from(packed)
    value = packed[_HEAD.size :] if place == _Place.METADATA else None
    return Cell(Version(version), stamp, value, expires or None), place == _Place.BODY
