"""Removal of unreferenced records: dropped tokens, deleted repositories, unfinished creations.

The engine announces whatever it drops. The Cleaner reads the announcements, waits, deletes, scans
again, and removes the announcement last. So a pass may stop anywhere, and the next pass continues.
Two Cleaners at once are safe: the lease only saves work.

**Grace period.** A token not referenced by its branch is never referenced again, and a deleted
repository never comes back. But an earlier request may still read or write there; no request lasts
as long as the grace period. So the keys of a token are deleted only a grace period after the token
was first seen unreferenced: all readers of the old record have ended. An announcement is removed
only when two consecutive passes after the grace period found nothing to delete: all writers of the
old record have ended too. (The keys of an even slower request are never cleaned up.)

**Tombstones.** Before an announcement is removed, the tombstones of its partition are dropped, and
its own tombstone afterwards: some databases keep them forever (see `lakebed.kv.fenced`).

**Damaged records** are skipped, logged and counted. Everything a damaged record may reference is
kept: the tokens of an unreadable branch, the claim of an unreadable repository.

**Clocks.** The time of the first sighting is kept in memory, by the monotonic clock; a restarted
process begins to wait again. The times in records are not used.

In each pass, in order:

- finish creations seen as `initial` for two minutes, and deletions in progress (`removal`);
- remove claims of deleted repositories;
- in the partition of each deleted repository, announce the tokens of its branches, delete the
  branches, then all other keys; its entry in `graveler_deleted` is an announcement too, and is
  removed last;
- delete the keys of dropped tokens.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lakebed.base.leases import Lease
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TooManyTries
from lakebed.engine.keys import (
    BRANCHES,
    CREATING,
    DELETED,
    DELETED_PARTITION,
    DROPPED,
    DROPPED_PARTITION,
    GRAVELER,
    REPOSITORIES,
)
from lakebed.engine.leases import LeaseLostError, LeaseRecords
from lakebed.engine.metrics import CLEANED
from lakebed.engine.model import (
    BranchID,
    Repository,
    RepositoryID,
    StagingToken,
    repository_partition,
)
from lakebed.engine.refs.branches import Branches
from lakebed.engine.repositories.ownership import (
    NamespaceClaims,
    NamespaceOwner,
    RepositoryRecord,
    owner_named,
    owner_of,
)
from lakebed.engine.repositories.removal import DELETING, INITIAL, Removal
from lakebed.kv import (
    CorruptRecord,
    Item,
    OutcomeUnknown,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.records import MessageT, Record, Records


@dataclass(slots=True)
class _Observation:
    first_seconds: float
    empty_scans: int = 0
    is_seen: bool = True
    """Whether the record was seen since the last `FirstSeen.forget_unseen`."""


class FirstSeen:
    """First sightings of records by version: a rewritten record counts as new."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._first_seen: dict[Version, _Observation] = {}

    def seconds(self, version: Version) -> float:
        """Return how long ago this process first saw a record; 0 on the first sighting."""
        now = self._runtime.monotonic()
        observation = self._first_seen.setdefault(version, _Observation(now))
        observation.is_seen = True
        return now - observation.first_seconds

    def note_scan(self, version: Version, *, found: int) -> int:
        """Return how many consecutive scans for a record were empty, counting this one."""
        observation = self._first_seen[version]
        observation.empty_scans = 0 if found else observation.empty_scans + 1
        return observation.empty_scans

    def forget(self, version: Version) -> None:
        """Forget a record, so that its next sighting is its first."""
        self._first_seen.pop(version, None)

    def forget_unseen(self) -> None:
        """Forget the records not seen since the last call."""
        kept = {version: seen for version, seen in self._first_seen.items() if seen.is_seen}
        for observation in kept.values():
            observation.is_seen = False
        self._first_seen = kept


_LOGGER: Final = logging.getLogger(__name__)

CREATION_SECONDS: Final = 120.0
"""Finish a creation after one process has seen it unfinished for this long."""

LEASE_SECONDS: Final = 60.0
EMPTY_SCANS: Final = 2
BATCH: Final = 500
"""Number of keys deleted, or announcements read, between two pauses."""

PAUSE_SECONDS: Final = 0.05


@dataclass(slots=True)
class CleanerCounts:
    """Counts of one pass."""

    ran: bool = True
    """False if another process has the lease; the other counts are of the work before that."""
    creations_waiting: int = 0
    """Creations in progress, or dead for less than `CREATION_SECONDS`."""
    creations_ended: int = 0
    deletions_ended: int = 0
    claims_removed: int = 0
    """Claims of deleted repositories."""
    repositories_waiting: int = 0
    """Deleted repositories that may still have keys."""
    repositories_done: int = 0
    branches_deleted: int = 0
    """Branches in the partitions of deleted repositories."""
    tokens_named: int = 0
    """Announced tokens that a branch still references: kept."""
    tokens_waiting: int = 0
    tokens_done: int = 0
    keys_deleted: int = 0
    uncertain: int = 0
    """Steps with an unknown outcome; the next pass retries them."""
    unreadable: int = 0
    """Damaged records, and steps that needed them; repair is manual."""

    def note_unreadable(self, _name: bytes) -> None:
        """Count a damaged record found by a scan."""
        self.unreadable += 1


class Cleaner:
    """Cleanup after all repositories; used by one thread."""

    def __init__(self, store: Store, runtime: Runtime, *, grace_seconds: float) -> None:
        self._store = store
        self._runtime = runtime
        self._grace_seconds = grace_seconds
        self._claims = NamespaceClaims(store)
        self._removal = Removal(store, runtime, self._claims)
        self._branches = Branches(store, runtime)
        self._repositories = Records(store, REPOSITORIES, GRAVELER)
        self._deleted = Records(store, DELETED, DELETED_PARTITION)
        self._dropped = Records(store, DROPPED, DROPPED_PARTITION)
        self._lease_records = LeaseRecords(store, runtime, b"cleaner", LEASE_SECONDS)
        self._lease = Lease(self._lease_records, runtime)
        self._first_seen = FirstSeen(runtime)

    def run_once(self) -> CleanerCounts:
        """Make a pass. Later passes of the same object take up the work that has to wait.

        Raises:
            StoreUnavailable: The store did not answer; the next pass continues.
        """
        counts = CleanerCounts()
        try:
            self._run(counts)
        finally:
            _report(counts)
        return counts

    def _run(self, counts: CleanerCounts) -> None:
        if not self._lease.acquire():
            counts.ran = False
            return
        try:
            self._end_repositories(counts)
            self._clean_deleted(counts)
            self._clean_dropped(counts)
            self._first_seen.forget_unseen()
        except LeaseLostError:
            _LOGGER.warning("another process took over the cleaner's lease")
            counts.ran = False
        finally:
            self._lease_records.release_lease(self._lease.holder)

    # Creations, deletions, claims

    def _end_repositories(self, counts: CleanerCounts) -> None:
        # Read claims before records: a claim without a record is then dead.
        claims = list(self._claims.list(counts.note_unreadable))
        existing = set()
        for record in self._repositories.scan_readable(counts.note_unreadable):
            existing.add(owner_of(record))
            with _attempt(counts):
                self._end_repository(record, counts)
        for namespace, owner in claims:
            if owner not in existing:
                with _attempt(counts):
                    if not self._removal.is_live(owner):
                        counts.claims_removed += self._claims.release(namespace, owner)

    def _end_repository(self, record: RepositoryRecord, counts: CleanerCounts) -> None:
        state = record.message.state
        if state == INITIAL and self._first_seen.seconds(record.predicate) < CREATION_SECONDS:
            counts.creations_waiting += 1
        elif state in {INITIAL, DELETING}:
            with suppress(PredicateFailed):  # its creator resumed
                self._removal.end(record)
                counts.creations_ended += state == INITIAL
                counts.deletions_ended += state == DELETING

    # Deleted repositories

    def _clean_deleted(self, counts: CleanerCounts) -> None:
        for record in self._deleted.scan_readable(counts.note_unreadable):
            with _attempt(counts):
                self._clean_repository(record, counts)

    def _clean_repository(
        self, record: Record[pb.DeletedRepository], counts: CleanerCounts
    ) -> None:
        owner = owner_named(record.name)
        waited = self._first_seen.seconds(record.predicate) >= self._grace_seconds
        # A live repository has no entry here; if it had, its keys must stay.
        found = 0
        if not self._removal.is_live(owner):
            found = self._empty_partition(owner, record.message, counts)
        partition = repository_partition(owner.repository, owner.unique_id)
        if waited and self._retire(self._deleted, record, partition, found):
            counts.repositories_done += 1
        else:
            counts.repositories_waiting += 1

    def _empty_partition(
        self, owner: NamespaceOwner, deleted: pb.DeletedRepository, counts: CleanerCounts
    ) -> int:
        """Delete all keys of a deleted repository; return how many it had."""
        repository = Repository(
            id=owner.repository,
            unique_id=owner.unique_id,
            namespace=Namespace.parse(deleted.storage_namespace),
            default_branch=BranchID(""),
            created_us=0,
            read_only=False,
            metadata={},
        )
        broken: list[bytes] = []
        found = 0
        records = Records(self._store, BRANCHES, repository.partition)
        for record in records.scan_readable(broken.append):
            message = record.message
            if message.state != CREATING:  # nothing can be staged before
                tokens = [
                    StagingToken(each) for each in (message.staging_token, *message.sealed_tokens)
                ]
                name = BranchID(record.name.decode())
                self._branches.announce_drop(repository, name, tokens)
            with suppress(PredicateFailed):  # changed meanwhile: left to the next pass
                records.delete_if(record.name, record.predicate)
            found += 1
        counts.branches_deleted += found
        counts.unreadable += len(broken)
        found += len(broken)  # their tokens are unknown: the announcement has to stay
        # A branch created meanwhile has tokens to announce: left to the next pass.
        return found + self._delete_keys(repository.partition, counts, except_key=BRANCHES.prefix)

    # Dropped tokens

    def _clean_dropped(self, counts: CleanerCounts) -> None:
        records = self._dropped.scan_readable(counts.note_unreadable)
        while batch := list(islice(records, BATCH)):
            named = self._named(batch, counts)
            for record in batch:
                if record.name in named:
                    self._first_seen.forget(record.predicate)
                    counts.tokens_named += 1
                    continue
                with _attempt(counts):
                    self._clean_token(record, counts)
            self._pause()

    def _named(self, records: list[Record[pb.DroppedToken]], counts: CleanerCounts) -> set[bytes]:
        """Return the announced tokens that their branches still reference, or may reference.

        Branches are read after the announcements: a token that is unreferenced then was dropped,
        and is never referenced again.
        """
        announced: dict[tuple[str, str, str], list[bytes]] = {}
        for record in records:
            message = record.message
            branch_of = (message.repository, message.unique_id, message.branch)
            announced.setdefault(branch_of, []).append(record.name)
        named: set[bytes] = set()
        for (repository, unique_id, branch), tokens_of in sorted(announced.items()):
            partition = repository_partition(RepositoryID(repository), UniqueID(unique_id))
            try:
                found = Records(self._store, BRANCHES, partition).find(branch.encode())
            except CorruptRecord as error:
                _LOGGER.warning("skipped the tokens of a branch: %s", error)
                counts.unreadable += 1
                named.update(tokens_of)
                continue
            if found is not None:
                tokens = (found.message.staging_token, *found.message.sealed_tokens)
                named.update(token.encode() for token in tokens)
        return named

    def _clean_token(self, record: Record[pb.DroppedToken], counts: CleanerCounts) -> None:
        if self._first_seen.seconds(record.predicate) < self._grace_seconds:
            counts.tokens_waiting += 1
            return
        found = self._delete_keys(record.name, counts)
        if self._retire(self._dropped, record, record.name, found):
            counts.tokens_done += 1
        else:
            counts.tokens_waiting += 1

    # Deleted repositories and dropped tokens

    def _retire(
        self, records: Records[MessageT], record: Record[MessageT], partition: bytes, found: int
    ) -> bool:
        """Remove an announcement if its partition is empty; return whether it was removed.

        `found` is the number of keys found by a scan that began after the grace period.
        """
        if self._first_seen.note_scan(record.predicate, found=found) < EMPTY_SCANS:
            return False
        start = self._store.drop_tombstones(partition, b"", BATCH)
        while start is not None:
            self._pause()
            start = self._store.drop_tombstones(partition, start, BATCH)
        try:
            records.delete_if(record.name, record.predicate)
        except PredicateFailed:
            return False  # announced again
        announcements, key = records.place(record.name)
        self._store.drop_tombstones(announcements, key, 1, key + b"\x00")
        return True

    def _delete_keys(
        self, partition: bytes, counts: CleanerCounts, *, except_key: bytes | None = None
    ) -> int:
        """Delete the keys of a partition that do not begin with `except_key`; return how many."""

        def delete(item: Item) -> None:
            self._store.delete(partition, item.key)

        start = b""
        deleted = 0
        while page := list(self._store.scan(partition, start, limit=BATCH)):
            doomed = [item for item in page if not (except_key and item.key.startswith(except_key))]
            self._runtime.map_parallel(delete, doomed)
            deleted += len(doomed)
            counts.keys_deleted += len(doomed)
            start = page[-1].key + b"\x00"
            self._pause()
        return deleted

    def _pause(self) -> None:
        """Yield to other threads, and renew the lease."""
        self._runtime.sleep(PAUSE_SECONDS)
        if not self._lease.keep():
            raise LeaseLostError


@contextmanager
def _attempt(counts: CleanerCounts) -> Iterator[None]:
    """Skip a step with an unknown outcome or a damaged record; raise `StoreUnavailable`."""
    try:
        yield
    except StoreUnavailable:
        raise
    except (OutcomeUnknown, TooManyTries):
        counts.uncertain += 1
    except CorruptRecord as error:
        _LOGGER.warning("skipped a cleaner step: %s", error)
        counts.unreadable += 1


def _report(counts: CleanerCounts) -> None:
    """Count and log the results of a pass."""
    removed = {
        "creations": counts.creations_ended,
        "deletions": counts.deletions_ended,
        "claims": counts.claims_removed,
        "repositories": counts.repositories_done,
        "branches": counts.branches_deleted,
        "tokens": counts.tokens_done,
        "keys": counts.keys_deleted,
    }
    for kind, count in removed.items():
        CLEANED.labels(kind).inc(count)
    if any(removed.values()):
        done = ", ".join(f"{count} {kind}" for kind, count in removed.items() if count)
        _LOGGER.info("the cleaner removed %s", done)
    if counts.unreadable:
        _LOGGER.warning("the cleaner skipped %d damaged records", counts.unreadable)
    if counts.uncertain:
        _LOGGER.warning(
            "the outcome of %d cleaner steps is unknown: retrying later", counts.uncertain
        )
