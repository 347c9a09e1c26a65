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
    committed_for,
)
from lakebed.engine.errors import (
    InvalidRef,
)
from lakebed.engine.hooks import Hooks
from lakebed.engine.model import (
    CommitID,
    Repository,
    RepositoryID,
)
from lakebed.engine.parts import assemble
from lakebed.engine.ref_changes import RefChanges
from lakebed.engine.references import References
from lakebed.engine.refs.log import History
from lakebed.engine.refs.resolve import View
from lakebed.engine.settings import CacheSettings, EngineSettings
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
        self.forecast = Forecast(
            foresee_large, large_keys=(settings or EngineSettings()).large_commit_keys
        )
        self._parts = assemble(
            store,
            block,
            self._runtime,
            self._committed_in,
            hooks=self.hooks,
            settings=settings,
            build_large=build_large,
            merge_large=merge_large,
            on_write=self.forecast.count_write,
        )
        self.scan_limit_seconds: Final = (settings or EngineSettings()).scan_limit_seconds
        """How old what a commit under way has read may be when it is published."""
        self.expiring_seconds: Final = (settings or EngineSettings()).expiring_seconds
        """How long a commit is marked before it expires."""
        self.repositories = self._parts.repositories
        self.resolver = self._parts.resolver
        self.readings = self._parts.readings
        self.reader = self._parts.reader
        self.writer = self._parts.writer
        self.branches = self._parts.branches
        self.tags = self._parts.tags
        self.commits = self._parts.commits
        self.history = History(self.commits, self._runtime)
        self.protection = self._parts.protection
        self.merge_bases = self._parts.merge_bases
        self.publisher = self._parts.publisher
        self.dirty = self._parts.dirty
        self.committer = self._parts.committer
        self.merger = self._parts.merger
        self.resetter = self._parts.resetter
        self.marks = self._parts.marks
        self.refusals = self._parts.refusals
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

    @traced("engine.find_commit")
    def find_commit(self, repository_id: RepositoryID, ref: str) -> tuple[Repository, CommitID]:
        """Return a repository, and the commit that a ref names in it.

        If this process has seen the repository before, that takes one call to the store: the record
        of the ref is read where it would be, and then that of the repository proves the place.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is no such commit.
        """
        found = self.readings.of_ref(repository_id, ref)
        if found.view is View.STAGED:
            raise InvalidRef(
                f"{ref} means what is staged on a branch: use a branch, a tag or a commit"
            )
        return found.repository, found.commit_id

    def committed(self, repository: Repository) -> Committed:
        """Return the committed entries of a repository."""
        return self._committed_in(repository.home)
