"""One pass over all records of a store: counts by kind, and anomalies."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import Message

from lakebed.base.runtime import Runtime, UniqueID, now_us, to_datetime
from lakebed.clients.diagnostics.records import DamagedRecord, as_text, decode, kind_name
from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import BRANCHES, GRAVELER, LEASES, REPOSITORIES
from lakebed.engine.model import RepositoryID, repository_partition
from lakebed.kv import Item, Store
from lakebed.lake import records_pb2 as catalog_pb
from lakebed.lake.hooks import records_pb2 as hooks_pb

MANY_SEALED_TOKENS: Final = 10
OLD_STAGING_US: Final = 7 * 24 * 3600 * 1_000_000
STUCK_US: Final = 10 * 60 * 1_000_000
"""Running tasks send heartbeats much more often."""
AHEAD_US: Final = 60 * 1_000_000
NAMED_MAX: Final = 1000

_WRITTEN_NOW: Final = frozenset(
    {"updated_us", "renewed_us", "stored_us", "started_us", "dropped_us", "deleted_us"}
)
"""Times that writers set from their own clock."""

_UNDER_WAY: Final[dict[type[Message], frozenset[int]]] = {
    catalog_pb.Task: frozenset({catalog_pb.TASK_STATE_RUNNING}),
    catalog_pb.Import: frozenset({catalog_pb.IMPORT_STATE_RUNNING}),
    catalog_pb.PullRequest: frozenset(
        {catalog_pb.PULL_STATE_MERGING, catalog_pb.PULL_STATE_REOPENING}
    ),
    hooks_pb.Run: frozenset(
        {hooks_pb.RUN_STATE_PREPARED, hooks_pb.RUN_STATE_WAITING, hooks_pb.RUN_STATE_RUNNING}
    ),
}
"""The states of records that a process should be working on."""


@dataclass(slots=True)
class Staged:
    """Statistics of a staging token."""

    entries: int = 0
    oldest_us: int | None = None


@dataclass(slots=True)
class Survey:
    """Result of a pass. A failed pass leaves the results so far."""

    partitions: int = 0
    records: Counter[str] = field(default_factory=Counter)
    value_bytes: Counter[str] = field(default_factory=Counter)
    damaged: list[dict[str, str]] = field(default_factory=list)
    damaged_count: int = 0
    repositories: dict[str, pb.Repository] = field(default_factory=dict)
    branches: list[tuple[bytes, str, pb.Branch]] = field(default_factory=list)
    """Partition of the repository, name, and record."""
    staged: dict[str, Staged] = field(default_factory=lambda: defaultdict(Staged))
    stuck: list[dict[str, object]] = field(default_factory=list)
    leases: dict[str, str] = field(default_factory=dict)
    dropped_oldest_us: int | None = None
    ahead_us: int = 0
    """How far the latest time of a record lies in the future."""
    complete: bool = False

    def record_facts(self) -> dict[str, object]:
        """Return the counts of records, and the damaged records."""
        return {
            "complete": self.complete,
            "partitions": self.partitions,
            "records": dict(self.records.most_common()),
            "value_bytes": dict(self.value_bytes.most_common()),
            "damaged_count": self.damaged_count,
            "damaged": self.damaged,
        }

    def branch_facts(self, now: int) -> list[dict[str, object]]:
        """Return the branches with many sealed tokens or old uncommitted changes."""
        names = {
            repository_partition(RepositoryID(name), UniqueID(message.unique_id)): name
            for name, message in self.repositories.items()
        }
        facts = []
        for partition, name, branch in self.branches:
            tokens = [branch.staging_token, *branch.sealed_tokens]
            staged = [self.staged[token] for token in tokens if token in self.staged]
            oldest = min((each.oldest_us for each in staged if each.oldest_us), default=None)
            is_old = oldest is not None and now - oldest > OLD_STAGING_US
            if is_old or len(branch.sealed_tokens) >= MANY_SEALED_TOKENS:
                facts.append(
                    {
                        "repository": names.get(partition, as_text(partition)),
                        "branch": name,
                        "sealed_tokens": len(branch.sealed_tokens),
                        "staged_entries": sum(each.entries for each in staged),
                        "oldest_staged": None if oldest is None else _moment(oldest),
                    }
                )
        return facts[:NAMED_MAX]

    def cleaner_facts(self) -> dict[str, object]:
        """Return the leases, and the records that wait for the Cleaner."""
        oldest = self.dropped_oldest_us
        return {
            "leases_renewed": self.leases,
            "dropped_tokens": self.records["DroppedToken"],
            "dropped_oldest": None if oldest is None else _moment(oldest),
            "deleted_repositories": self.records["DeletedRepository"],
        }


class Surveyor:
    """One pass over a store."""

    def __init__(self, store: Store, runtime: Runtime, survey: Survey) -> None:
        self._store = store
        self._runtime = runtime
        self._survey = survey
        self._examiners: dict[type[Message], Callable[[bytes, Item, Any], None]] = {
            pb.Repository: self._repository,
            pb.Branch: self._branch,
            pb.StagedEntry: self._staged,
            pb.ProposedEntry: self._proposed,
            pb.Lease: self._lease,
            pb.DroppedToken: self._dropped,
        }

    def run(self) -> None:
        """Read every record.

        Raises:
            StoreUnavailable: The store did not respond; the survey has the results so far.
        """
        survey = self._survey
        for partition in self._store.partitions():
            survey.partitions += 1
            for item in self._store.scan(partition):
                kind = kind_name(partition, item.key)
                survey.records[kind] += 1
                survey.value_bytes[kind] += len(item.value)
                try:
                    message = decode(partition, item)
                except DamagedRecord as error:
                    self._damaged(partition, item, kind, str(error))
                else:
                    self._examine(partition, item, kind, message)
        survey.complete = True

    def _examine(self, partition: bytes, item: Item, kind: str, message: Message | None) -> None:
        if message is None:
            return
        if (examine := self._examiners.get(type(message))) is not None:
            examine(partition, item, message)
        now = now_us(self._runtime)
        for name, written in _times(message):
            if name in _WRITTEN_NOW:
                self._survey.ahead_us = max(self._survey.ahead_us, written - now)
        states = _UNDER_WAY.get(type(message), frozenset())
        if getattr(message, "state", None) in states:
            last = max((written for _, written in _times(message)), default=0)
            if now - last > STUCK_US and len(self._survey.stuck) < NAMED_MAX:
                self._survey.stuck.append(
                    {
                        "partition": as_text(partition),
                        "key": as_text(item.key),
                        "kind": kind,
                        "last_sign_of_life": _moment(last),
                    }
                )

    def _damaged(self, partition: bytes, item: Item, kind: str, why: str) -> None:
        self._survey.damaged_count += 1
        if len(self._survey.damaged) < NAMED_MAX:
            self._survey.damaged.append(
                {
                    "partition": as_text(partition),
                    "key": as_text(item.key),
                    "kind": kind,
                    "problem": why,
                }
            )

    def _repository(self, partition: bytes, item: Item, message: pb.Repository) -> None:
        if partition == GRAVELER:
            self._survey.repositories[as_text(item.key[len(REPOSITORIES.prefix) :])] = message

    def _branch(self, partition: bytes, item: Item, message: pb.Branch) -> None:
        name = as_text(item.key[len(BRANCHES.prefix) :])
        self._survey.branches.append((partition, name, message))

    def _staged(self, partition: bytes, _: Item, message: pb.StagedEntry) -> None:
        staged = self._survey.staged[as_text(partition)]
        staged.entries += 1
        modified = message.entry.modified_us
        if modified and (staged.oldest_us is None or modified < staged.oldest_us):
            staged.oldest_us = modified

    def _proposed(self, partition: bytes, item: Item, message: pb.ProposedEntry) -> None:
        if message.HasField("value"):
            self._staged(partition, item, message.value)

    def _lease(self, _: bytes, item: Item, message: pb.Lease) -> None:
        name = as_text(item.key[len(LEASES.prefix) :])
        self._survey.leases[name] = _moment(message.renewed_us)

    def _dropped(self, _: bytes, __: Item, message: pb.DroppedToken) -> None:
        oldest = self._survey.dropped_oldest_us
        self._survey.dropped_oldest_us = (
            message.dropped_us if oldest is None else min(oldest, message.dropped_us)
        )


def _times(message: Message) -> Iterator[tuple[str, int]]:
    return (
        (found.name, value) for found, value in message.ListFields() if found.name.endswith("_us")
    )


def _moment(microseconds: int) -> str:
    return to_datetime(microseconds).isoformat(timespec="seconds")
