"""The engine as its callers see it: the rules that concern several of its parts.

Every operation reads the repository's record, uncached. That proves that the repository is there,
and gives the unique id that names its partition. To list repositories, branches, tags and
commits, callers use the parts themselves (`Engine.branches` and so on).
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from lakebed.block import BlockStore
from lakebed.engine.commits.build import Build, Forecast, MergeBuild
from lakebed.engine.commits.requests import CommitRequest, CommitResult, MergeRequest, Replacement
from lakebed.engine.committed import (
    Cache,
    Committed,
    DiffEntry,
    Page,
    Query,
    committed_for,
)
from lakebed.engine.errors import (
    BranchNotFound,
    EntryNotFound,
    Invalid,
    RepositoryNotFound,
)
from lakebed.engine.hooks import Hooks
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import (
    Branch,
    BranchID,
    Commit,
    CommitID,
    Repository,
    RepositoryID,
)
from lakebed.engine.opening import Opened, Opener
from lakebed.engine.parts import assemble
from lakebed.engine.ref_changes import RefChanges
from lakebed.engine.references import References
from lakebed.engine.refs.dump import dump_refs
from lakebed.engine.refs.log import History, LogPage, LogQuery
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.resolve import Resolver, View
from lakebed.engine.refs.restore import is_restored, restore_refs
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.retention.expirer import Expirer
from lakebed.engine.retention.rules import RuleBook
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.engine.staging.cells import newest
from lakebed.engine.staging.codec import decode
from lakebed.engine.staging.fast_read import FastReader, Found
from lakebed.engine.staging.writer import Condition, IsFresh, check_condition
from lakebed.formats import DumpID, DumpManifest, Entry, MetaRangeID
from lakebed.ids import UniqueID
from lakebed.kv import Store
from lakebed.runtime import Runtime, ThreadRuntime
from lakebed.tracing import traced


class Engine:
    """Repositories, refs, staged and committed entries; one for a process and all its threads.

    Refs are expressions (see `lakebed.engine.refs.resolve`): branch, tag, commit id, ``main~3``.
    """

    def __init__(
        self,
        store: Store,
        block: BlockStore,
        *,
        runtime: Runtime | None = None,
        hooks: Hooks | None = None,
        settings: EngineSettings | None = None,
        cache: CacheSettings | None = None,
        build_large: Build | None = None,
        merge_large: MergeBuild | None = None,
        foresee_large: Callable[[], None] | None = None,
    ) -> None:
        """Put an engine on a store and a storage.

        Args:
            store: Holds all records that change.
            block: Holds the files of committed entries, which never change.
            runtime: Clock, chance and concurrency; by default the real ones.
            hooks: What to run before and after operations.
            settings: Times and bounds.
            cache: How much is kept of committed files, and where.
            build_large: Builds large commits in another process (`lakebed.builders`), so that they
                do not slow down this one; by default all are built in this one.
            merge_large: The same for large merges.
            foresee_large: Called in the thread of a writer when there were so many writes that a
                large commit is likely to follow (`Forecast`).
        """
        self._store = store
        self._block = block
        self._runtime = runtime or ThreadRuntime()
        self._hooks = hooks or Hooks()
        self._committed_in = committed_for(block, self._runtime, Cache(self._runtime, cache))
        self._parts = assemble(
            store,
            self._runtime,
            self._committed_in,
            hooks=self._hooks,
            settings=settings,
            build_large=build_large,
            merge_large=merge_large,
        )
        self._forecast = Forecast(
            foresee_large, large_keys=(settings or EngineSettings()).large_commit_keys
        )
        self.scan_limit_seconds: Final = (settings or EngineSettings()).scan_limit_seconds
        """How old what a commit under way has read may be when it is published."""
        self.branches = self._parts.branches
        self.tags = self._parts.tags
        self.commits = self._parts.commits
        self._history = History(self.commits, self._runtime)
        self.protection = BranchProtection(store, self._runtime)
        self.marks = self._parts.marks
        self.refusals = self._parts.refusals
        self.retention = RuleBook(store, self._runtime)
        self.expirer = Expirer(
            store, self._runtime, self.marks, self.retention, settings or EngineSettings()
        )
        self.resolver = Resolver(self.branches, self.tags, self.commits)
        self.repositories = Repositories(
            store,
            block,
            self._runtime,
            branches=self.branches,
            commits=self.commits,
            committed_in=self._committed_in,
        )
        self.refs = RefChanges(
            self._runtime,
            repositories=self.repositories,
            resolver=self.resolver,
            branches=self.branches,
            tags=self.tags,
            protection=self.protection,
            refusals=self.refusals,
            hooks=self._hooks,
        )
        self.references = References(
            store, self.branches, self.commits, self.marks, self._committed_in
        )
        self._fast_reader = FastReader(
            store, self.branches, self.commits, self._parts.reader, self._runtime
        )
        self._opener = Opener(
            store,
            self._runtime,
            repositories=self.repositories,
            branches=self.branches,
            protection=self.protection,
        )

    # Entries

    def get(self, repository_id: RepositoryID, ref: str, key: bytes) -> Entry:
        """Return the entry of a key; of a branch, what is staged comes before what is committed.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to read from.
            EntryNotFound: There is no entry with this key.
        """
        return self.find(repository_id, ref, key).entry

    @traced("engine.find")
    def find(self, repository_id: RepositoryID, ref: str, key: bytes) -> Found:
        """Return an entry as `get` does, with the repository that it was found in."""
        seen = self.repositories.last_seen(repository_id)
        if seen is not None:
            version, repository = seen
            found = self._fast_reader.find(repository, version, ref, key)
            if found is not None:
                return found
        repository = self.repositories.get(repository_id)
        return Found(repository, self.get_entry(repository, ref, key))

    @traced("engine.get_entry")
    def get_entry(self, repository: Repository, ref: str, key: bytes) -> Entry:
        """Return an entry of a repository that was just read; otherwise as `get`.

        For callers that need more of the repository than its name (its namespace, say). They must
        take the entry from the same one: a moment later another may have that name.
        """
        resolved = self.resolver.resolve(repository, ref)
        reader = self._parts.reader
        if resolved.branch is None or resolved.view is View.COMMITTED:
            found = reader.committed(repository, resolved.commit_id, key)
        elif resolved.view is View.COMBINED:
            return reader.get(repository, resolved.branch.id, key, known=resolved.branch)
        else:
            value = newest(reader.staged(resolved.branch, key))
            found = None if value is None else decode(key, value)
        if found is None:
            raise EntryNotFound(key)
        return found

    def list_entries(self, repository_id: RepositoryID, ref: str, query: Query) -> Page[Entry]:
        """Return a page of entries; raises as `get` does, and `Invalid` for ``branch$``."""
        return self.find_entries(repository_id, ref, query)[1]

    @traced("engine.find_entries")
    def find_entries(
        self, repository_id: RepositoryID, ref: str, query: Query
    ) -> tuple[Repository, Page[Entry]]:
        """Return a page of entries as `list_entries` does, with the repository they are in."""
        seen = self._as_last_seen(repository_id, ref)
        if seen is not None:
            repository, branch = seen
            reader = self._parts.reader
            return repository, reader.list_entries(repository, branch.id, query, known=branch)
        repository = self.repositories.get(repository_id)
        return repository, self.list_entries_of(repository, ref, query)

    def _as_last_seen(
        self, repository_id: RepositoryID, ref: str
    ) -> tuple[Repository, Branch] | None:
        """Return repository and branch if both are as this process last saw them; in one call."""
        seen = self.repositories.last_seen(repository_id)
        if seen is None:
            return None
        version, repository = seen
        branch = self._fast_reader.branch(repository, version, ref)
        return None if branch is None else (repository, branch)

    @traced("engine.list_entries_of")
    def list_entries_of(self, repository: Repository, ref: str, query: Query) -> Page[Entry]:
        """Return a page of entries of a repository that was just read; see `get_entry`."""
        resolved = self.resolver.resolve(repository, ref)
        if resolved.view is View.STAGED:
            raise Invalid(f"{ref} cannot be listed: ask for the changes of the branch instead")
        if resolved.branch is not None and resolved.view is View.COMBINED:
            branch = resolved.branch
            return self._parts.reader.list_entries(repository, branch.id, query, known=branch)
        commit = self.commits.get(repository, resolved.commit_id)
        return self.committed(repository).list(commit.metarange_id, query)

    @traced("engine.put")
    def put(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        entry: Entry,
        *,
        condition: Condition | None = None,
        is_fresh: IsFresh | None = None,
        unique_id: UniqueID | None = None,
        opened: Opened | None = None,
    ) -> Repository:
        """Stage an entry, always or on a condition; return where. See `Writer`.

        Args:
            repository_id: In which repository.
            branch: On which branch.
            entry: What to stage.
            condition: Says whether to write, given the entry that is there.
            is_fresh: Says whether the entry's object is still young enough to be acknowledged.
            unique_id: The repository that the caller means; one made later under the same name is
                not found.
            opened: What `open_for_put` found for this key when the write began. If that is recent,
                it is not asked for again.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: The object is not fresh any more.
            TooManyTries: Others always came first. Without a condition, the entry may be visible;
                the same goes for `Stale`.
            OutcomeUnknown: The entry may be visible.
        """
        if opened is None or not self._opener.is_recent(opened):
            if condition is None and is_fresh is None:
                opened = self._opener.open(repository_id, branch)
            else:
                opened = self._opener.open_at(repository_id, branch, entry.key)
        repository, target, writer = opened.repository, opened.target, self._parts.writer
        if unique_id not in {None, repository.unique_id}:
            raise RepositoryNotFound(repository_id)
        if condition is not None:
            writer.put_if(repository, branch, entry, condition, is_fresh, known=target)
        elif is_fresh is not None:
            writer.put_fresh(repository, branch, entry, is_fresh, known=target)
        else:
            writer.put(repository, branch, entry, known=target)
        self._forecast.count_write()
        return repository

    @traced("engine.check_writable")
    def check_writable(self, repository_id: RepositoryID, branch: BranchID) -> Repository:
        """Return the repository if a write to the branch that began now would not be refused.

        For callers that need a long time before they write. The write itself is checked again.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
        """
        return self._opener.open(repository_id, branch).repository

    @traced("engine.open_for_put")
    def open_for_put(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        key: bytes,
        condition: Condition | None = None,
    ) -> Opened:
        """Return the branch that a key is to be put on, if a write that began now would not fail.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
        """
        opened = self._opener.open_at(repository_id, branch, key)
        if condition is not None:
            found = self._parts.writer.find(opened.repository, opened.target, key)
            check_condition(condition, key, found)
        return opened

    @traced("engine.delete")
    def delete(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        key: bytes,
        *,
        condition: Condition | None = None,
    ) -> None:
        """Stage the removal of a key, always or on a condition; raises as `put` does."""
        writer = self._parts.writer
        if condition is None:
            opened = self._opener.open(repository_id, branch)
            writer.delete(opened.repository, branch, key, known=opened.target)
        else:
            opened = self._opener.open_at(repository_id, branch, key)
            writer.delete_if(opened.repository, branch, key, condition, known=opened.target)
        self._forecast.count_write()

    # What differs

    @traced("engine.list_changes")
    def list_changes(
        self, repository_id: RepositoryID, branch: BranchID, query: Query
    ) -> Page[DiffEntry]:
        """Return a page of what is staged on a branch and differs from its head."""
        reader = self._parts.reader
        seen = self._as_last_seen(repository_id, branch)
        if seen is not None:
            return reader.list_changes(seen[0], branch, query, known=seen[1])
        return reader.list_changes(self.repositories.get(repository_id), branch, query)

    @traced("engine.diff")
    def diff(
        self,
        repository_id: RepositoryID,
        left: str,
        right: str,
        query: Query,
        *,
        since_parting: bool = False,
    ) -> Page[DiffEntry]:
        """Return a page of what is different on the right.

        With `since_parting` ("three dots"): what the right changed since their last common commit,
        and whether the left changed it too, to something else. Otherwise ("two dots"): all that
        differs between the two.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to compare.
        """
        repository = self.repositories.get(repository_id)
        before = self.resolver.commit(repository, left)
        after = self.resolver.commit(repository, right)
        committed = self.committed(repository)
        right_id = after.metarange_id
        if not since_parting:
            return committed.list_diff(before.metarange_id, right_id, query)
        base = self.merge_base(repository, after.id, before.id)
        base_id = base.metarange_id
        return committed.list_changes(base_id, before.metarange_id, right_id, query)

    @traced("engine.merge_base")
    def merge_base(self, repository: Repository, source: CommitID, head: CommitID) -> Commit:
        """Return the best common ancestor of two commits (`MergeBases.find`).

        Raises:
            Invalid: They have none.
        """
        base = self._parts.merge_bases.find(repository, source, head)
        if base is None:
            raise Invalid(f"commits {source} and {head} have no ancestor in common")
        return base

    @traced("engine.find_commit")
    def find_commit(self, repository_id: RepositoryID, ref: str) -> tuple[Repository, CommitID]:
        """Return a repository, and the commit that a ref names in it.

        If this process has seen the repository before, that takes one call to the store: the record
        of the ref is read where it would be, and then that of the repository proves the place.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is no such commit.
        """
        seen = self.repositories.last_seen(repository_id)
        if seen is not None:
            version, repository = seen
            places = self.resolver.places(repository, ref)
            if places is not None:
                place = (GRAVELER, REPOSITORIES.prefix + repository_id.encode())
                *named, record = self._store.get_many([*places, place])
                commit_id = self.resolver.commit_in(named)
                if commit_id and record is not None and record.predicate == version:
                    return repository, commit_id
        repository = self.repositories.get(repository_id)
        return repository, self.resolver.commit_id(repository, ref)

    @traced("engine.log")
    def log(
        self,
        repository: Repository,
        head: CommitID,
        query: LogQuery,
        *,
        amount: int,
        look_ahead: bool = True,
    ) -> LogPage:
        """Return a page of the commits that led to one; see `History.page`."""
        committed = self.committed(repository)
        return self._history.page(
            repository, committed, head, query, amount=amount, look_ahead=look_ahead
        )

    # Commits

    @traced("engine.commit")
    def commit(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        request: CommitRequest,
        *,
        source_metarange: MetaRangeID | None = None,
    ) -> CommitResult:
        """Commit what is staged, or a metarange that is stored already; see `Committer`."""
        if source_metarange is None:
            self._forecast.count_commit()
            opened = self._opener.open(repository_id, branch)
            repository, current = opened.repository, opened.target.branch
            return self._parts.committer.commit(repository, branch, request, known=current)
        repository = self._open_for_writing(repository_id, branch)
        merger = self._parts.merger
        return CommitResult(merger.commit_metarange(repository, branch, source_metarange, request))

    @traced("engine.merge")
    def merge(
        self, repository_id: RepositoryID, source: str, branch: BranchID, request: MergeRequest
    ) -> Commit:
        """Merge a ref, as it is now, into a branch; see `Merger.merge`."""
        repository = self.repositories.get_writable(repository_id)
        ends = self._read_ends(repository, source, branch)
        if ends is not None:
            commit, known = ends
        else:
            commit, known = self._source(repository, source), None
        return self._parts.merger.merge(
            repository, branch, commit, request, source_ref=source, known=known
        )

    @traced("engine.merge_noted")
    def merge_noted(
        self,
        repository_id: RepositoryID,
        source: str,
        destination: Branch,
        request: MergeRequest,
        *,
        note: Callable[[Commit], None],
    ) -> Commit:
        """Merge a ref, as it is now, into a branch that was just read; see `Merger.merge`."""
        repository = self.repositories.get_writable(repository_id)
        commit = self._source(repository, source)
        return self._parts.merger.merge(
            repository,
            destination.id,
            commit,
            request,
            source_ref=source,
            known=destination,
            note=note,
        )

    def _source(self, repository: Repository, ref: str) -> Commit:
        """Return the commit of a ref that a branch is about to lead to.

        Raises:
            CommitRefused: A hook refused it.
            RefNotFound, InvalidRef: There is none.
        """
        commit = self.resolver.commit(repository, ref)
        self.refusals.check(repository, ref, commit.id)
        return commit

    def count_conflicts(self, repository: Repository, base: Commit, ends: Sequence[Commit]) -> int:
        """Return how many keys two commits changed differently since a third one."""
        ids = [commit.metarange_id for commit in (base, *ends)]
        return self.committed(repository).count_conflicts(*ids)

    def _read_ends(
        self, repository: Repository, source: str, branch: BranchID
    ) -> tuple[Commit, Branch] | None:
        """Return the commit of a ref, and a branch: in one call, and one for their commits.

        None: one of them is not there, or it takes more than that to find the commit.
        """
        places = self.resolver.places(repository, source)
        if places is None:
            return None
        try:
            destination, named = self.branches.get_with(repository, branch, places)
        except BranchNotFound:
            return None
        source_id = self.resolver.commit_in(named)
        if source_id is None:
            return None
        commits = self.commits.get_all(repository, [source_id, destination.commit_id])
        return commits[0], destination

    def check_replaceable(self, repository_id: RepositoryID, branch: BranchID) -> Repository:
        """Return the repository if `replace` on the branch, begun now, would not be refused.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            DirtyBranch: Something is staged on it.
        """
        repository = self._open_for_writing(repository_id, branch)
        self._parts.dirty.require_clean(repository, self.branches.get(repository, branch))
        return repository

    @traced("engine.replace")
    def replace(
        self,
        repository: Repository,
        branch: BranchID,
        replacement: Replacement,
        request: CommitRequest,
        *,
        branch_unique_id: UniqueID,
        note: Callable[[Commit], None],
    ) -> Commit:
        """Replace intervals of keys of a branch; see `Merger.replace`."""
        current = self._open_for_writing(repository.id, branch)
        if current.unique_id != repository.unique_id:
            raise RepositoryNotFound(repository.id)
        return self._parts.merger.replace(
            current, branch, replacement, request, branch_unique_id=branch_unique_id, note=note
        )

    def find_published(
        self, repository: Repository, branch: Branch, commit_ids: Collection[CommitID]
    ) -> CommitID | None:
        """Return which of some commits led to a branch; see `Publisher.find_published`."""
        return self._parts.publisher.find_published(repository, branch, commit_ids)

    def leads_to(self, repository: Repository, branch: Branch, commit_id: CommitID) -> bool:
        """Whether a commit is in the history of a branch as it was read, by first parents."""
        publisher = self._parts.publisher
        return publisher.find_leading(repository, branch.commit_id, [commit_id]) is not None

    def committed(self, repository: Repository) -> Committed:
        """Return the committed entries of a repository."""
        return self._committed_in(repository.home)

    @traced("engine.revert")
    def revert(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Undo what a commit changed, on a branch; see `Merger.revert`."""
        repository = self.repositories.get_writable(repository_id)
        self.protection.check_strict(repository, branch)
        commit = self.resolver.commit(repository, ref)
        return self._parts.merger.revert(
            repository, branch, commit, request, parent_number=parent_number
        )

    @traced("engine.cherry_pick")
    def cherry_pick(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Repeat what a commit changed, on a branch; see `Merger.cherry_pick`."""
        repository = self.repositories.get_writable(repository_id)
        self.protection.check_strict(repository, branch)
        commit = self.resolver.commit(repository, ref)
        return self._parts.merger.cherry_pick(
            repository, branch, commit, request, parent_number=parent_number
        )

    # Resets

    @traced("engine.reset")
    def reset(self, repository_id: RepositoryID, branch: BranchID) -> None:
        """Discard everything that is staged on a branch; see `Resetter`."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.resetter.reset(repository, branch)

    @traced("engine.reset_key")
    def reset_key(self, repository_id: RepositoryID, branch: BranchID, key: bytes) -> None:
        """Discard what is staged for one key; see `Resetter`."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.resetter.reset_key(repository, branch, key)

    @traced("engine.reset_prefix")
    def reset_prefix(self, repository_id: RepositoryID, branch: BranchID, prefix: bytes) -> None:
        """Discard what is staged for the keys with a prefix; see `Resetter`."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.resetter.reset_prefix(repository, branch, prefix)

    @traced("engine.hard_reset")
    def hard_reset(self, repository_id: RepositoryID, branch: BranchID, ref: str) -> None:
        """Make a clean branch point to another commit; see `Resetter.hard_reset`."""
        repository = self._open_for_writing(repository_id, branch)
        target = self._source(repository, ref)
        before_try = partial(self._hooks.before_leaving, repository)
        self._parts.resetter.hard_reset(repository, branch, target, before_try)

    # Dumps

    @traced("engine.dump_refs")
    def dump_refs(self, repository_id: RepositoryID) -> DumpManifest:
        """Write all branches, tags and commits into the repository's namespace; see `dump_refs`."""
        repository = self.repositories.get(repository_id)
        return dump_refs(self._store, self._block, self._runtime, repository)

    def check_restorable(self, repository: Repository, dump_id: DumpID) -> None:
        """Refuse at once what `restore_refs` would refuse: a repository that is not bare.

        Raises:
            Invalid: It has refs of its own, or of another dump.
        """
        is_restored(self._store, repository, dump_id)

    @traced("engine.restore_refs")
    def restore_refs(self, repository_id: RepositoryID, dump_id: DumpID) -> DumpManifest:
        """Restore a dump into a bare repository; see `restore_refs`."""
        repository = self.repositories.get_writable(repository_id)
        return restore_refs(self._store, self._block, self._runtime, repository, dump_id)

    def _open_for_writing(self, repository_id: RepositoryID, branch: BranchID) -> Repository:
        return self._opener.open(repository_id, branch).repository
