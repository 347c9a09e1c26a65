"""The engine as its callers see it: the rules that concern several of its parts.

Every operation reads the repository's record, uncached. That proves that the repository is there,
and gives the unique id that names its partition. To list repositories, branches, tags and
commits, callers use the parts themselves (`Engine.branches` and so on).
"""

from collections.abc import Callable
from typing import Final

from lakebed.block import BlockStore
from lakebed.engine.commits.build import Build, Forecast, MergeBuild
from lakebed.engine.committed import (
    Cache,
    Committed,
    DiffEntry,
    Page,
    Query,
    committed_for,
)
from lakebed.engine.errors import (
    EntryNotFound,
    Invalid,
    RepositoryNotFound,
)
from lakebed.engine.hooks import Hooks
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import (
    Branch,
    BranchID,
    CommitID,
    Repository,
    RepositoryID,
)
from lakebed.engine.opening import Opened, Opener
from lakebed.engine.parts import assemble
from lakebed.engine.ref_changes import RefChanges
from lakebed.engine.references import References
from lakebed.engine.refs.log import History
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.resolve import Resolver, View
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.engine.staging.cells import newest
from lakebed.engine.staging.codec import decode
from lakebed.engine.staging.fast_read import FastReader, Found
from lakebed.engine.staging.writer import Condition, IsFresh, check_condition
from lakebed.formats import Entry
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
        self.hooks = hooks or Hooks()
        self._committed_in = committed_for(block, self._runtime, Cache(self._runtime, cache))
        self._parts = assemble(
            store,
            self._runtime,
            self._committed_in,
            hooks=self.hooks,
            settings=settings,
            build_large=build_large,
            merge_large=merge_large,
        )
        self.forecast = Forecast(
            foresee_large, large_keys=(settings or EngineSettings()).large_commit_keys
        )
        self.scan_limit_seconds: Final = (settings or EngineSettings()).scan_limit_seconds
        """How old what a commit under way has read may be when it is published."""
        self.expiring_seconds: Final = (settings or EngineSettings()).expiring_seconds
        """How long a commit is marked before it expires."""
        self.branches = self._parts.branches
        self.tags = self._parts.tags
        self.commits = self._parts.commits
        self.history = History(self.commits, self._runtime)
        self.protection = BranchProtection(store, self._runtime)
        self.merge_bases = self._parts.merge_bases
        self.publisher = self._parts.publisher
        self.dirty = self._parts.dirty
        self.committer = self._parts.committer
        self.merger = self._parts.merger
        self.resetter = self._parts.resetter
        self.marks = self._parts.marks
        self.refusals = self._parts.refusals
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
            hooks=self.hooks,
        )
        self.references = References(
            store, self.branches, self.commits, self.marks, self._committed_in
        )
        self._fast_reader = FastReader(
            store, self.branches, self.commits, self._parts.reader, self._runtime
        )
        self.opener = Opener(
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
        if opened is None or not self.opener.is_recent(opened):
            if condition is None and is_fresh is None:
                opened = self.opener.open(repository_id, branch)
            else:
                opened = self.opener.open_at(repository_id, branch, entry.key)
        repository, target, writer = opened.repository, opened.target, self._parts.writer
        if unique_id not in {None, repository.unique_id}:
            raise RepositoryNotFound(repository_id)
        if condition is not None:
            writer.put_if(repository, branch, entry, condition, is_fresh, known=target)
        elif is_fresh is not None:
            writer.put_fresh(repository, branch, entry, is_fresh, known=target)
        else:
            writer.put(repository, branch, entry, known=target)
        self.forecast.count_write()
        return repository

    @traced("engine.check_writable")
    def check_writable(self, repository_id: RepositoryID, branch: BranchID) -> Repository:
        """Return the repository if a write to the branch that began now would not be refused.

        For callers that need a long time before they write. The write itself is checked again.

        Raises:
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
        """
        return self.opener.open(repository_id, branch).repository

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
        opened = self.opener.open_at(repository_id, branch, key)
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
            opened = self.opener.open(repository_id, branch)
            writer.delete(opened.repository, branch, key, known=opened.target)
        else:
            opened = self.opener.open_at(repository_id, branch, key)
            writer.delete_if(opened.repository, branch, key, condition, known=opened.target)
        self.forecast.count_write()

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

    def committed(self, repository: Repository) -> Committed:
        """Return the committed entries of a repository."""
        return self._committed_in(repository.home)
