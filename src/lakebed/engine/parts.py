"""The parts of the engine that work on branches, and how they are put together.

`Readings` says whether a repository is there, may be written to, and whether the branch is
protected; the parts that it does not serve are given repositories that were read already.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.block import BlockStore
from lakebed.engine.commits.build import Build, Builds, MergeBuild
from lakebed.engine.commits.commit import Committer
from lakebed.engine.commits.dirty import DirtyCheck
from lakebed.engine.commits.merges import Merger
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.reset import Resetter
from lakebed.engine.committed import CommittedFor
from lakebed.engine.expiry_marks import Marks
from lakebed.engine.hooks import Hooks
from lakebed.engine.reading import Readings
from lakebed.engine.refs.ancestry import MergeBases
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.protection import BranchProtection
from lakebed.engine.refs.refusals import Refusals
from lakebed.engine.refs.resolve import Resolver
from lakebed.engine.refs.tags import Tags
from lakebed.engine.repositories.repositories import Repositories
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.writer import Writer
from lakebed.kv import Store
from lakebed.runtime import Runtime


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What works on the branches, tags and commits of repositories."""

    repositories: Repositories
    branches: Branches
    tags: Tags
    commits: Commits
    protection: BranchProtection
    resolver: Resolver
    merge_bases: MergeBases
    readings: Readings
    reader: Reader
    writer: Writer
    committer: Committer
    merger: Merger
    resetter: Resetter
    publisher: Publisher
    dirty: DirtyCheck
    marks: Marks
    refusals: Refusals


def assemble(
    store: Store,
    block: BlockStore,
    runtime: Runtime,
    committed_in: CommittedFor,
    *,
    hooks: Hooks | None = None,
    settings: EngineSettings | None = None,
    build_large: Build | None = None,
    merge_large: MergeBuild | None = None,
    on_write: Callable[[], None] = lambda: None,
) -> EngineParts:
    """Put the parts together; what is large is built in this process too, if nothing is given.

    `on_write` is called after each write of a key.
    """
    hooks = hooks or Hooks()
    settings = settings or EngineSettings()
    builds = Builds(
        store, committed_in, runtime, settings, large=build_large, large_merge=merge_large
    )
    branches = Branches(store, runtime)
    commits = Commits(store, runtime)
    merge_bases = MergeBases(commits, runtime)
    marks = Marks(store)
    refusals = Refusals(store, runtime)
    tags = Tags(store, runtime)
    resolver = Resolver(branches, tags, commits)
    protection = BranchProtection(store, runtime)
    repositories = Repositories(
        store, block, runtime, branches=branches, commits=commits, committed_in=committed_in
    )
    readings = Readings(
        store,
        runtime,
        repositories=repositories,
        branches=branches,
        protection=protection,
        resolver=resolver,
    )
    reader = Reader(store, readings, commits, committed_in, runtime, settings)
    publisher = Publisher(branches, commits, runtime, settings)
    dirty = DirtyCheck(store, commits, reader, publisher, committed_in, settings)
    committer = Committer(
        branches,
        commits,
        publisher,
        builds,
        runtime,
        hooks=hooks,
        marks=marks,
        refusals=refusals,
        settings=settings,
    )
    return EngineParts(
        repositories=repositories,
        branches=branches,
        tags=tags,
        commits=commits,
        protection=protection,
        resolver=resolver,
        merge_bases=merge_bases,
        readings=readings,
        reader=reader,
        writer=Writer(store, readings, branches, reader, runtime, settings, on_write=on_write),
        committer=committer,
        merger=Merger(
            branches,
            commits,
            merge_bases,
            publisher,
            committer,
            dirty,
            committed_in,
            builds,
            runtime,
            marks=marks,
            settings=settings,
        ),
        resetter=Resetter(store, branches, publisher, dirty, reader, marks, runtime, settings),
        publisher=publisher,
        dirty=dirty,
        marks=marks,
        refusals=refusals,
    )
