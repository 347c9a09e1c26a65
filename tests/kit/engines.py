"""Engines for tests, and the calls on them that production makes in more than one step."""

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore, MemorySettings, open_block
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.engine import Engine
from lakebed.engine.hooks import Hooks
from lakebed.engine.model import BranchID, Commit, RepositoryID
from lakebed.engine.refs.dump import dump_refs
from lakebed.engine.refs.restore import restore_refs
from lakebed.engine.settings import EngineSettings
from lakebed.formats import DumpID, DumpManifest
from lakebed.kv import Store, open_store


def new_engine(
    store: Store | None = None,
    block: BlockStore | None = None,
    *,
    runtime: Runtime | None = None,
    hooks: Hooks | None = None,
    settings: EngineSettings | None = None,
) -> Engine:
    """Return an engine on a store and a storage, by default new ones in memory."""
    return Engine(
        store or open_store("memory://"),
        block or open_block(MemorySettings()),
        runtime=runtime,
        hooks=hooks,
        settings=settings,
    )


def cherry_pick(
    engine: Engine,
    repository_id: RepositoryID,
    branch: BranchID,
    ref: str,
    request: CommitRequest,
    *,
    parent_number: int | None = None,
) -> Commit:
    """Repeat what a commit changed, with the words of the request alone."""
    repository = engine.repositories.get_writable(repository_id)
    commit = engine.resolver.commit(repository, ref)
    return engine.merger.cherry_pick(
        repository, branch, commit, request, parent_number=parent_number
    )


def dump(engine: Engine, repository_id: RepositoryID) -> DumpManifest:
    """Dump all refs of a repository."""
    repository = engine.repositories.get(repository_id)
    return dump_refs(engine.store, engine.block, engine.runtime, repository)


def restore(engine: Engine, repository_id: RepositoryID, dump_id: DumpID) -> DumpManifest:
    """Restore a dump into a bare repository."""
    repository = engine.repositories.get_writable(repository_id)
    return restore_refs(engine.store, engine.block, engine.runtime, repository, dump_id)
