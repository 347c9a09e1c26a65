"""Skip index: key ranges where all entries are deleted, recorded by listings for later ones.

After the uncommitted deletion of a directory, each of its objects is a tombstone. The first listing
above reads all of them and records the key range, and later listings jump over the range. The index
("note") is stored beside the tombstones, in the partition of the staging token, and deleted
together with them.

*A range is in the note only if every acknowledged put into the range is hidden by a later
tombstone.* Two rules maintain this:

1. A listing first records the range to **seek** through. Then it reads the range from the store.
   Then it adds the part found empty, by compare-and-swap on its own note.
2. A writer that makes a key visible (a put, a reset) reads the note after the write and before
   acknowledging, and cuts every range, sought or found, that contains the key.

Why this suffices: consider an acknowledged put. If its writer read the note before the listing
recorded the sought range, the put was in the store before the listing read, and the listing met it.
If the writer read the note later, either the sought range was cut, and the listing's swap fails; or
the range found was cut. Tombstones need neither rule.

A conditional put reads the note after its proposal and before confirming. While the proposal is
pending, the entry is invisible, so a listing must not count its key as empty: a range ends where a
listing ignores a proposal (`cells`). Thus a stored proposal is as good as the put.

An unacknowledged put may be hidden by a note although a read of its key shows the entry. If its
writer died between the two, it is listed once the note has expired.

A note is valid only for a branch with the same tokens and the same metarange below them. Losing a
note costs time only. So listings give up in doubt; and a writer that fails to cut a note, because
of concurrent changes, deletes it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed.apply import Interval
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
_KEY_RANGES_MAX: Final = 64
_LIFE_US: Final = 600_000_000


@dataclass(frozen=True, slots=True)
class SkipIndexSearch:
    """A range that a listing has recorded as sought, and reads from now on."""

    key_range: Interval
    note: pb.Emptied
    version: Version


class SkipIndex:
    """The skip index of a state of a branch, as read and extended by a listing."""

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

    def key_ranges(self) -> list[Interval]:
        return [_key_range(each) for each in self._counting(self._find())]

    def seek(self, key_range: Interval) -> SkipIndexSearch | None:
        """Record that a range is being read, or return None if this did not certainly succeed.

        Only keys read from the store after this call may be passed to `found`.
        """
        before = self._find()
        note = pb.Emptied(
            sealed_tokens=self._sealed,
            metarange_id=self._metarange_id,
            stretches=self._counting(before),
            sought=_message(key_range),
        )
        predicate: Predicate = ABSENT if before is None else before.predicate
        try:
            return SkipIndexSearch(key_range, note, self._set_if(note, predicate))
        except (PredicateFailed, OutcomeUnknown):
            return None

    def found(self, search: SkipIndexSearch, end: bytes | None) -> None:
        """Record that no entry is left from the start of a search up to `end`.

        Writers know only of the sought range, so empty keys beyond are not recorded.
        """
        sought = search.key_range
        if sought.end is not None and (end is None or end > sought.end):
            end = sought.end
        note = pb.Emptied()
        note.CopyFrom(search.note)
        note.ClearField("sought")
        found = _message(Interval(sought.start, end))
        found.found_us = self._now_us
        note.stretches.append(found)
        del note.stretches[:-_KEY_RANGES_MAX]
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
        """Return the valid ranges of a note: about this state, and not expired."""
        note = _parse(found)
        if (
            note is None
            or note.sealed_tokens != self._sealed
            or note.metarange_id != self._metarange_id
        ):
            return []
        # Clocks may differ: ignore times far in the past or in the future.
        return [each for each in note.stretches if abs(self._now_us - each.found_us) < _LIFE_US]


def fill(store: Store, token: StagingToken, keys: Iterable[bytes], found: Item | None) -> None:
    """Cut keys that were just made visible out of the note of a token.

    `found` is the note as read after the keys were written.
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
    """Return a note whose ranges end before the first of some keys.

    Drops fields of a later version, unlike in other records: this version could not cut them.
    Ranges are truncated, not split. So writers soon find none of their keys in a note, unless they
    write in descending order.
    """
    left = pb.Emptied(sealed_tokens=note.sealed_tokens, metarange_id=note.metarange_id)
    for each in note.stretches:
        end = _first_in(_key_range(each), keys)
        if end is None:
            left.stretches.append(each)
        elif each.start < end:
            left.stretches.add(start=each.start, end=end, found_us=each.found_us)
    if note.HasField("sought") and _first_in(_key_range(note.sought), keys) is None:
        left.sought.CopyFrom(note.sought)
    return left


def _first_in(key_range: Interval, keys: list[bytes]) -> bytes | None:
    return next((key for key in keys if key in key_range), None)


def _key_range(message: pb.Stretch) -> Interval:
    return Interval(message.start, message.end or None)


def _message(key_range: Interval) -> pb.Stretch:
    return pb.Stretch(start=key_range.start, end=key_range.end or b"")


def _parse(found: Item | None) -> pb.Emptied | None:
    """Return a note as a message, or None if absent or unreadable."""
    try:
        return None if found is None else pb.Emptied.FromString(found.value)
    except DecodeError:
        return None
