"""Merging pull requests: each at most once, despite failures.

A merge changes two records: the branch and the pull request. No store changes both atomically, so
the state of the pull request records the progress, and the process may die after each step:

1. *Announce* (``pulls_merging/<id>``), so that the Cleaner finds interrupted merges.
2. *Lease*: the state becomes MERGING, with a lease token and the destination branch.
3. *Merge*. Before each attempt to publish, the commit's id is added to the record.
4. *End*: the state becomes MERGED, with the id of the commit. The announcement is removed.

A process that finds a merge without heartbeats takes it over: the state becomes REOPENING, with a
new lease token, so that the previous process can record, and so publish, no further commit. Then
the branch record is rewritten with the same content, so that a pending swap of the branch fails.
Only now does the history of the branch show for certain whether a recorded commit was published.
Before that, neither the absence of a commit nor the age of a merge proves anything.
"""

import logging
from contextlib import suppress
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.leases import Observations
from lakebed.base.runtime import Runtime, now_us
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import BranchNotFound, TooManyTries
from lakebed.engine.leases import LeasedRecord, LeaseLostError
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository
from lakebed.kv import CorruptRecord, PredicateFailed, Store
from lakebed.kv.records import Record, Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import find_source
from lakebed.lake.errors import PullBusy
from lakebed.lake.keys import PULLS, PULLS_MERGING
from lakebed.lake.pulls.model import IN_PROGRESS
from lakebed.lake.settings import CatalogSettings

_HEARTBEATS_PER_TIMEOUT: Final = 4

_LOGGER: Final = logging.getLogger(__name__)


class NotBegun(Exception):
    """The pull request has changed since it was read; nothing was done."""


class LeasedPull(LeasedRecord[pb.PullRequest]):
    """A pull request that this process is merging or reopening."""

    def begin(self, destination: Branch) -> bool:
        """Begin a merge into a branch; return False if another process was faster."""

        def begin(message: pb.PullRequest) -> None:
            message.state = pb.PULL_STATE_MERGING
            message.destination_unique_id = destination.unique_id
            del message.offered_commit_ids[:]

        return self.take(begin)

    def take_over(self) -> bool:
        """Stop the previous process from publishing; return False if another was faster."""

        def take_over(message: pb.PullRequest) -> None:
            message.state = pb.PULL_STATE_REOPENING

        return self.take(take_over)

    def note(self, commit: Commit) -> None:
        """Record a commit about to be published; raises as `change` does."""

        def note(message: pb.PullRequest) -> None:
            if commit.id not in message.offered_commit_ids:
                message.offered_commit_ids.append(commit.id)

        self.change(note)

    def end(self, commit_id: CommitID | None) -> None:
        """Set the state to merged with a commit, or to open without; raises as `change` does."""

        def end(message: pb.PullRequest) -> None:
            del message.offered_commit_ids[:]
            message.destination_unique_id = ""
            if commit_id is None:
                message.state = pb.PULL_STATE_OPEN
            else:
                message.state = pb.PULL_STATE_MERGED
                message.merged_commit_id = commit_id
                message.closed_us = now_us(self._runtime)

        self.change(end)

    def _is_running(self, message: pb.PullRequest) -> bool:
        return message.state in IN_PROGRESS


class PullMerger:
    """Merges pull requests, and determines the outcome of interrupted merges."""

    def __init__(
        self, engine: Engine, store: Store, runtime: Runtime, settings: CatalogSettings
    ) -> None:
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self._heartbeat_seconds = settings.task_heartbeat_seconds
        self._observed = Observations(runtime)

    def merge(
        self, repository: Repository, record: Record[pb.PullRequest], request: MergeRequest
    ) -> CommitID:
        """Merge a pull request that was open when read.

        Raises:
            NotBegun: The pull request has changed since.
            PullBusy: Another process took over the merge.
            LakebedError: As raised by `Merger.merge`; the pull request is open again.
            OutcomeUnknown: The store is unavailable. The pull request may be merged; the Cleaner
                determines the outcome.
        """
        pull_id = record.name.decode()
        found = record.message
        destination = self._engine.branches.get(repository, BranchID(found.destination_branch))
        self._announced(repository).set(record.name, pb.PullMerging())
        leased = LeasedPull(self._records(repository), record, self._runtime)
        try:
            commit_id = self._take_up(repository, leased, destination, request)
        except NotBegun:
            raise
        except LeaseLostError:
            raise PullBusy(pull_id, "was taken over by another process") from None
        except Exception as error:
            merged = self._recover(repository, leased, record.name)
            if merged is None:
                raise
            _LOGGER.warning("pull request %s is merged despite an error: %s", pull_id, error)
            return merged
        self._end(repository, leased, record.name, commit_id)
        return commit_id

    def _take_up(
        self, repository: Repository, leased: LeasedPull, destination: Branch, request: MergeRequest
    ) -> CommitID:
        """Merge a pull request with heartbeats, unless another process does."""
        if not leased.begin(destination):
            raise NotBegun
        return leased.keep_alive(
            lambda: self._publish(repository, leased, destination, request),
            heartbeat_seconds=self._heartbeat_seconds / _HEARTBEATS_PER_TIMEOUT,
        )

    def _publish(
        self, repository: Repository, leased: LeasedPull, destination: Branch, request: MergeRequest
    ) -> CommitID:
        source = leased.message.source_branch
        repository = self._engine.repositories.get_writable(repository.id)
        merged = self._engine.merger.merge(
            repository,
            destination.id,
            find_source(self._engine, repository, source),
            request,
            source_ref=source,
            known=destination,
            note=leased.note,
        )
        return merged.id

    def _end(
        self, repository: Repository, leased: LeasedPull, name: bytes, commit_id: CommitID
    ) -> None:
        """Record the merge, unless another process took over and did so."""
        try:
            leased.end(commit_id)
        except LeaseLostError:
            return
        except LakebedError as error:
            _LOGGER.warning(
                "commit %s merged a pull request, not yet recorded: %s", commit_id, error
            )
            return
        self._forget(repository, name)

    def _recover(self, repository: Repository, leased: LeasedPull, name: bytes) -> CommitID | None:
        """Determine whether the pull request is merged, after an error of this process."""
        with suppress(LakebedError):
            record = self._records(repository).find(name)
            if record is not None and leased.owns(record.message):
                return self.recover(repository, record, at_once=True)
        return None  # if the store is unavailable, the Cleaner recovers

    def recover(
        self, repository: Repository, record: Record[pb.PullRequest], *, at_once: bool = False
    ) -> CommitID | None:
        """End an interrupted merge; return the commit, or None if none was published.

        Safe even if the merging process is alive: its lease is lost, and it stops. Without
        `at_once`, raises `PullBusy` if the process sends heartbeats, or another one was faster.
        """
        pull_id, found = record.name.decode(), record.message
        if found.state not in IN_PROGRESS:
            return CommitID(found.merged_commit_id) if found.merged_commit_id else None
        if not at_once and not self._is_dead(repository, record):
            raise PullBusy(pull_id, "is being merged")
        leased = LeasedPull(self._records(repository), record, self._runtime)
        if not leased.take_over():
            raise PullBusy(pull_id, "was changed concurrently")
        commit_id = self._find_published(repository, leased.message)
        try:
            leased.end(commit_id)
        except LeaseLostError:
            raise PullBusy(pull_id, "was taken over by another process") from None
        if commit_id is not None:
            self._forget(repository, record.name)
        return commit_id

    def recover_all(self, repository: Repository) -> int:
        """End the interrupted merges of a repository; return their number."""
        recovered = 0
        for announced in list(self._announced(repository).scan_readable()):
            # Contended: the next pass retries.
            with suppress(PullBusy, PredicateFailed, TooManyTries):
                try:
                    record = self._records(repository).find(announced.name)
                except CorruptRecord as error:
                    _LOGGER.warning("the merge of a pull request is skipped: %s", error)
                    continue
                if record is None or record.message.state not in IN_PROGRESS:
                    self._drop(repository, announced, record)
                else:
                    self.recover(repository, record)
                    recovered += 1
        return recovered

    def _drop(
        self,
        repository: Repository,
        announced: Record[pb.PullMerging],
        record: Record[pb.PullRequest] | None,
    ) -> None:
        """Remove an announcement; raise `PredicateFailed` if its merge is about to begin.

        A merge reads the record, announces itself and leases the record, in this order. So if the
        announcement is unchanged after the record was rewritten, its merge can no longer begin.
        """
        if record is not None:
            self._records(repository).set_if(record.name, record.message, record.predicate)
        self._announced(repository).delete_if(announced.name, announced.predicate)

    def _find_published(self, repository: Repository, message: pb.PullRequest) -> CommitID | None:
        """Return the recorded commit that was published, if any; no other can be any more."""
        offered = [CommitID(each) for each in message.offered_commit_ids]
        if not offered:
            return None
        # If the branch was deleted, so was every merge into it, finished or pending.
        with suppress(BranchNotFound):
            branch = self._engine.branches.get(repository, BranchID(message.destination_branch))
            if branch.unique_id == message.destination_unique_id:
                return self._engine.publisher.find_published(repository, branch, offered)
        return None

    def _is_dead(self, repository: Repository, record: Record[pb.PullRequest]) -> bool:
        name = repository.partition + record.name
        is_dead = self._observed.is_dead(name, record.predicate, seconds=self._heartbeat_seconds)
        if is_dead:
            self._observed.forget(name)
        return is_dead

    def _forget(self, repository: Repository, name: bytes) -> None:
        """Remove the announcement of a merge that cannot be repeated."""
        # If the deletion is lost, the Cleaner repeats it.
        with suppress(LakebedError):
            self._announced(repository).delete(name)

    def _records(self, repository: Repository) -> Records[pb.PullRequest]:
        return Records(self._store, PULLS, repository.partition)

    def _announced(self, repository: Repository) -> Records[pb.PullMerging]:
        return Records(self._store, PULLS_MERGING, repository.partition)
