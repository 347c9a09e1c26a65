"""Creating, listing, changing and merging pull requests."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final

from lakebed.base.errors import LakebedError, shown
from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, now_us
from lakebed.base.tracing import traced
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import BranchNotFound, DirtyBranch
from lakebed.engine.model import BranchID, Commit, CommitID, Repository, RepositoryID
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import PULL_REQUEST_KEY
from lakebed.lake.errors import InvalidPull, PullBusy, PullNotFound, PullStatusRefused
from lakebed.lake.keys import PULLS, copy_of
from lakebed.lake.pulls.merging import NotBegun, PullMerger
from lakebed.lake.pulls.model import (
    IN_PROGRESS,
    Mergeability,
    PullID,
    PullRequest,
    PullStatus,
    check_description,
    check_title,
    new_pull_id,
)
from lakebed.lake.settings import CatalogSettings

_TRIES: Final = 10
_CONFLICT_COUNTS_CACHED: Final = 1000

_STATES: Final = {PullStatus.OPEN: pb.PULL_STATE_OPEN, PullStatus.CLOSED: pb.PULL_STATE_CLOSED}


class Pulls:
    """Manages the pull requests of all repositories.

    Methods raise `RepositoryNotFound`, `BranchNotFound` or `PullNotFound` if a repository, branch
    or pull request does not exist.
    """

    def __init__(
        self, engine: Engine, store: Store, runtime: Runtime, settings: CatalogSettings
    ) -> None:
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self.merger = PullMerger(engine, store, runtime, settings)
        # Keyed by the metaranges compared, which are immutable; clients poll.
        self._conflicts: LRU[tuple[str, ...], int] = LRU(runtime, cost_max=_CONFLICT_COUNTS_CACHED)

    @traced("catalog.create_pull")
    def create(
        self,
        repository_id: RepositoryID,
        *,
        source: BranchID,
        destination: BranchID,
        title: str,
        description: str = "",
        author: str,
    ) -> PullID:
        """Create a pull request from one branch to another.

        Raises:
            InvalidPull: Both branches are the same, or a text is missing or too long.
            OutcomeUnknown: The pull request may have been created.
        """
        made = pb.PullRequest(
            title=check_title(title),
            description=check_description(description),
            source_branch=source,
            destination_branch=destination,
            author=author,
            created_us=now_us(self._runtime),
            state=pb.PULL_STATE_OPEN,
        )
        repository = self._engine.repositories.get(repository_id)
        if source == destination:
            raise InvalidPull(
                f"source and destination are both '{source}': choose two different branches"
            )
        for branch in (source, destination):
            self._engine.branches.get(repository, branch)
        pull_id = new_pull_id(self._runtime)
        self._records(repository).set_if(pull_id.encode(), made, ABSENT)
        return pull_id

    @traced("catalog.get_pull")
    def get(self, repository_id: RepositoryID, pull_id: PullID) -> PullRequest:
        repository = self._engine.repositories.get(repository_id)
        return PullRequest.of(self._find(repository, pull_id))

    def list(
        self,
        repository_id: RepositoryID,
        *,
        prefix: str = "",
        after: str = "",
        is_open: bool | None = None,
    ) -> Iterator[PullRequest]:
        """Yield pull requests whose ids have a prefix, newest first, after the id `after`.

        With `is_open`, yields only open ones (True) or only others (False).
        """
        repository = self._engine.repositories.get(repository_id)
        start = after.encode() + b"\x00" if after else b""
        found = self._records(repository).scan(prefix=prefix.encode(), start=start)
        pulls = (PullRequest.of(record) for record in found)
        return (
            pull for pull in pulls if is_open is None or (pull.status is PullStatus.OPEN) == is_open
        )

    @traced("catalog.update_pull")
    def update(
        self,
        repository_id: RepositoryID,
        pull_id: PullID,
        *,
        title: str | None = None,
        description: str | None = None,
        status: PullStatus | None = None,
    ) -> None:
        """Change the texts of a pull request, close or reopen it.

        Raises:
            InvalidPull: A text is missing or too long.
            PullStatusRefused: The pull request is merged, or `status` is MERGED.
            PullBusy: The pull request is being merged.
            OutcomeUnknown: The change may have been made.
        """
        if status is PullStatus.MERGED:
            raise PullStatusRefused(f"pull request {pull_id} cannot be set to merged: merge it")
        repository = self._engine.repositories.get(repository_id)

        def edit(message: pb.PullRequest) -> None:
            if title is not None:
                message.title = check_title(title)
            if description is not None:
                message.description = check_description(description)
            if status is not None:
                self._set_status(pull_id, message, status)

        if status is not None:
            self._end_interrupted_merge(repository, pull_id)
        self._change(repository, pull_id, edit)

    def _set_status(self, pull_id: PullID, message: pb.PullRequest, status: PullStatus) -> None:
        if message.state == pb.PULL_STATE_MERGED:
            raise PullStatusRefused(f"pull request {pull_id} is already merged")
        if message.state in IN_PROGRESS:
            raise PullBusy(pull_id, "is being merged")
        if message.state != _STATES[status]:
            message.state = _STATES[status]
            message.closed_us = now_us(self._runtime) if status is PullStatus.CLOSED else 0

    def _change(
        self, repository: Repository, pull_id: PullID, edit: Callable[[pb.PullRequest], None]
    ) -> None:
        """Change a pull request with compare-and-swap, retrying on concurrent changes."""
        for left in reversed(range(_TRIES)):
            record = self._find(repository, pull_id)
            changed = copy_of(record.message)
            edit(changed)
            if changed == record.message:
                return
            try:
                self._records(repository).set_if(record.name, changed, record.predicate)
            except PredicateFailed:
                continue
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                if not left:
                    raise
            else:
                return
        raise PullBusy(pull_id, "keeps being changed concurrently")

    # Merging

    @traced("catalog.merge_pull")
    def merge(
        self, repository_id: RepositoryID, pull_id: PullID, request: MergeRequest
    ) -> CommitID:
        """Merge a pull request exactly once, despite concurrent requests; return the commit.

        Raises:
            PullStatusRefused: The pull request is not open.
            PullBusy: Another process is merging the pull request.
            LakebedError: As raised by `Merger.merge`; the pull request is still open.
            OutcomeUnknown: The pull request may be merged, or be shown as merged later.
        """
        repository = self._engine.repositories.get(repository_id)
        named = replace(request, metadata={**request.metadata, PULL_REQUEST_KEY: pull_id})
        for _ in range(_TRIES):
            merged = self._end_interrupted_merge(repository, pull_id)
            if merged is not None:
                return merged
            record = self._find_open(repository, pull_id)
            self._engine.branches.get(repository, BranchID(record.message.source_branch))
            with suppress(NotBegun):  # edited concurrently: read the record again
                return self.merger.merge(repository, record, named)
        raise PullBusy(pull_id, "keeps being changed concurrently")

    def _find_open(self, repository: Repository, pull_id: PullID) -> Record[pb.PullRequest]:
        record = self._find(repository, pull_id)
        if record.message.state != pb.PULL_STATE_OPEN:
            status = PullRequest.of(record).status
            raise PullStatusRefused(
                f"pull request {pull_id} is {status}: only an open pull request can be merged"
            )
        return record

    def _end_interrupted_merge(self, repository: Repository, pull_id: PullID) -> CommitID | None:
        """End an interrupted merge, if any; return the commit, or None if none was published."""
        record = self._find(repository, pull_id)
        if record.message.state not in IN_PROGRESS:
            return None
        return self.merger.recover(repository, record)

    @traced("catalog.delete_merged_source")
    def delete_source(self, repository_id: RepositoryID, pull_id: PullID) -> str | None:
        """Delete the source branch of a merged pull request, unless it has unmerged changes.

        Returns None if the branch is deleted; otherwise the reason for keeping it.
        """
        try:
            pull = self.get(repository_id, pull_id)
            branch = self._engine.branches.get(
                self._engine.repositories.get(repository_id), pull.source_branch
            )
            if branch.commit_id != self.mergeability(repository_id, pull).source_commit_id:
                return f"branch {branch.id} has unmerged commits"
            staged = self._engine.reader.list_changes(
                repository_id, branch.id, EntryQuery(amount=1)
            )
            if staged.rows.num_rows:
                return str(DirtyBranch(branch.id))
            self._engine.refs.delete_branch(repository_id, branch.id, unchanged=branch)
        except BranchNotFound:
            return None
        except LakebedError as error:
            return shown(error)
        return None

    # Expected results of merges

    @traced("catalog.pull_mergeability")
    def mergeability(self, repository_id: RepositoryID, pull: PullRequest) -> Mergeability:
        """Return the expected result of a merge; of a merged pull request, its heads."""
        repository = self._engine.repositories.get(repository_id)
        if pull.merged_commit_id is not None:
            merged = self._engine.commits.get(repository, pull.merged_commit_id)
            return Mergeability(
                source_commit_id=merged.parents[1], destination_commit_id=merged.parents[0]
            )
        source = self._head(repository, pull.source_branch)
        destination = self._head(repository, pull.destination_branch)
        heads = Mergeability(
            source_commit_id=None if source is None else source.id,
            destination_commit_id=None if destination is None else destination.id,
        )
        if pull.status is not PullStatus.OPEN:
            return heads
        for branch, head in ((pull.source_branch, source), (pull.destination_branch, destination)):
            if head is None:
                return _mergeability(heads, f"branch {branch} was deleted")
        assert source is not None
        assert destination is not None
        return self._compare(repository, heads, source, destination)

    def _compare(
        self, repository: Repository, heads: Mergeability, source: Commit, destination: Commit
    ) -> Mergeability:
        base = self._engine.merge_bases.find(repository, source.id, destination.id)
        if base is None:
            return _mergeability(heads, "the branches have no common ancestor")
        if base.id == source.id or (base.metarange_id == source.metarange_id and not base.is_first):
            return _mergeability(heads, "nothing to merge: source is up to date with destination")
        conflicts = self._count_conflicts(repository, base, source, destination)
        objects = "1 conflicting object" if conflicts == 1 else f"{conflicts} conflicting objects"
        return _mergeability(heads, objects if conflicts else "", conflicts)

    def _count_conflicts(
        self, repository: Repository, base: Commit, source: Commit, destination: Commit
    ) -> int:
        ids = (base.metarange_id, source.metarange_id, destination.metarange_id)
        key = (repository.unique_id, *ids)
        known = self._conflicts.get(key)
        if known is None:
            known = self._engine.committed(repository).count_conflicts(*ids)
            self._conflicts.put(key, known)
        return known

    def _head(self, repository: Repository, branch: BranchID) -> Commit | None:
        try:
            found = self._engine.branches.get(repository, branch)
        except BranchNotFound:
            return None
        return self._engine.commits.get(repository, found.commit_id)

    def _find(self, repository: Repository, pull_id: PullID) -> Record[pb.PullRequest]:
        record = self._records(repository).find(pull_id.encode())
        if record is None:
            raise PullNotFound(pull_id)
        return record

    def _records(self, repository: Repository) -> Records[pb.PullRequest]:
        return Records(self._store, PULLS, repository.partition)


def _mergeability(heads: Mergeability, reason: str, conflicts: int | None = None) -> Mergeability:
    """Return the mergeability of two heads: mergeable if `reason` is empty."""
    return Mergeability(
        source_commit_id=heads.source_commit_id,
        destination_commit_id=heads.destination_commit_id,
        mergeable=not reason,
        conflicts=conflicts,
        reason=reason,
    )
