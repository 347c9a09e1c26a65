"""Relations: memberships and attached policies, one key each.

A relation carries the unique ids of both ends, and *counts* only while the records of both ends
hold them. Whoever looks reads the relation first and the records after it: unique ids are drawn
once, and a relation is written by who has seen them, so one whose ids the records no longer hold is
dead for ever, and anyone may remove it (`delete_if` of what was read).

By the same order nobody overwrites what is newer: `add` reads the relation, then the records, and
writes by `set_if` over the relation as it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Generic, TypeVar

from lakebed.auth.entities import TRIES, Changed, Entities, MessageT, page_of
from lakebed.auth.errors import AuthTooManyTries
from lakebed.auth.keys import AUTH, behind, pair, pairs_of, parted
from lakebed.auth.model import Page, UniqueID
from lakebed.auth.names import is_name
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store
from lakebed.kv import entities_pb2 as pb
from lakebed.kv.records import Kind, Record, Records

RightMessageT = TypeVar("RightMessageT", pb.User, pb.Group, pb.Policy)
LeftT = TypeVar("LeftT")
RightT = TypeVar("RightT")

_CHUNK: Final = 256


class Relations(Generic[MessageT, LeftT, RightMessageT, RightT]):
    """The relations between the entities of one kind (left) and those of another (right)."""

    def __init__(
        self,
        store: Store,
        kind: Kind[pb.Relation],
        left: Entities[MessageT, LeftT],
        right: Entities[RightMessageT, RightT],
        *,
        changed: Changed,
    ) -> None:
        self._records = Records(store, kind, AUTH)
        self._left: Entities[MessageT, LeftT] = left
        self._right: Entities[RightMessageT, RightT] = right
        self._changed = changed

    def add(self, left: str, right: str) -> None:
        """Relate two entities; if they are already, fine.

        Raises:
            AuthNotFound: One of them is not there.
            OutcomeUnknown: They may have been related.
        """
        self._check_names(left, right)
        name = pair(left, right)
        try:
            for _ in range(TRIES):
                found = self._records.find(name)
                wanted = pb.Relation(
                    left_unique_id=self._left.live(left).message.unique_id,
                    right_unique_id=self._right.live(right).message.unique_id,
                )
                if found is not None and found.message == wanted:
                    return
                predicate: Predicate = ABSENT if found is None else found.predicate
                with suppress(PredicateFailed):
                    self._records.set_if(name, wanted, predicate)
                    return
        finally:
            self._changed()
        raise AuthTooManyTries(f"relating {left} and {right}", TRIES)

    def remove(self, left: str, right: str) -> None:
        """End the relation of two entities; if there is none, fine.

        Raises:
            AuthNotFound: One of them is not there.
            OutcomeUnknown: The relation may have been ended.
        """
        self._left.live(left)
        self._right.live(right)
        try:
            self._records.delete(pair(left, right))
        finally:
            self._changed()

    def rights_of(
        self, left: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[RightT]:
        """Return what an entity is related to, in order of the names.

        Raises:
            AuthNotFound: It is not there.
        """
        unique_id = UniqueID(self._left.live(left).message.unique_id)
        return page_of(self.all_rights_of(left, unique_id, prefix=prefix, after=after), amount)

    def lefts_of(
        self, right: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[LeftT]:
        """Return what is related to an entity, in order of the names.

        There is no index for this direction: it scans the relations of everyone.

        Raises:
            AuthNotFound: It is not there.
        """
        unique_id = self._right.live(right).message.unique_id
        records = (
            record
            for record in self._records.scan(prefix=prefix.encode(), start=behind(after.encode()))
            if parted(record.name)[1] == right
        )
        lefts = (
            self._left.entity(parted(record.name)[0], message)
            for record, message, _ in self._alive(records)
            if record.message.right_unique_id == unique_id
        )
        return page_of(lefts, amount)

    def all_rights_of(
        self, left: str, unique_id: UniqueID, *, prefix: str = "", after: str = ""
    ) -> Iterator[RightT]:
        """Iterate over what one creation of an entity is related to."""
        begin = pairs_of(left)
        records = self._records.scan(
            prefix=begin + prefix.encode(), start=begin + behind(after.encode())
        )
        for record, _, message in self._alive(records):
            if record.message.left_unique_id == unique_id:
                yield self._right.entity(parted(record.name)[1], message)

    def prune_left(self, left: str, unique_id: UniqueID) -> None:
        """Remove the relations of an entity on the left that is no more."""
        for record in self._records.scan(prefix=pairs_of(left)):
            if record.message.left_unique_id == unique_id:
                self._remove(record)

    def prune_right(self, right: str, unique_id: UniqueID) -> None:
        """Remove the relations of an entity on the right that is no more."""
        for record in self._records.scan():
            if parted(record.name)[1] == right and record.message.right_unique_id == unique_id:
                self._remove(record)

    def _alive(
        self, records: Iterable[Record[pb.Relation]]
    ) -> Iterator[tuple[Record[pb.Relation], MessageT, RightMessageT]]:
        """The relations that count, each with the records of its ends; the dead are removed."""
        rest = iter(records)
        while chunk := list(islice(rest, _CHUNK)):
            lefts, rights = self._ends(chunk)
            for record in chunk:
                left, right = parted(record.name)
                left_message, right_message = lefts.get(left), rights.get(right)
                if (
                    left_message is not None
                    and right_message is not None
                    and left_message.unique_id == record.message.left_unique_id
                    and right_message.unique_id == record.message.right_unique_id
                ):
                    yield record, left_message, right_message
                else:
                    with suppress(OutcomeUnknown):  # the next who meets it may remove it
                        self._remove(record)

    def _ends(
        self, chunk: Sequence[Record[pb.Relation]]
    ) -> tuple[dict[str, MessageT], dict[str, RightMessageT]]:
        """The records at both ends, read after the relations were."""
        names = [parted(record.name) for record in chunk]
        return (
            self._left.live_messages(left for left, _ in names),
            self._right.live_messages(right for _, right in names),
        )

    def _check_names(self, left: str, right: str) -> None:
        """What cannot be a name is never there, and is not looked for."""
        if not is_name(left):
            raise self._left.missing(left)
        if not is_name(right):
            raise self._right.missing(right)

    def _remove(self, record: Record[pb.Relation]) -> None:
        with suppress(PredicateFailed):  # written anew, or gone
            self._records.delete_if(record.name, record.predicate)
