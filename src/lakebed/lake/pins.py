"""Pins: what the first reader of an unverified object found, which all later readers hold to.

Where `LinkSettings.require_object` is off, an address can be linked before anything was uploaded
there. Nobody has seen the object then, so its entry cannot say which one is meant: the entry is
marked as *unverified* (see `entry_metadata`). It may be committed by the time the object comes, and
a commit never changes. So what the first reader finds goes into a record of its own,
`pins/<object uid>`.

**Reading an unverified object**

    1. read the pin; if there is one, its ETag is what the storage is asked for
    2. look at the object: it is there, and is as long as the client said when it linked it
    3. the pin, with ETag and length, only if there is none yet
    4. ask the storage for the content that the pin names, whoever wrote it

*What holds.* Bytes reach a reader in step 4 alone, and a pin is written once. So all readers of an
address get the same bytes, or an error. Of two first readers who see different objects, one writes
the pin; the other finds it in the next round, and holds to it.

*A reader that dies, or whose reply is lost,* after step 3 leaves a pin of an object that was there.

An object of another length is refused and not pinned: the client may still upload the right one.
Copies on a branch may share an address, and so share its pin. A pin protects nothing from garbage
collection, as the entry does that. It is removed once its object is gone and was issued so long ago
that no URL to write it works any more: then nothing names it, or what names it stays without bytes.
"""

import logging
from dataclasses import replace
from typing import Final

from lakebed.base.errors import quoted
from lakebed.base.ids import UniqueID
from lakebed.base.runtime import Runtime, to_us
from lakebed.block import BlockError, BlockStore, ETag, ObjectNotFound
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import Repository
from lakebed.formats import Entry
from lakebed.formats.object_paths import ObjectPath, ObjectUID, issued_us
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.lake import entry_metadata
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import ChangedBytes, MissingBytes
from lakebed.lake.keys import PINS
from lakebed.lake.model import ObjectStats, PinKey, SeenAt, stats_of
from lakebed.lake.settings import CatalogSettings

_TRIES: Final = 10

LOOKS_MAX: Final = 100
"""How many objects one pass of cleaning looks for in a repository; the next pass goes on."""

_LOGGER: Final = logging.getLogger(__name__)


class Pins:
    """The pins of all repositories."""

    def __init__(
        self, store: Store, block: BlockStore, runtime: Runtime, settings: CatalogSettings
    ) -> None:
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._positions: dict[UniqueID, bytes] = {}
        """Where the next pass of cleaning begins; without one, at the first pin."""

    def content_of(self, stats: ObjectStats) -> ETag | None:
        """Return what the storage must call the content of an object; None: that is not known.

        Of an unverified object this is a first read, unless there was one.

        Raises:
            MissingBytes: The storage has no object, and nobody has read one.
            ChangedBytes: It has one of another length than the client said.
            TooManyTries, OutcomeUnknown: It may be pinned by now.
            BlockError: The storage refuses or fails.
        """
        kept = entry_metadata.content_of(stats.reserved, stats.address)
        if kept is not None or stats.pin is None:
            return kept
        pins = Records(self._store, PINS, stats.pin.partition)
        name = stats.pin.address.uid.encode()
        for _ in range(_TRIES):
            record = pins.find(name)
            if record is not None:
                return _held_to(record.message, stats)
            pin = self._look(stats, stats.pin)
            try:
                pins.set_if(name, pin, ABSENT)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue  # the next look shows whose pin it is
            return ETag(pin.etag)
        raise TooManyTries(f"reading {quoted(stats.path)} first", _TRIES)

    def _look(self, stats: ObjectStats, key: PinKey) -> pb.Pin:
        """Step 2."""
        try:
            found = self._block.head(stats.address)
        except ObjectNotFound as error:
            raise MissingBytes(stats.path, stats.address) from error
        if found.size != stats.size:
            raise resized(stats, found.size)
        return pb.Pin(address=str(key.address), etag=found.etag, size=found.size)

    def clean(self, repository: Repository, times: CatalogSettings | None = None) -> int:
        """Remove pins of objects that are gone; look for some of them, and return how many."""
        pins = Records(self._store, PINS, repository.partition)
        start = self._positions.pop(repository.unique_id, b"")
        broken: list[bytes] = []
        records = list(pins.scan_readable(broken.append, start=start, limit=LOOKS_MAX))
        removed = 0
        for record in records:
            try:
                if self._is_over(repository, record, times or self._settings):
                    pins.delete_if(record.name, record.predicate)
                    removed += 1
            except PredicateFailed:
                continue
            except BlockError as error:
                _LOGGER.warning("pins of repository %s are left alone: %s", repository.id, error)
                break
        names = [*broken, *(record.name for record in records)]
        if len(names) == LOOKS_MAX:
            self._positions[repository.unique_id] = max(names) + b"\0"
        return removed

    def _is_over(
        self, repository: Repository, record: Record[pb.Pin], times: CatalogSettings
    ) -> bool:
        # As old as this, no presigned URL to write it works: see `CatalogSettings.check`.
        age = times.min_age_seconds + times.skew_seconds
        is_old = issued_us(ObjectUID(record.name.decode())) < to_us(self._runtime.now() - age)
        return is_old and not self._block.exists(
            repository.namespace.address(record.message.address)
        )


def with_pin(repository: Repository, entry: Entry, ref: str | None = None) -> ObjectStats:
    """Return what is known of an entry, of a ref, and if it is unverified, its pin."""
    seen_at = None if ref is None else SeenAt(repository, ref)
    stats = stats_of(repository.namespace, entry, seen_at)
    location = stats.location
    if isinstance(location, str) or not entry_metadata.is_unverified(stats.reserved, location):
        return stats
    # Users can write metadata, and so the mark; only addresses that were given out have a pin.
    issued = ObjectPath.parse(entry.address)
    return stats if issued is None else replace(stats, pin=PinKey(repository.partition, issued))


def is_compared(stats: ObjectStats) -> bool:
    """Whether each read compares the object in the storage with the one that was recorded."""
    kept = entry_metadata.content_of(stats.reserved, stats.address)
    return kept is not None or stats.pin is not None


def _held_to(pin: pb.Pin, stats: ObjectStats) -> ETag:
    if pin.size != stats.size:
        raise resized(stats, pin.size)
    return ETag(pin.etag)


def replaced(stats: ObjectStats) -> ChangedBytes:
    """Return the error that the storage has another object."""
    if entry_metadata.is_imported(stats.reserved):
        return changed(stats, "is not the one that was imported")
    how = "that was linked" if stats.pin is None else "that was read first"
    return changed(stats, f"is not the one {how}")


def resized(stats: ObjectStats, size: int) -> ChangedBytes:
    """Return the error that the storage has an object of another length."""
    return changed(stats, f"has {size} bytes and not {stats.size}")


def changed(stats: ObjectStats, how: str) -> ChangedBytes:
    """Return the error that the storage does not have what an entry stands for."""
    imported = entry_metadata.is_imported(stats.reserved)
    return ChangedBytes(stats.path, stats.address, how, imported=imported)
