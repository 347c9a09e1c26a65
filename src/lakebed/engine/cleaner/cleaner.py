"""Removes what nothing names any more: dropped tokens, deleted repositories, creations that died.

Whatever the engine drops, it announces first; the Cleaner reads the announcements, waits, deletes,
looks again, and removes the announcement last. So a pass may stop anywhere and the next one goes
on, and two Cleaners at once do no harm: the lease only saves work.

**Why it waits.** Deciding is easy: a token that its branch does not name is never named again, and
a repository that is gone never comes back. But a request that began before may still read there, or
write. No request lasts as long as the grace period. So the keys of a token are deleted only when
it was first seen unnamed a grace period ago: readers that began with the old record have ended. And
an announcement is removed only when two passes in a row, past the grace period, found nothing to
delete: writers that began with the old record have ended too. (A request slower than all that
leaves strays, which nothing names and nobody sees.)

**Clocks.** Times of first sight are kept in memory, by the monotonic clock; who restarts begins to
wait again. The times in records are not looked at.

In each pass, in order:

- creations seen `initial` for two minutes, and deletions under way, are ended (see `removal`);
- claims of repositories that are no more are removed (see `claims`);
- in the partition of each deleted repository, branches are deleted, their tokens announced first,
  then all other keys; its entry in `graveler_deleted` is such an announcement, and goes last;
- the keys of dropped tokens are deleted.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.cleaner.first_seen import FirstSeen
from lakebed.engine.cleaner.lease import Lease
from lakebed.engine.errors import BranchNotFound, TooManyTries
from lakebed.engine.keys import (
    BRANCHES,
    DELETED,
    DELETED_PARTITION,
    DROPPED,
    DROPPED_PARTITION,
    GRAVELER,
    REPOSITORIES,
)
from lakebed.engine.model import BranchID, Repository, RepositoryID, repository_partition
from lakebed.engine.refs.branches import Branches
from lakebed.engine.repositories.claims import Claimant, Claims
from lakebed.engine.repositories.removal import (
    DELETING,
    INITIAL,
    Removal,
    RepositoryRecord,
    claimant_named,
    claimant_of,
)
from lakebed.ids import UniqueID
from lakebed.kv import Item, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import MessageT, Record, Records
from lakebed.runtime import Runtime

GRACE_SECONDS: Final = 900.0
"""Longer than any request."""

CREATION_SECONDS: Final = 120.0
"""A creation that one process has seen unfinished for so long is ended."""

LEASE_SECONDS: Final = 60.0
EMPTY_SCANS: Final = 2
BATCH: Final = 500
"""How many keys are deleted, or announcements looked at, between two pauses."""

PAUSE_SECONDS: Final = 0.05


@dataclass(slots=True)
class CleanerCounts:
    """What a pass found and did."""

    ran: bool = True
    """False: another process holds the lease, or took it; the rest tells of what was done."""
    creations_waiting: int = 0
    """Creations under way, or dead but not for long enough."""
    creations_ended: int = 0
    deletions_ended: int = 0
    claims_removed: int = 0
    """Claims whose repositories are no more."""
    repositories_waiting: int = 0
    """Deleted repositories that may still have keys."""
    repositories_done: int = 0
    branches_deleted: int = 0
    """In the partitions of deleted repositories."""
    tokens_named: int = 0
    """Announced, but still named by a branch: kept."""
    tokens_waiting: int = 0
    tokens_done: int = 0
    keys_deleted: int = 0
    uncertain: int = 0
    """What the store gave no certain answer to; the next pass looks again."""


class _LeaseLostError(Exception):
    """Another process took the lease."""


class Cleaner:
    """Cleans up after all repositories; one object lives as long as its process, in one thread."""

    def __init__(
        self, store: Store, runtime: Runtime, *, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._grace_seconds = grace_seconds
        self._claims = Claims(store)
        self._removal = Removal(store, runtime, self._claims)
        self._branches = Branches(store, runtime)
        self._repositories = Records(store, REPOSITORIES, GRAVELER)
        self._deleted = Records(store, DELETED, DELETED_PARTITION)
        self._dropped = Records(store, DROPPED, DROPPED_PARTITION)
        self._lease = Lease(store, runtime, b"cleaner", seconds=LEASE_SECONDS)
        self._first_seen = FirstSeen(runtime)

    def run_once(self) -> CleanerCounts:
        """Make one pass. What has to wait is taken up by a later pass of the same object.

        Raises:
            StoreUnavailable: The store did not answer; the next pass goes on from there.
            CorruptRecord: A record is not what its key says. It is left alone, and so is all that
                would have come after it.
        """
        counts = CleanerCounts()
        if not self._lease.acquire():
            counts.ran = False
            return counts
        try:
            self._end_repositories(counts)
            self._clean_deleted(counts)
            self._clean_dropped(counts)
            self._first_seen.forget_the_rest()
        except _LeaseLostError:
            counts.ran = False
        finally:
            self._lease.release()
        return counts

    # Creations, deletions, claims

    def _end_repositories(self, counts: CleanerCounts) -> None:
        # Claims before records: a claim whose record is not there afterwards is dead.
        claims = list(self._claims.list())
        there = set()
        for record in self._repositories.scan():
            there.add(claimant_of(record))
            with _attempt(counts):
                self._end_repository(record, counts)
        for namespace, claimant in claims:
            if claimant not in there:
                with _attempt(counts):
                    self._remove_claim(namespace, claimant, counts)

    def _end_repository(self, record: RepositoryRecord, counts: CleanerCounts) -> None:
        state = record.message.state
        if state == INITIAL and self._first_seen.seconds(record.predicate) < CREATION_SECONDS:
            counts.creations_waiting += 1
        elif state in {INITIAL, DELETING}:
            with suppress(PredicateFailed):  # its creator woke up
                self._removal.end(record)
                counts.creations_ended += state == INITIAL
                counts.deletions_ended += state == DELETING

    def _remove_claim(
        self, namespace: Namespace, claimant: Claimant, counts: CleanerCounts
    ) -> None:
        if not self._removal.lives(claimant):
            counts.claims_removed += self._claims.release(namespace, claimant)

    # Deleted repositories

    def _clean_deleted(self, counts: CleanerCounts) -> None:
        for record in self._deleted.scan():
            with _attempt(counts):
                self._clean_repository(record, counts)

    def _clean_repository(
        self, record: Record[pb.DeletedRepository], counts: CleanerCounts
    ) -> None:
        claimant = claimant_named(record.name)
        waited = self._first_seen.seconds(record.predicate) >= self._grace_seconds
        # No repository that lives has an entry here. Should it ever, it is not touched.
        found = 0
        if not self._removal.lives(claimant):
            found = self._empty_partition(claimant, record.message, counts)
        if waited and self._retire(self._deleted, record, found):
            counts.repositories_done += 1
        else:
            counts.repositories_waiting += 1

    def _empty_partition(
        self, claimant: Claimant, deleted: pb.DeletedRepository, counts: CleanerCounts
    ) -> int:
        """Delete all keys of a deleted repository; return how many there were."""
        repository = Repository(
            id=claimant.repository,
            unique_id=claimant.unique_id,
            namespace=Namespace.parse(deleted.storage_namespace),
            default_branch=BranchID(""),
            created_us=0,
            read_only=False,
            metadata={},
        )
        found = 0
        for branch in self._branches.list(repository):
            with suppress(BranchNotFound):
                self._branches.delete(repository, branch.id)
            found += 1
        counts.branches_deleted += found
        # A branch that was made meanwhile has tokens to announce: it is left to the next pass.
        return found + self._delete_keys(repository.partition, counts, spare=BRANCHES.prefix)

    # Dropped tokens

    def _clean_dropped(self, counts: CleanerCounts) -> None:
        records = self._dropped.scan()
        while batch := list(islice(records, BATCH)):
            named = self._named(batch)
            for record in batch:
                if record.name in named:
                    self._first_seen.forget(record.predicate)
                    counts.tokens_named += 1
                    continue
                with _attempt(counts):
                    self._clean_token(record, counts)
            self._pause()

    def _named(self, records: list[Record[pb.DroppedToken]]) -> set[bytes]:
        """Which of the announced tokens their branches still name.

        The branches are read after the announcements: an announced token that is not named then
        was dropped, and is never named again.
        """
        branches = {
            (message.repository, message.unique_id, message.branch)
            for message in (record.message for record in records)
        }
        named: set[bytes] = set()
        for repository, unique_id, branch in sorted(branches):
            partition = repository_partition(RepositoryID(repository), UniqueID(unique_id))
            found = Records(self._store, BRANCHES, partition).find(branch.encode())
            if found is not None:
                tokens = (found.message.staging_token, *found.message.sealed_tokens)
                named.update(token.encode() for token in tokens)
        return named

    def _clean_token(self, record: Record[pb.DroppedToken], counts: CleanerCounts) -> None:
        if self._first_seen.seconds(record.predicate) < self._grace_seconds:
            counts.tokens_waiting += 1
            return
        found = self._delete_keys(record.name, counts)
        if self._retire(self._dropped, record, found):
            counts.tokens_done += 1
        else:
            counts.tokens_waiting += 1

    # What both have in common

    def _retire(self, records: Records[MessageT], record: Record[MessageT], found: int) -> bool:
        """Remove an announcement if there is nothing behind it any more; return whether it went.

        `found` is what a scan found that began after the grace period.
        """
        if self._first_seen.note_scan(record.predicate, found=found) < EMPTY_SCANS:
            return False
        try:
            records.delete_if(record.name, record.predicate)
        except PredicateFailed:
            return False  # announced again
        return True

    def _delete_keys(
        self, partition: bytes, counts: CleanerCounts, *, spare: bytes | None = None
    ) -> int:
        """Delete the keys of a partition, but those that begin with `spare`; return how many."""

        def delete(entry: Item) -> None:
            self._store.delete(partition, entry.key)

        start = b""
        deleted = 0
        while page := list(self._store.scan(partition, start, limit=BATCH)):
            doomed = [entry for entry in page if not (spare and entry.key.startswith(spare))]
            self._runtime.map_parallel(delete, doomed)
            deleted += len(doomed)
            counts.keys_deleted += len(doomed)
            start = page[-1].key + b"\x00"
            self._pause()
        return deleted

    def _pause(self) -> None:
        """Let others work; and make sure that this is still the one to do it."""
        self._runtime.sleep(PAUSE_SECONDS)
        if not self._lease.keep():
            raise _LeaseLostError


@contextmanager
def _attempt(counts: CleanerCounts) -> Iterator[None]:
    """Go on with the next thing if one has no certain outcome; but not if the store is away."""
    try:
        yield
    except StoreUnavailable:
        raise
    except (OutcomeUnknown, TooManyTries):
        counts.uncertain += 1
