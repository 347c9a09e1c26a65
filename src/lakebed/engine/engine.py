"""The engine: one object whose attributes are its components.

`Readings` finds repositories and branches and checks write access; other components are given
repositories already read.
"""

from collections.abc import Callable
from typing import Final

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block import BlockStore
from lakebed.engine.commits.build import Build, Builds, Forecast, MergeBuild
from lakebed.engine.commits.commit import Committer
from lakebed.engine.commits.merges import Merger
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.reset import Resetter
from lakebed.engine.commits.uncommitted import UncommittedChanges
from lakebed.engine.committed import Cache, Committed, CommittedFor, committed_for
from lakebed.engine.expiry_marks import ExpiryMarks
from lakebed.engine.hooks import Hooks
from lakebed.engine.model import Repository
from lakebed.engine.reading import Readings
from lakebed.engine.ref_changes import RefChanges
from lakebed.engine.references import References
from lakebed.engine.refs.ancestry import MergeBases
from lakebed.engine.refs.branches import Branches, Tags
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.log import History
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.resolve import Refusals, Resolver
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.writer import Writer
from lakebed.kv import Store


class Engine:
    """Repositories, refs, staged and committed entries; one per process, shared by its threads.

    Used by the components of the catalog and by tools. Refs are expressions (see
    `lakebed.engine.refs.resolve`): branch, tag, commit id, ``main~3``.
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
        on_large_forecast: Callable[[], None] | None = None,
        committed_in: CommittedFor | None = None,
    ) -> None:
        """Build an engine on a store and a storage.

        - `build_large`: builds large commits in another process (`lakebed.engine.build_processes`),
          to keep requests of this process fast; by default this process builds all commits.
        - `merge_large`: the same for large merges.
        - `on_large_forecast`: called in a writer's thread when the number of writes makes a large
          commit likely (`Forecast`).
        - `committed_in`: opens the committed entries of repositories; by default from `block`.
        """
        self.store, self.block = store, block
        self.runtime = runtime = runtime or ThreadRuntime()
        self.hooks = hooks = hooks or Hooks()
        settings = settings or EngineSettings()
        self.scan_limit_seconds: Final = settings.scan_limit_seconds
        self.expiring_seconds: Final = settings.expiring_seconds
        committed_in = committed_in or committed_for(block, runtime, Cache(runtime, cache))
        self._committed_in = committed_in
        builds = Builds(
            store, committed_in, runtime, settings, large=build_large, large_merge=merge_large
        )
        self.forecast = Forecast(on_large_forecast, large_keys=settings.large_commit_keys)
        self.branches = branches = Branches(store, runtime)
        self.tags = Tags(store, runtime)
        self.commits = commits = Commits(store, runtime)
        self.history = History(commits, runtime)
        self.merge_bases = MergeBases(commits, runtime)
        self.marks = marks = ExpiryMarks(store)
        self.refusals = Refusals(store, runtime)
        self.resolver = Resolver(branches, self.tags, commits)
        self.protection = BranchProtection(store, runtime)
        self.repositories = Repositories(
            store, block, runtime, branches=branches, commits=commits, committed_in=committed_in
        )
        self.readings = Readings(
            store,
            runtime,
            repositories=self.repositories,
            branches=branches,
            protection=self.protection,
            resolver=self.resolver,
        )
        self.reader = Reader(store, self.readings, commits, committed_in, runtime, settings)
        self.writer = Writer(
            store,
            self.readings,
            branches,
            self.reader,
            runtime,
            settings,
            on_write=self.forecast.count_write,
        )
        self.publisher = publisher = Publisher(branches, commits, runtime, settings)
        self.uncommitted = UncommittedChanges(
            store, commits, self.reader, publisher, committed_in, settings
        )
        self.committer = Committer(
            branches,
            commits,
            publisher,
            builds,
            runtime,
            hooks=hooks,
            marks=marks,
            refusals=self.refusals,
            settings=settings,
        )
        self.merger = Merger(
            branches,
            commits,
            self.merge_bases,
            publisher,
            self.committer,
            self.uncommitted,
            committed_in,
            builds,
            runtime,
            marks=marks,
            settings=settings,
        )
        self.resetter = Resetter(
            store, branches, publisher, self.uncommitted, self.reader, marks, runtime, settings
        )
        self.refs = RefChanges(
            runtime,
            repositories=self.repositories,
            resolver=self.resolver,
            branches=branches,
            tags=self.tags,
            protection=self.protection,
            refusals=self.refusals,
            hooks=hooks,
        )
        self.references = References(store, branches, commits, marks, committed_in)

    def committed(self, repository: Repository) -> Committed:
        return self._committed_in(repository.files_root)
