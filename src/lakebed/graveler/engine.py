"""The parts of the engine, put together."""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.block import Namespace
from lakebed.graveler.build import Build, build_by_size, build_here
from lakebed.graveler.clean import CleanBranches
from lakebed.graveler.commit import Committer
from lakebed.graveler.committed import Committed
from lakebed.graveler.hooks import Hooks
from lakebed.graveler.moves import Moves
from lakebed.graveler.publish import Publisher
from lakebed.graveler.refs.branches import Branches
from lakebed.graveler.refs.commits import Commits
from lakebed.graveler.refs.tags import Tags
from lakebed.graveler.reset import Resets
from lakebed.graveler.settings import EngineSettings
from lakebed.graveler.staging.reader import Reader
from lakebed.graveler.staging.writer import Writer
from lakebed.kv import Store
from lakebed.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Engine:
    """What works on the branches, tags and commits of repositories."""

    branches: Branches
    tags: Tags
    commits: Commits
    reader: Reader
    writer: Writer
    committer: Committer
    moves: Moves
    resets: Resets


def assemble(
    store: Store,
    runtime: Runtime,
    committed_in: Callable[[Namespace], Committed],
    *,
    hooks: Hooks | None = None,
    settings: EngineSettings | None = None,
    build_large: Build | None = None,
) -> Engine:
    """Put an engine together; without a `build_large`, it builds all commits where it is called."""
    hooks = hooks or Hooks()
    settings = settings or EngineSettings()
    build = build_here(store, committed_in)
    if build_large is not None:
        build = build_by_size(store, build, build_large)
    branches = Branches(store, runtime)
    commits = Commits(store, runtime)
    reader = Reader(store, branches, commits, committed_in, runtime, settings)
    publisher = Publisher(branches, commits, runtime, settings)
    clean = CleanBranches(store, commits, reader, publisher, committed_in, settings)
    return Engine(
        branches=branches,
        tags=Tags(store, runtime),
        commits=commits,
        reader=reader,
        writer=Writer(store, branches, reader, runtime, settings),
        committer=Committer(
            branches,
            commits,
            publisher,
            build,
            runtime,
            hooks=hooks,
            settings=settings,
        ),
        moves=Moves(
            branches,
            commits,
            publisher,
            clean,
            committed_in,
            hooks=hooks,
            settings=settings,
        ),
        resets=Resets(store, branches, publisher, reader, runtime, settings),
    )
