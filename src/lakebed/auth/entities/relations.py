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

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import AUTH, behind, pair, pairs_of, parted
from lakebed.auth.entities.named import TRIES, Changed, Entities, MessageT, page_of
from lakebed.auth.entities.names import is_name
from lakebed.auth.errors import AuthTooManyTries
from lakebed.auth.model import Page
from lakebed.ids import UniqueID
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store
from lakebed.kv.records import Kind, Record, Records

TargetMessageT = TypeVar("TargetMessageT", pb.User, pb.Group, pb.Policy)
SourceT = TypeVar("SourceT")
TargetT = TypeVar("TargetT")

_CHUNK: Final = 256


class Relations(Generic[MessageT, SourceT, TargetMessageT, TargetT]):
    """The relations from the entities of one kind (sources) to those of another (targets)."""

    def __init__(
        self,
        store: Store,
        kind: Kind[pb.Relation],
        source: Entities[MessageT, SourceT],
        target: Entities[TargetMessageT, TargetT],
        *,
        changed: Changed,
    ) -> None:
        self._records = Records(store, kind, AUTH)
        self._source: Entities[MessageT, SourceT] = source
        self._target: Entities[TargetMessageT, TargetT] = target
        self._changed = changed

    def add(self, source: str, target: str) -> None:
        """Relate two entities; if they are already, fine.

        Raises:
            AuthNotFound: One of them is not there.
            OutcomeUnknown: They may have been related.
        """
        self._check_names(source, target)
        name = pair(source, target)
        try:
            for _ in range(TRIES):
                found = self._records.find(name)
                wanted = pb.Relation(
                    source_unique_id=self._source.live(source).message.unique_id,
                    target_unique_id=self._target.live(target).message.unique_id,
                )
                if found is not None and found.message == wanted:
                    return
                predicate: Predicate = ABSENT if found is None else found.predicate
                with suppress(PredicateFailed):
                    self._records.set_if(name, wanted, predicate)
                    return
        finally:
            self._changed()
        raise AuthTooManyTries(f"relating {source} and {target}", TRIES)

    def remove(self, source: str, target: str) -> None:
        """End the relation of two entities; if there is none, fine.

        Raises:
            AuthNotFound: One of them is not there.
            OutcomeUnknown: The relation may have been ended.
        """
        self._source.live(source)
        self._target.live(target)
        try:
            self._records.delete(pair(source, target))
        finally:
            self._changed()

    def targets_of(
        self, source: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[TargetT]:
        """Return what an entity is related to, in order of the names.

        Raises:
            AuthNotFound: It is not there.
        """
        unique_id = UniqueID(self._source.live(source).message.unique_id)
        return page_of(self.all_targets_of(source, unique_id, prefix=prefix, after=after), amount)

    def sources_of(
        self, target: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> Page[SourceT]:
        """Return what an entity is the target of, in order of the names.

        There is no index for this direction: it scans the relations of everyone.

        Raises:
            AuthNotFound: It is not there.
        """
        unique_id = self._target.live(target).message.unique_id
        records = (
            record
            for record in self._records.scan(prefix=prefix.encode(), start=behind(after.encode()))
            if parted(record.name)[1] == target
        )
        sources = (
            self._source.entity(parted(record.name)[0], message)
            for record, message, _ in self._alive(records)
            if record.message.target_unique_id == unique_id
        )
        return page_of(sources, amount)

    def all_targets_of(
        self, source: str, unique_id: UniqueID, *, prefix: str = "", after: str = ""
    ) -> Iterator[TargetT]:
        """Iterate over what one creation of an entity is related to."""
        begin = pairs_of(source)
        records = self._records.scan(
            prefix=begin + prefix.encode(), start=begin + behind(after.encode())
        )
        for record, _, message in self._alive(records):
            if record.message.source_unique_id == unique_id:
                yield self._target.entity(parted(record.name)[1], message)

    def prune_source(self, source: str, unique_id: UniqueID) -> None:
        """Remove the relations from an entity that is no more."""
        for record in self._records.scan(prefix=pairs_of(source)):
            if record.message.source_unique_id == unique_id:
                self._remove(record)

    def prune_target(self, target: str, unique_id: UniqueID) -> None:
        """Remove the relations to an entity that is no more."""
        for record in self._records.scan():
            if parted(record.name)[1] == target and record.message.target_unique_id == unique_id:
                self._remove(record)

    def _alive(
        self, records: Iterable[Record[pb.Relation]]
    ) -> Iterator[tuple[Record[pb.Relation], MessageT, TargetMessageT]]:
        """The relations that count, each with the records of its ends; the dead are removed."""
        rest = iter(records)
        while chunk := list(islice(rest, _CHUNK)):
            sources, targets = self._ends(chunk)
            for record in chunk:
                source, target = parted(record.name)
                source_message, target_message = sources.get(source), targets.get(target)
                if (
                    source_message is not None
                    and target_message is not None
                    and source_message.unique_id == record.message.source_unique_id
                    and target_message.unique_id == record.message.target_unique_id
                ):
                    yield record, source_message, target_message
                else:
                    with suppress(OutcomeUnknown):  # the next who meets it may remove it
                        self._remove(record)

    def _ends(
        self, chunk: Sequence[Record[pb.Relation]]
    ) -> tuple[dict[str, MessageT], dict[str, TargetMessageT]]:
        """The records at both ends, read after the relations were."""
        names = [parted(record.name) for record in chunk]
        return (
            self._source.live_messages(source for source, _ in names),
            self._target.live_messages(target for _, target in names),
        )

    def _check_names(self, source: str, target: str) -> None:
        """What cannot be a name is never there, and is not looked for."""
        if not is_name(source):
            raise self._source.missing(source)
        if not is_name(target):
            raise self._target.missing(target)

    def _remove(self, record: Record[pb.Relation]) -> None:
        with suppress(PredicateFailed):  # written anew, or gone
            self._records.delete_if(record.name, record.predicate)
