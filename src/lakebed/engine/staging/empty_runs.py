"""Runs of keys with nothing left: notes of listings, so that the next one can jump over them.

When a directory is deleted and not committed yet, each of its objects is a tombstone. The first
listing above it goes through all of them. It notes the stretch of keys, and later listings jump
over it. The note is kept beside the tombstones, in the partition of the staging token, and is
deleted with it.

*A stretch is in a note only if every acknowledged put into it is hidden by a later tombstone.* Two
rules keep that true:

1. A listing first notes the stretch that it **seeks** through. Then it reads that stretch from the
   store. Then it adds what it found empty, by compare-and-swap on its own note.
2. Whoever makes a key visible (a put, a reset) reads the note after the write and before it
   acknowledges, and takes the key out of every stretch, sought or found, that has it.

Why that is enough: take a put that is acknowledged. If it read the note before the listing wrote
what it seeks, the put was in the store before the listing read, and the listing met it. If it read
the note later, it has cut the stretch that is sought, and the listing's swap fails; or it has cut
the stretch that was found. Tombstones need none of this.

A conditional put reads the note after its proposal and before it confirms. While the proposal waits
nothing is visible, so a listing must not call its key empty: a stretch ends where a listing passes
over a proposal (`cells`). With that, a proposal in the store is as good as the put.

A put that is not acknowledged, or not yet, may be hidden by a note, although a read of its key
shows it. If its writer died between the two, it is listed once the note is too old to count.

A note counts only for a branch with the same tokens and the same metarange below them. To lose a
note costs time and nothing else. So whatever is not certain is given up; and whoever cannot cut a
note, because others are always faster, deletes it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import EMPTIED
from lakebed.engine.model import StagingToken
from lakebed.formats import MetaRangeID
from lakebed.kv import (
    ABSENT,
    Item,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)

_TRIES: Final = 8
_STRETCHES_MAX: Final = 64
_LIFE_US: Final = 600_000_000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from one, included, to another, not included; None: to the last."""

    start: bytes
    end: bytes | None

    def __contains__(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)


@dataclass(frozen=True, slots=True)
class EmptyRunSearch:
    """A stretch that a listing has noted, and reads from now on."""

    stretch: KeyRange
    note: pb.Emptied
    version: Version


class EmptyRunNotes:
    """The notes about one state of a branch, as a listing reads them and adds to them."""

    def __init__(
        self,
        store: Store,
        tokens: Sequence[StagingToken],
        metarange_id: MetaRangeID,
        *,
        now_us: int,
    ) -> None:
        self._store = store
        self._partition = tokens[0].encode()
        self._sealed = list(tokens[1:])
        self._metarange_id = metarange_id
        self._now_us = now_us

    def stretches(self) -> list[KeyRange]:
        """Return the stretches where nothing is left."""
        return [_stretch(each) for each in self._counting(self._find())]

    def seek(self, stretch: KeyRange) -> EmptyRunSearch | None:
        """Note that a stretch is being read; None: that did not certainly work, and is given up.

        Only what is read from the store after this may be passed to `found`.
        """
        before = self._find()
        note = pb.Emptied(
            sealed_tokens=self._sealed,
            metarange_id=self._metarange_id,
            stretches=self._counting(before),
            sought=_message(stretch),
        )
        predicate: Predicate = ABSENT if before is None else before.predicate
        try:
            return EmptyRunSearch(stretch, note, self._set_if(note, predicate))
        except (PredicateFailed, OutcomeUnknown):
            return None

    def found(self, search: EmptyRunSearch, end: bytes | None) -> None:
        """Note that nothing is left from the start of a search up to some key.

        Nothing beyond what was sought is noted, even if it is empty: writers did not know of it.
        """
        sought = search.stretch
        if sought.end is not None and (end is None or end > sought.end):
            end = sought.end
        note = pb.Emptied()
        note.CopyFrom(search.note)
        note.ClearField("sought")
        found = _message(KeyRange(sought.start, end))
        found.found_us = self._now_us
        note.stretches.append(found)
        del note.stretches[:-_STRETCHES_MAX]
        try:
            self._set_if(note, search.version)
        except (PredicateFailed, OutcomeUnknown):
            return

    def _find(self) -> Item | None:
        return self._store.get_many([(self._partition, EMPTIED)])[0]

    def _set_if(self, note: pb.Emptied, predicate: Predicate) -> Version:
        value = note.SerializeToString()
        return self._store.set(self._partition, EMPTIED, value, predicate)

    def _counting(self, found: Item | None) -> list[pb.Stretch]:
        """Return the stretches of a note about this state that are not too old to count."""
        note = _parse(found)
        if (
            note is None
            or note.sealed_tokens != self._sealed
            or note.metarange_id != self._metarange_id
        ):
            return []
        # The clock may be another one: what seems far in the past or the future does not count.
        return [each for each in note.stretches if abs(self._now_us - each.found_us) < _LIFE_US]


def fill(store: Store, token: StagingToken, keys: Iterable[bytes], found: Item | None) -> None:
    """Take keys that were just made visible out of the note of a token.

    Args:
        store: The store.
        token: The staging token.
        keys: The keys.
        found: The note as it was read after the keys were written.
    """
    partition, filled = token.encode(), sorted(keys)
    for _ in range(_TRIES):
        if found is None:
            return
        note = _parse(found)
        left = pb.Emptied() if note is None else _without(note, filled)
        if left == note:
            return
        try:
            if left.stretches or left.HasField("sought"):
                store.set(partition, EMPTIED, left.SerializeToString(), found.predicate)
            else:
                store.delete(partition, EMPTIED, found.predicate)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            (found,) = store.get_many([(partition, EMPTIED)])
        else:
            return
    store.delete(partition, EMPTIED)


def _without(note: pb.Emptied, keys: list[bytes]) -> pb.Emptied:
    """Return a note whose stretches end before the first of some keys.

    Fields of a later version are dropped, unlike in other records: this version could not cut them.

    Stretches are not cut in two. So writers soon find none of their keys in a note, unless they
    write them in descending order.
    """
    left = pb.Emptied(sealed_tokens=note.sealed_tokens, metarange_id=note.metarange_id)
    for each in note.stretches:
        end = _first_in(_stretch(each), keys)
        if end is None:
            left.stretches.append(each)
        elif each.start < end:
            left.stretches.add(start=each.start, end=end, found_us=each.found_us)
    if note.HasField("sought") and _first_in(_stretch(note.sought), keys) is None:
        left.sought.CopyFrom(note.sought)
    return left


def _first_in(stretch: KeyRange, keys: list[bytes]) -> bytes | None:
    return next((key for key in keys if key in stretch), None)


def _stretch(message: pb.Stretch) -> KeyRange:
    return KeyRange(message.start, message.end or None)


def _message(stretch: KeyRange) -> pb.Stretch:
    return pb.Stretch(start=stretch.start, end=stretch.end or b"")


def _parse(found: Item | None) -> pb.Emptied | None:
    """Return what a note says; None: there is none, or it cannot be read."""
    try:
        return None if found is None else pb.Emptied.FromString(found.value)
    except DecodeError:
        return None
