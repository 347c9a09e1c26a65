"""The parts of the engine, put together."""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.block import Namespace
from lakebed.engine.commits.build import Build, build_by_size, build_here
from lakebed.engine.commits.commit import Committer
from lakebed.engine.commits.dirty import CleanBranches
from lakebed.engine.commits.merges import Moves
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.reset import Resets
from lakebed.engine.committed import Committed
from lakebed.engine.hooks import Hooks
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
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
) -> EngineParts:
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
    return EngineParts(
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
