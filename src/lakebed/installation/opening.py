"""Opening an installation, from database and storage settings to the catalog."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block import BlockSettings, BlockStore, open_block
from lakebed.engine.build_processes import Builders
from lakebed.engine.engine import Engine
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.kv import Store, open_store
from lakebed.lake.catalog import Catalog
from lakebed.lake.hooks.actions import Actions
from lakebed.lake.hooks.guard import HookGuard
from lakebed.lake.hooks.runner import NewCaller
from lakebed.lake.hooks.settings import HookLimits
from lakebed.lake.presign import Signer
from lakebed.lake.settings import CatalogSettings, LinkSettings
from lakebed.lake.tasks import RunInBackground
from lakebed.reclaim.service import Reclaim


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationSettings:
    """Location, times and limits of an installation."""

    database_url: str = field(repr=False)
    storage: BlockSettings
    gc: CatalogSettings = field(default_factory=CatalogSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    hooks: HookLimits = field(default_factory=HookLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """The lower layers, for process setup, not for HTTP handlers."""

    store: Store
    block: BlockStore
    engine: Engine

    def close(self) -> None:
        self.block.close()
        self.store.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The parts of an installation in this process."""

    settings: InstallationSettings
    runtime: Runtime
    foundation: Foundation
    catalog: Catalog
    reclaim: Reclaim
    actions: Actions

    def close(self) -> None:
        self.foundation.close()


def open_installation(
    settings: InstallationSettings,
    *,
    run_in_background: RunInBackground,
    new_caller: NewCaller,
    runs_everything: bool,
    builders: Builders | None = None,
    signer: Signer | None = None,
    while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Installation:
    """Open the database and storage, and create the parts.

    `runs_everything` says whether this process runs imports and post hooks in the background; if
    not, another process finds them. Without `builders`, large commits are built in this process.
    `while_waiting` is entered while an operation waits for hooks.

    Raises:
        KVError, BlockError: The database or the storage cannot be opened.
        MissingExtraError: Its driver is not installed.
    """
    runtime = ThreadRuntime()
    store = open_store(settings.database_url, runtime=runtime)
    block = open_block(settings.storage, runtime=runtime)
    guard = HookGuard(runtime)
    engine = Engine(
        store,
        block,
        runtime=runtime,
        hooks=guard if settings.hooks.enabled else None,
        settings=settings.engine,
        cache=settings.cache,
        build_large=None if builders is None else builders.build,
        merge_large=None if builders is None else builders.merge,
        on_large_forecast=None if builders is None else builders.prepare,
    )
    catalog = Catalog(
        engine,
        store,
        block,
        runtime,
        settings.gc,
        links=settings.links,
        run_in_background=run_in_background,
        signer=signer,
        runs_imports=runs_everything,
    )
    actions = Actions(
        guard,
        engine,
        catalog,
        store,
        block,
        runtime,
        settings.hooks,
        heartbeat_seconds=settings.gc.task_heartbeat_seconds,
        new_caller=new_caller,
        while_waiting=while_waiting,
        run_in_background=run_in_background,
        runs_post_hooks=runs_everything,
    )
    return Installation(
        settings=settings,
        runtime=runtime,
        foundation=Foundation(store=store, block=block, engine=engine),
        catalog=catalog,
        reclaim=Reclaim(catalog, engine, store, block, runtime, settings.gc),
        actions=actions,
    )
