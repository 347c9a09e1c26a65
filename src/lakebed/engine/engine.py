"""The engine as the doors use it: rules that concern several parts, and nothing else.

Every operation begins by reading the repository's record, uncached: it proves that the repository
is there, and gives the unique id without which its partition cannot be named. What only reads
records (lists of repositories, branches, tags and commits; logs) is on the parts themselves.
"""

from lakebed.block import BlockStore
from lakebed.engine.commits.build import Build
from lakebed.engine.commits.commit import CommitRequest, CommitResult
from lakebed.engine.commits.merges import MergeRequest
from lakebed.engine.committed import Cache, DiffEntry, Page, Query, committed_for
from lakebed.engine.errors import (
    DefaultBranch,
    EntryNotFound,
    Invalid,
    ReadOnly,
    RepositoryNotFound,
)
from lakebed.engine.hooks import Hooks
from lakebed.engine.model import (
    Branch,
    BranchID,
    Commit,
    CommitID,
    Repository,
    RepositoryID,
    Tag,
    TagID,
)
from lakebed.engine.names import check_branch_name, check_tag_name
from lakebed.engine.parts import assemble
from lakebed.engine.refs.ancestry import find_merge_base
from lakebed.engine.refs.dump import dump_refs
from lakebed.engine.refs.log import History, LogPage, LogQuery
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.resolve import Resolver, View
from lakebed.engine.refs.restore import restore_refs
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.engine.staging.codec import decode
from lakebed.engine.staging.fast_read import FastReader
from lakebed.engine.staging.writer import Condition, IsFresh
from lakebed.formats import DumpID, DumpManifest, Entry, MetaRangeID
from lakebed.ids import UniqueID
from lakebed.kv import Store
from lakebed.runtime import Runtime, ThreadRuntime


class Engine:
    """Repositories, refs, staged and committed entries. One for each process, used by its threads.

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
    ) -> None:
        """Put an engine on a store and a storage.

        Args:
            store: All that changes.
            block: The files that never do.
            runtime: Clock, chance and concurrency; the real ones if there is none.
            hooks: What to run before and after operations.
            settings: Times and bounds.
            cache: How much is kept of committed files, and where.
            build_large: Builds large commits. In a process with many writers, they belong into
                another (`lakebed.builders`); if there is none, all are built in this one.
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
        )
        self.branches = self._parts.branches
        self.tags = self._parts.tags
        self.commits = self._parts.commits
        self._history = History(self.commits, self._runtime)
        self.protection = BranchProtection(store, self._runtime)
        self.resolver = Resolver(self.branches, self.tags, self.commits)
        self.repositories = Repositories(
            store,
            block,
            self._runtime,
            branches=self.branches,
            commits=self.commits,
            committed_in=self._committed_in,
        )
        self._fast_reader = FastReader(store, self.branches, self._parts.reader)

    # Entries

    def get(self, repository_id: RepositoryID, ref: str, key: bytes) -> Entry:
        """Return an entry: of a branch what is staged or committed, else what is committed.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to read from.
            EntryNotFound: There is no such entry.
        """
        return self.find(repository_id, ref, key)[1]

    def find(self, repository_id: RepositoryID, ref: str, key: bytes) -> tuple[Repository, Entry]:
        """Return an entry as `get` does, and with it the very repository that it was found in."""
        seen = self.repositories.last_seen(repository_id)
        if seen is not None:
            version, repository = seen
            entry = self._fast_reader.find(repository, version, ref, key)
            if entry is not None:
                return repository, entry
        repository = self.repositories.get(repository_id)
        return repository, self.get_entry(repository, ref, key)

    def get_entry(self, repository: Repository, ref: str, key: bytes) -> Entry:
        """Return an entry of a repository that was just read; otherwise as `get`.

        Whoever needs more of the repository than its name (its namespace, say) takes the entry from
        the very same one: another may be there under that name a moment later.
        """
        resolved = self.resolver.resolve(repository, ref)
        reader = self._parts.reader
        if resolved.branch is None or resolved.view is View.COMMITTED:
            found = reader.committed(repository, resolved.commit_id, key)
        elif resolved.view is View.COMBINED:
            return reader.get(repository, resolved.branch.id, key, record=resolved.branch)
        else:
            staged = [record for record in reader.staged(resolved.branch, key) if record]
            found = decode(key, staged[0].value) if staged else None
        if found is None:
            raise EntryNotFound(key)
        return found

    def list_entries(self, repository_id: RepositoryID, ref: str, query: Query) -> Page[Entry]:
        """Return a page of entries; raises as `get` does, and `Invalid` for what is only staged."""
        return self.list_entries_of(self.repositories.get(repository_id), ref, query)

    def list_entries_of(self, repository: Repository, ref: str, query: Query) -> Page[Entry]:
        """Return a page of entries of a repository that was just read; see `get_entry`."""
        resolved = self.resolver.resolve(repository, ref)
        if resolved.view is View.STAGED:
            raise Invalid(f"{ref} lists nothing: ask for the changes of the branch instead")
        if resolved.branch is not None and resolved.view is View.COMBINED:
            record = resolved.branch
            return self._parts.reader.list_entries(repository, record.id, query, record=record)
        commit = self.commits.get(repository, resolved.commit_id)
        return self._committed_in(repository.namespace).list(commit.metarange_id, query)

    def put(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        entry: Entry,
        *,
        condition: Condition | None = None,
        is_fresh: IsFresh | None = None,
        unique_id: UniqueID | None = None,
    ) -> None:
        """Stage an entry, perhaps only on a condition, or while its object is fresh; see `Writer`.

        Args:
            repository_id: Where.
            branch: On which branch.
            entry: What.
            condition: Whether to write, given what is there.
            is_fresh: Whether its object is young enough to be acknowledged.
            unique_id: Of the repository that the caller means: not of another under that name.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            PreconditionFailed: The condition does not hold.
            Stale: The object is not fresh any more.
            TooManyTries, OutcomeUnknown: The entry may be visible.
        """
        repository = self._open_for_writing(repository_id, branch)
        if unique_id not in {None, repository.unique_id}:
            raise RepositoryNotFound(repository_id)
        writer = self._parts.writer
        if condition is not None:
            writer.put_if(repository, branch, entry, condition, is_fresh)
        elif is_fresh is not None:
            writer.put_fresh(repository, branch, entry, is_fresh)
        else:
            writer.put(repository, branch, entry)

    def check_writable(self, repository_id: RepositoryID, branch: BranchID) -> Repository:
        """Return the repository if a write to the branch that began now would not be refused.

        Whoever is about to take a long time before writing asks here first. The write itself is
        checked again.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
        """
        repository = self._open_for_writing(repository_id, branch)
        self.branches.get_cached(repository, branch)
        return repository

    def delete(self, repository_id: RepositoryID, branch: BranchID, key: bytes) -> None:
        """Stage that a key is not there; raises as `put` does."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.writer.delete(repository, branch, key)

    # What differs

    def list_changes(
        self, repository_id: RepositoryID, branch: BranchID, query: Query
    ) -> Page[DiffEntry]:
        """Return a page of what is staged on a branch and differs from its head."""
        repository = self.repositories.get(repository_id)
        return self._parts.reader.list_changes(repository, branch, query)

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

        With `since_parting`, what the right changed since the two had their last commit in common
        ("three dots"), and whether the left changed it too, to something else; otherwise all that
        differs between them ("two dots").

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is nothing to compare.
        """
        repository = self.repositories.get(repository_id)
        before = self.resolver.commit(repository, left)
        after = self.resolver.commit(repository, right)
        committed = self._committed_in(repository.namespace)
        right_id = after.metarange_id
        if not since_parting:
            return committed.list_diff(before.metarange_id, right_id, query)
        base = self.merge_base(repository, before.id, after.id)
        base_id = base.metarange_id
        return committed.list_changes(base_id, before.metarange_id, right_id, query)

    def merge_base(self, repository: Repository, left: CommitID, right: CommitID) -> Commit:
        """Return the best common ancestor of two commits.

        Raises:
            Invalid: They have none.
        """
        base = find_merge_base(self.commits, repository, left, right)
        if base is None:
            raise Invalid(f"commits {left} and {right} have no ancestor in common")
        return base

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
        committed = self._committed_in(repository.namespace)
        return self._history.page(
            repository, committed, head, query, amount=amount, look_ahead=look_ahead
        )

    # Commits

    def commit(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        request: CommitRequest,
        *,
        source_metarange: MetaRangeID | None = None,
    ) -> CommitResult:
        """Commit what is staged, or a metarange that is stored already; see `Committer`."""
        repository = self._open_for_writing(repository_id, branch)
        if source_metarange is None:
            return self._parts.committer.commit(repository, branch, request)
        merger = self._parts.merger
        return CommitResult(merger.commit_metarange(repository, branch, source_metarange, request))

    def merge(
        self, repository_id: RepositoryID, source: str, branch: BranchID, request: MergeRequest
    ) -> Commit:
        """Merge a ref, as it is now, into a branch; see `Merger.merge`."""
        repository = self._writable(repository_id)
        commit = self.resolver.commit(repository, source)
        return self._parts.merger.merge(repository, branch, commit, request)

    def revert(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Undo on a branch what a commit changed; see `Merger.revert`."""
        repository = self._writable(repository_id)
        commit = self.resolver.commit(repository, ref)
        return self._parts.merger.revert(
            repository, branch, commit, request, parent_number=parent_number
        )

    def cherry_pick(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        ref: str,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Do again on a branch what a commit changed; see `Merger.cherry_pick`."""
        repository = self._writable(repository_id)
        commit = self.resolver.commit(repository, ref)
        return self._parts.merger.cherry_pick(
            repository, branch, commit, request, parent_number=parent_number
        )

    # Resets

    def reset(self, repository_id: RepositoryID, branch: BranchID) -> None:
        """Discard everything that is staged on a branch; see `Resetter`."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.resetter.reset(repository, branch)

    def reset_key(self, repository_id: RepositoryID, branch: BranchID, key: bytes) -> None:
        """Discard what is staged for one key; see `Resetter`."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.resetter.reset_key(repository, branch, key)

    def reset_prefix(self, repository_id: RepositoryID, branch: BranchID, prefix: bytes) -> None:
        """Discard what is staged for the keys with a prefix; see `Resetter`."""
        repository = self._open_for_writing(repository_id, branch)
        self._parts.resetter.reset_prefix(repository, branch, prefix)

    def hard_reset(self, repository_id: RepositoryID, branch: BranchID, ref: str) -> None:
        """Make a clean branch point to another commit; see `Resetter.hard_reset`."""
        repository = self._open_for_writing(repository_id, branch)
        target = self.resolver.commit(repository, ref)
        self._parts.resetter.hard_reset(repository, branch, target)

    # Branches and tags

    def create_branch(
        self, repository_id: RepositoryID, name: str, source: str, *, hidden: bool = False
    ) -> Branch:
        """Make a branch that points to a ref's commit.

        Raises:
            InvalidName: It cannot be the name of a branch.
            RepositoryNotFound, ReadOnly, RefNotFound, InvalidRef: There is nothing to branch from.
            NotUnique: There is a branch of this name.
            Refused: A hook refused it.
        """
        branch = check_branch_name(name)
        repository = self._writable(repository_id)
        commit = self.resolver.commit(repository, source)
        self._hooks.before_create_branch(repository, branch, commit.id)
        created = self.branches.create(repository, branch, commit.id, hidden=hidden)
        self._hooks.after_create_branch(repository, branch, commit.id)
        return created

    def delete_branch(self, repository_id: RepositoryID, branch: BranchID) -> None:
        """Delete a branch and what is staged on it.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound: There is nothing to delete.
            DefaultBranch: A repository keeps that.
            Refused: A hook refused it.
        """
        repository = self._writable(repository_id)
        if branch == repository.default_branch:
            raise DefaultBranch(repository_id, branch)
        self._hooks.before_delete_branch(repository, branch)
        self.branches.delete(repository, branch)
        self._hooks.after_delete_branch(repository, branch)

    def create_tag(self, repository_id: RepositoryID, name: str, ref: str) -> Tag:
        """Make a tag for a ref's commit; raises as `create_branch` does."""
        tag = check_tag_name(name)
        repository = self._writable(repository_id)
        commit = self.resolver.commit(repository, ref)
        self._hooks.before_create_tag(repository, tag, commit.id)
        created = self.tags.create(repository, tag, commit.id)
        self._hooks.after_create_tag(repository, tag, commit.id)
        return created

    def delete_tag(self, repository_id: RepositoryID, tag: TagID) -> None:
        """Delete a tag; raises as `delete_branch` does, with `TagNotFound`."""
        repository = self._writable(repository_id)
        self._hooks.before_delete_tag(repository, tag)
        self.tags.delete(repository, tag)
        self._hooks.after_delete_tag(repository, tag)

    # Dumps

    def dump_refs(self, repository_id: RepositoryID) -> DumpManifest:
        """Write all branches, tags and commits into the repository's namespace; see `dump_refs`."""
        repository = self.repositories.get(repository_id)
        return dump_refs(self._store, self._block, self._runtime, repository)

    def restore_refs(self, repository_id: RepositoryID, dump_id: DumpID) -> DumpManifest:
        """Bring a dump back into a bare repository; see `restore_refs`."""
        repository = self._writable(repository_id)
        return restore_refs(self._store, self._block, self._runtime, repository, dump_id)

    def _writable(self, repository_id: RepositoryID) -> Repository:
        repository = self.repositories.get(repository_id)
        if repository.read_only:
            raise ReadOnly(repository_id)
        return repository

    def _open_for_writing(self, repository_id: RepositoryID, branch: BranchID) -> Repository:
        repository = self._writable(repository_id)
        self.protection.check(repository, branch)
        return repository
