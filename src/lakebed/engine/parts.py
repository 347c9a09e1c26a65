"""The parts of the engine that work on branches, and how they are put together.

They are given repositories that were read already. `Engine` adds what concerns the repository: is
it there, may it be written to, is the branch protected.
"""

from dataclasses import dataclass

from lakebed.engine.commits.build import Build, Builds, MergeBuild
from lakebed.engine.commits.commit import Committer
from lakebed.engine.commits.dirty import DirtyCheck
from lakebed.engine.commits.merges import Merger
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.reset import Resetter
from lakebed.engine.committed import CommittedFor
from lakebed.engine.expiry_marks import Marks
from lakebed.engine.hooks import Hooks
from lakebed.engine.refs.ancestry import MergeBases
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.refusals import Refusals
from lakebed.engine.refs.tags import Tags
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.writer import Writer
from lakebed.kv import Store
from lakebed.runtime import Runtime


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What works on the branches, tags and commits of repositories."""

    branches: Branches
    tags: Tags
    commits: Commits
    merge_bases: MergeBases
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
    runtime: Runtime,
    committed_in: CommittedFor,
    *,
    hooks: Hooks | None = None,
    settings: EngineSettings | None = None,
    build_large: Build | None = None,
    merge_large: MergeBuild | None = None,
) -> EngineParts:
    """Put the parts together; what is large is built in this process too, if nothing is given."""
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
    reader = Reader(store, branches, commits, committed_in, runtime, settings)
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
        branches=branches,
        tags=Tags(store, runtime),
        commits=commits,
        merge_bases=merge_bases,
        reader=reader,
        writer=Writer(store, branches, reader, runtime, settings),
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
