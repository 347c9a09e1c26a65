"""Pins: the content first read of an unverified object, required of all later reads.

With `LinkSettings.require_object` off, an address can be linked before its upload. The ETag is then
unknown, and the entry is marked as *unverified* (see `entry_metadata`). It may already be committed
when the object arrives, and commits are immutable. Therefore the first reader stores the object's
ETag in a record of its own, `pins/<object uid>`.

**Reading an unverified object**

    1. read the pin; if it exists, go to step 4
    2. stat the object: it exists, and has the size given when it was linked
    3. write the pin, with ETag and size, only if none exists
    4. read the object with the pinned ETag as a condition, whoever wrote the pin

*Invariant.* Readers receive bytes in step 4 only, and a pin is written once. So all readers of an
address receive the same bytes, or an error. Of two first readers that see different objects, one
writes the pin; the other reads it when it retries, and uses it.

*A reader that dies, or whose reply is lost,* after step 3 leaves a pin of an object that existed.

An object of another size is refused and not pinned: the client can still upload the right one.
Copies on a branch that share an address share its pin. Pins do not protect objects from garbage
collection; entries do. A pin is removed once its object is deleted and every URL to write it has
expired: then no entry references the address, or its entries have lost their bytes for good.
"""

import logging
from dataclasses import replace
from typing import Final

from lakebed.base.errors import quoted
from lakebed.block import BlockStore, ETag, ObjectNotFound
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import Repository
from lakebed.formats import Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Records
from lakebed.lake import entry_metadata
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import ChangedBytes, MissingBytes
from lakebed.lake.keys import PINS
from lakebed.lake.model import ObjectStats, PinKey, SeenAt, stats_of

_TRIES: Final = 10

_LOGGER: Final = logging.getLogger(__name__)


class ETagPins:
    """Creates the pins of all repositories."""

    def __init__(self, store: Store, block: BlockStore) -> None:
        self._store = store
        self._block = block

    def content_of(self, stats: ObjectStats) -> ETag | None:
        """Return the ETag required of an object, or None if it is unknown.

        Pins an unverified object on its first read.

        Raises:
            MissingBytes: The object does not exist and is not pinned.
            ChangedBytes: Its size is not the size given when it was linked.
            TooManyTries, OutcomeUnknown: The object may be pinned.
            BlockError: The storage refused or failed.
        """
        kept = entry_metadata.content_of(stats.reserved, stats.address)
        if kept is not None or stats.pin is None:
            return kept
        pins = Records(self._store, PINS, stats.pin.partition)
        name = stats.pin.address.uid.encode()
        for _ in range(_TRIES):
            record = pins.find(name)
            if record is not None:
                return _pinned_etag(record.message, stats)
            pin = self._stat(stats, stats.pin)
            try:
                pins.set_if(name, pin, ABSENT)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue  # read the pin to learn whose write succeeded
            return ETag(pin.etag)
        raise TooManyTries(f"reading {quoted(stats.path)} first", _TRIES)

    def _stat(self, stats: ObjectStats, key: PinKey) -> pb.Pin:
        """Check existence and size of the object (step 2)."""
        try:
            found = self._block.head(stats.address)
        except ObjectNotFound as error:
            raise MissingBytes(stats.path, stats.address) from error
        if found.size != stats.size:
            raise resized(stats, found.size)
        return pb.Pin(address=str(key.address), etag=found.etag, size=found.size)


def with_pin(repository: Repository, entry: Entry, ref: str | None = None) -> ObjectStats:
    """Describe an entry of a ref; of an unverified entry, with its pin."""
    seen_at = None if ref is None else SeenAt(repository, ref)
    stats = stats_of(repository.namespace, entry, seen_at)
    location = stats.location
    if isinstance(location, str) or not entry_metadata.is_unverified(stats.reserved, location):
        return stats
    # Users can write metadata, and so this mark; only issued addresses can have a pin.
    issued = ObjectPath.parse(entry.address)
    return stats if issued is None else replace(stats, pin=PinKey(repository.partition, issued))


def is_compared(stats: ObjectStats) -> bool:
    """Whether reads compare the stored object with its recorded ETag."""
    kept = entry_metadata.content_of(stats.reserved, stats.address)
    return kept is not None or stats.pin is not None


def _pinned_etag(pin: pb.Pin, stats: ObjectStats) -> ETag:
    if pin.size != stats.size:
        raise resized(stats, pin.size)
    return ETag(pin.etag)


def replaced(stats: ObjectStats) -> ChangedBytes:
    """Return the error for an object that was replaced in the storage."""
    if entry_metadata.is_imported(stats.reserved):
        return changed(stats, "is not the imported one")
    how = "that was linked" if stats.pin is None else "that was read first"
    return changed(stats, f"is not the one {how}")


def resized(stats: ObjectStats, size: int) -> ChangedBytes:
    """Return the error for an object of a different size."""
    return changed(stats, f"has {size} bytes, not {stats.size}")


def changed(stats: ObjectStats, how: str) -> ChangedBytes:
    """Return the error for an object that differs from its entry."""
    imported = entry_metadata.is_imported(stats.reserved)
    return ChangedBytes(stats.path, stats.address, how, imported=imported)
