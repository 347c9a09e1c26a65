"""Removes what nothing names any more: dropped tokens, deleted repositories, dead creations.

Whatever the engine drops, it announces first. The Cleaner reads the announcements, waits, deletes,
looks again, and removes the announcement last. So a pass may stop anywhere, and the next one goes
on. Two Cleaners at once do no harm: the lease only saves work.

**Why it waits.** What to delete is clear: a token that its branch does not name is never named
again, and a repository that is gone never comes back. But a request that began before may still
read or write there. No request lasts as long as the grace period. So the keys of a token are
deleted only a grace period after it was first seen unnamed: all readers of the old record have
ended. And an announcement is removed only when two passes in a row, after the grace period, found
nothing to delete: all writers of the old record have ended too. (A request that is slower than all
that leaves keys that nothing names and nobody sees.)

**Tombstones.** Before an announcement is removed, the tombstones of its partition are dropped, and
its own one after that: some databases keep them for ever (see `lakebed.kv.fenced`).

**Damaged records** are left alone, logged and counted, and the pass goes on. What a damaged record
may name is kept: the tokens of a branch whose record cannot be read, the claim of such a
repository.

**Clocks.** When something was first seen is kept in memory, by the monotonic clock. A process that
restarts begins to wait again. The times in records are not used.

In each pass, in order:

- creations seen as `initial` for two minutes, and deletions under way, are ended (`removal`);
- claims of repositories that are gone are removed (`claims`);
- in the partition of each deleted repository, branches are deleted, after their tokens were
  announced, then all other keys; its entry in `graveler_deleted` is an announcement too, and is
  removed last;
- the keys of dropped tokens are deleted.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lakebed.base.ids import UniqueID
from lakebed.base.leases import Lease
from lakebed.base.runtime import Runtime
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
from lakebed.engine.repositories.claims import Claimant, Claims
from lakebed.engine.repositories.removal import (
    DELETING,
    INITIAL,
    Removal,
    RepositoryRecord,
    claimant_named,
    claimant_of,
)
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
class _Sighting:
    first_seconds: float
    empty_scans: int = 0
    fresh: bool = True
    """Whether it was seen since the last `FirstSeen.forget_the_rest`."""


class FirstSeen:
    """Remembers records by their versions: one that was written again counts as another one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._first_seen: dict[Version, _Sighting] = {}

    def seconds(self, version: Version) -> float:
        """How long ago this process first saw a record; 0 if it sees it now."""
        now = self._runtime.monotonic()
        sighting = self._first_seen.setdefault(version, _Sighting(now))
        sighting.fresh = True
        return now - sighting.first_seconds

    def note_scan(self, version: Version, *, found: int) -> int:
        """Count the scans in a row that found nothing behind a record that was seen before."""
        sighting = self._first_seen[version]
        sighting.empty_scans = 0 if found else sighting.empty_scans + 1
        return sighting.empty_scans

    def forget(self, version: Version) -> None:
        """Forget a record: when it is seen next, that is the first time."""
        self._first_seen.pop(version, None)

    def forget_the_rest(self) -> None:
        """Forget what was not seen since this was called last."""
        kept = {version: seen for version, seen in self._first_seen.items() if seen.fresh}
        for sighting in kept.values():
            sighting.fresh = False
        self._first_seen = kept


_LOGGER: Final = logging.getLogger(__name__)

CREATION_SECONDS: Final = 120.0
"""A creation that one process has seen unfinished for so long is ended."""

LEASE_SECONDS: Final = 60.0
EMPTY_SCANS: Final = 2
BATCH: Final = 500
"""How many keys are deleted, or announcements read, between two pauses."""

PAUSE_SECONDS: Final = 0.05


@dataclass(slots=True)
class CleanerCounts:
    """What a pass found and did."""

    ran: bool = True
    """False: another process has the lease; the other counts say what was done before that."""
    creations_waiting: int = 0
    """Creations under way, or dead but not for long enough."""
    creations_ended: int = 0
    deletions_ended: int = 0
    claims_removed: int = 0
    """Claims whose repositories are gone."""
    repositories_waiting: int = 0
    """Deleted repositories that may still have keys."""
    repositories_done: int = 0
    branches_deleted: int = 0
    """In the partitions of deleted repositories."""
    tokens_named: int = 0
    """Tokens that are announced, but still named by a branch: kept."""
    tokens_waiting: int = 0
    tokens_done: int = 0
    keys_deleted: int = 0
    uncertain: int = 0
    """Steps that may or may not have worked; the next pass takes them again."""
    unreadable: int = 0
    """Damaged records, and steps that needed one; somebody has to look at them."""

    def note_unreadable(self, _name: bytes) -> None:
        """Count a damaged record that a scan has met."""
        self.unreadable += 1


class Cleaner:
    """Cleans up after all repositories; one for a process, used by one thread."""

    def __init__(self, store: Store, runtime: Runtime, *, grace_seconds: float) -> None:
        self._store = store
        self._runtime = runtime
        self._grace_seconds = grace_seconds
        self._claims = Claims(store)
        self._removal = Removal(store, runtime, self._claims)
        self._branches = Branches(store, runtime)
        self._repositories = Records(store, REPOSITORIES, GRAVELER)
        self._deleted = Records(store, DELETED, DELETED_PARTITION)
        self._dropped = Records(store, DROPPED, DROPPED_PARTITION)
        self._lease_records = LeaseRecords(store, runtime, b"cleaner", LEASE_SECONDS)
        self._lease = Lease(self._lease_records, runtime)
        self._first_seen = FirstSeen(runtime)

    def run_once(self) -> CleanerCounts:
        """Make one pass. What has to wait is taken up by a later pass of the same object.

        Raises:
            StoreUnavailable: The store did not answer; the next pass goes on from there.
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
            self._first_seen.forget_the_rest()
        except LeaseLostError:
            _LOGGER.warning("another process took the lease of the cleaner")
            counts.ran = False
        finally:
            self._lease_records.release_lease(self._lease.holder)

    # Creations, deletions, claims

    def _end_repositories(self, counts: CleanerCounts) -> None:
        # Claims are read before records: if the record of a claim is not found then, it is dead.
        claims = list(self._claims.list(counts.note_unreadable))
        there = set()
        for record in self._repositories.scan_readable(counts.note_unreadable):
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
        for record in self._deleted.scan_readable(counts.note_unreadable):
            with _attempt(counts):
                self._clean_repository(record, counts)

    def _clean_repository(
        self, record: Record[pb.DeletedRepository], counts: CleanerCounts
    ) -> None:
        claimant = claimant_named(record.name)
        waited = self._first_seen.seconds(record.predicate) >= self._grace_seconds
        # No repository that lives has an entry here. If it ever had, it would not be touched.
        found = 0
        if not self._removal.lives(claimant):
            found = self._empty_partition(claimant, record.message, counts)
        partition = repository_partition(claimant.repository, claimant.unique_id)
        if waited and self._retire(self._deleted, record, partition, found):
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
        broken: list[bytes] = []
        found = 0
        records = Records(self._store, BRANCHES, repository.partition)
        for record in records.scan_readable(broken.append):
            message = record.message
            if message.state != CREATING:  # else nothing can be staged on it
                tokens = [
                    StagingToken(each) for each in (message.staging_token, *message.sealed_tokens)
                ]
                name = BranchID(record.name.decode())
                self._branches.announce_drop(repository, name, tokens)
            with suppress(PredicateFailed):  # it was changed: the next pass sees to it
                records.delete_if(record.name, record.predicate)
            found += 1
        counts.branches_deleted += found
        counts.unreadable += len(broken)
        found += len(broken)  # nobody knows their tokens: the announcement has to stay
        # A branch that was made meanwhile has tokens to announce: it is left to the next pass.
        return found + self._delete_keys(repository.partition, counts, spare=BRANCHES.prefix)

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
        """Return the announced tokens that their branches still name, or may name.

        The branches are read after the announcements: an announced token that is not named then
        was dropped, and is never named again.
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
                _LOGGER.warning("the tokens of a branch are left alone: %s", error)
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

        `found` is how many keys a scan found that began after the grace period.
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
        self, partition: bytes, counts: CleanerCounts, *, spare: bytes | None = None
    ) -> int:
        """Delete the keys of a partition that do not begin with `spare`; return how many."""

        def delete(item: Item) -> None:
            self._store.delete(partition, item.key)

        start = b""
        deleted = 0
        while page := list(self._store.scan(partition, start, limit=BATCH)):
            doomed = [item for item in page if not (spare and item.key.startswith(spare))]
            self._runtime.map_parallel(delete, doomed)
            deleted += len(doomed)
            counts.keys_deleted += len(doomed)
            start = page[-1].key + b"\x00"
            self._pause()
        return deleted

    def _pause(self) -> None:
        """Let others work, and make sure that this process still has the lease."""
        self._runtime.sleep(PAUSE_SECONDS)
        if not self._lease.keep():
            raise LeaseLostError


@contextmanager
def _attempt(counts: CleanerCounts) -> Iterator[None]:
    """Go on with the next step if one has no certain outcome, or needs a record that is damaged.

    But not if the store is down.
    """
    try:
        yield
    except StoreUnavailable:
        raise
    except (OutcomeUnknown, TooManyTries):
        counts.uncertain += 1
    except CorruptRecord as error:
        _LOGGER.warning("a step of the cleaner is left out: %s", error)
        counts.unreadable += 1


def _report(counts: CleanerCounts) -> None:
    """Count and log what a pass has done."""
    removed = {
        "creations": counts.creations_ended,
        "deletions": counts.deletions_ended,
        "claims": counts.claims_removed,
        "repositories": counts.repositories_done,
        "branches": counts.branches_deleted,
        "tokens": counts.tokens_done,
        "keys": counts.keys_deleted,
    }
    for what, count in removed.items():
        CLEANED.labels(what).inc(count)
    if any(removed.values()):
        done = ", ".join(f"{count} {what}" for what, count in removed.items() if count)
        _LOGGER.info("the cleaner removed %s", done)
    if counts.unreadable:
        _LOGGER.warning("the cleaner left %d damaged records alone", counts.unreadable)
    if counts.uncertain:
        _LOGGER.warning("the cleaner could not finish %d steps: trying later", counts.uncertain)
