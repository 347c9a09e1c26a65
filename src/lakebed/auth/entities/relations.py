"""Relations: memberships and attached policies, one key each.

A relation contains the unique ids of both ends, and *counts* only while the records of both ends
have these ids. A reader reads the relation first and the records after it. A unique id is generated
once, and the writer of a relation has read the ids before. So a relation whose ids do not match is
permanently dead, and any reader may remove it (by `delete_if` of the version read).

`add` reads in the same order, and writes by `set_if` over the version read. So it never overwrites
a newer relation.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, Generic, TypeVar

from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.base import TRIES, Changed, Entities, MessageT, is_name, page_of
from lakebed.auth.entities.keys import AUTH, pair, pair_prefix, split_pair, start_after
from lakebed.auth.errors import AuthTooManyTries
from lakebed.auth.model import AuthPage
from lakebed.base.runtime import UniqueID
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store
from lakebed.kv.records import Record, RecordKind, Records

TargetMessageT = TypeVar("TargetMessageT", pb.User, pb.Group, pb.Policy)
SourceT = TypeVar("SourceT")
TargetT = TypeVar("TargetT")

_LOGGER: Final = logging.getLogger(__name__)
_CHUNK: Final = 256


class Relations(Generic[MessageT, SourceT, TargetMessageT, TargetT]):
    """Relations from the entities of one kind (sources) to another kind (targets).

    Raises:
        AuthNotFound: An entity does not exist.
        OutcomeUnknown: The write may have been done.
    """

    def __init__(
        self,
        store: Store,
        kind: RecordKind[pb.Relation],
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
        """Relate two entities; if they are related already, do nothing."""
        self._check_names(source, target)
        name = pair(source, target)
        try:
            for _ in range(TRIES):
                found = self._records.find(name)
                wanted = pb.Relation(
                    source_unique_id=self._source.live(source).message.unique_id,
                    target_unique_id=self._target.live(target).message.unique_id,
                )
                if found is not None and _ends(found.message) == _ends(wanted):
                    return
                predicate: Predicate = ABSENT if found is None else found.predicate
                with suppress(PredicateFailed):
                    self._records.set_if(name, wanted, predicate)
                    self._log("added", source, target)
                    return
        finally:
            self._changed()
        raise AuthTooManyTries(f"relating {source} and {target}", TRIES)

    def remove(self, source: str, target: str) -> None:
        """Remove the relation of two entities, if any."""
        self._source.live(source)
        self._target.live(target)
        try:
            self._records.delete(pair(source, target))
        finally:
            self._changed()
        self._log("removed", source, target)

    def targets_of(
        self, source: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> AuthPage[TargetT]:
        """Return the targets of an entity, ordered by name."""
        unique_id = UniqueID(self._source.live(source).message.unique_id)
        return page_of(self.all_targets_of(source, unique_id, prefix=prefix, after=after), amount)

    def sources_of(
        self, target: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> AuthPage[SourceT]:
        """Return the sources of an entity, ordered by name.

        Scans all relations of this kind: this direction has no index.
        """
        unique_id = self._target.live(target).message.unique_id
        records = (
            record
            for record in self._records.scan(
                prefix=prefix.encode(), start=start_after(after.encode())
            )
            if split_pair(record.name)[1] == target
        )
        sources = (
            self._source.entity(split_pair(record.name)[0], message)
            for record, message, _ in self._alive(records)
            if record.message.target_unique_id == unique_id
        )
        return page_of(sources, amount)

    def all_targets_of(
        self, source: str, unique_id: UniqueID, *, prefix: str = "", after: str = ""
    ) -> Iterator[TargetT]:
        """Yield the targets of the entity with this name and unique id."""
        begin = pair_prefix(source)
        records = self._records.scan(
            prefix=begin + prefix.encode(), start=begin + start_after(after.encode())
        )
        for record, _, message in self._alive(records):
            if record.message.source_unique_id == unique_id:
                yield self._target.entity(split_pair(record.name)[1], message)

    def prune_source(self, source: str, unique_id: UniqueID) -> None:
        """Remove the relations from a deleted entity."""
        for record in self._records.scan(prefix=pair_prefix(source)):
            if record.message.source_unique_id == unique_id:
                self._remove(record)

    def prune_target(self, target: str, unique_id: UniqueID) -> None:
        """Remove the relations to a deleted entity."""
        for record in self._records.scan():
            if (
                split_pair(record.name)[1] == target
                and record.message.target_unique_id == unique_id
            ):
                self._remove(record)

    def _alive(
        self, records: Iterable[Record[pb.Relation]]
    ) -> Iterator[tuple[Record[pb.Relation], MessageT, TargetMessageT]]:
        """Yield the relations that count, with the records of both ends; remove dead relations."""
        rest = iter(records)
        while chunk := list(islice(rest, _CHUNK)):
            sources, targets = self._ends(chunk)
            for record in chunk:
                source, target = split_pair(record.name)
                source_message, target_message = sources.get(source), targets.get(target)
                if (
                    source_message is not None
                    and target_message is not None
                    and source_message.unique_id == record.message.source_unique_id
                    and target_message.unique_id == record.message.target_unique_id
                ):
                    yield record, source_message, target_message
                else:
                    with suppress(OutcomeUnknown):  # the next reader may remove it
                        self._remove(record)

    def _ends(
        self, chunk: Sequence[Record[pb.Relation]]
    ) -> tuple[dict[str, MessageT], dict[str, TargetMessageT]]:
        """Read the records of both ends; the relations were read before."""
        names = [split_pair(record.name) for record in chunk]
        return (
            self._source.live_messages(source for source, _ in names),
            self._target.live_messages(target for _, target in names),
        )

    def _check_names(self, source: str, target: str) -> None:
        """Refuse invalid names without a lookup."""
        if not is_name(source):
            raise self._source.missing(source)
        if not is_name(target):
            raise self._target.missing(target)

    def _log(self, change: str, source: str, target: str) -> None:
        nouns = self._source.noun, source, self._target.noun, target
        _LOGGER.info("%s %s: %s %s was %s", *nouns, change)

    def _remove(self, record: Record[pb.Relation]) -> None:
        with suppress(PredicateFailed):  # rewritten or deleted meanwhile
            self._records.delete_if(record.name, record.predicate)


def _ends(message: pb.Relation) -> tuple[str, str]:
    return message.source_unique_id, message.target_unique_id
