"""An installation with hooks that tests tell what to do, in place of webhooks and scripts."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore, Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, Commit, Repository, RepositoryID
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.catalog import Catalog
from lakebed.lake.hooks.actions import Actions
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.lake.hooks.files import HookSpec
from lakebed.lake.hooks.guard import HookGuard
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.settings import HookLimits
from tests.kit.engines import new_engine
from tests.kit.lake import TurnableClock

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")
FOLDER = b"_lakefs_actions/"
HEARTBEAT_SECONDS = 60.0

Deed = Callable[[HookEvent, HookOutput], object]


def action(name: str, *events: str, hooks: Iterable[str] = ("check",), more: str = "") -> str:
    """An action file whose hooks tests answer by their ids."""
    listed = "".join(
        f"  - {{id: {hook}, type: webhook, properties: {{url: 'http://hooks.example/{hook}'}}"
        f"{more}}}\n"
        for hook in hooks
    )
    on = "".join(f"  {event}:\n" for event in events)
    return f"name: {name}\non:\n{on}hooks:\n{listed}"


class _NoCalls:
    depth = 0

    def call(self, name: str, arguments: Any) -> tuple[int, Any]:
        raise AssertionError(f"no hook of these tests calls {name}({arguments})")


@dataclass
class Answers:
    """What hooks do, by their ids; others pass."""

    deeds: dict[str, Deed] = field(default_factory=dict)
    heard: list[tuple[str, HookEvent]] = field(default_factory=list)

    def events(self) -> list[HookEvent]:
        return [event for _, event in self.heard]

    def run_hook(
        self, spec: HookSpec, event: HookEvent, *, output: HookOutput, **_rest: object
    ) -> None:
        self.heard.append((spec.id, event))
        deed = self.deeds.get(spec.id)
        if deed is not None:
            deed(event, output)


def fail(_event: HookEvent, output: HookOutput) -> None:
    """Print, and fail."""
    output.print("looked at the data")
    raise HookFailed("the data is bad")


@dataclass
class HookedProcess:
    """A process with hooks."""

    engine: Engine
    catalog: Catalog
    actions: Actions


class HookLake:
    """A repository with the branches main and dev."""

    def __init__(self, *, store: Store | None = None, block: BlockStore | None = None) -> None:
        self.clock = TurnableClock()
        self.store = store or MemoryStore(self.clock)
        self.block = block or MemoryBlockStore(self.clock)
        self.answers = Answers()
        process = self.process()
        self.engine, self.catalog, self.actions = process.engine, process.catalog, process.actions
        self.engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="ann")
        self.engine.refs.create_branch(LAKE, DEV, MAIN)

    def process(self, runtime: Runtime | None = None) -> HookedProcess:
        """Another process on the same store."""
        runtime = runtime or self.clock
        guard = HookGuard(runtime)
        engine = new_engine(self.store, self.block, runtime=runtime, hooks=guard)
        catalog = Catalog(engine, self.store, self.block, runtime)
        actions = Actions(
            guard,
            engine,
            catalog,
            self.store,
            self.block,
            runtime,
            HookLimits(),
            heartbeat_seconds=HEARTBEAT_SECONDS,
            new_caller=lambda _event: _NoCalls(),
            while_waiting=nullcontext,
            run_hook=self.answers.run_hook,
        )
        return HookedProcess(engine, catalog, actions)

    @property
    def repository(self) -> Repository:
        return self.engine.repositories.get(LAKE)

    def put(self, path: bytes, text: str = "x", branch: BranchID = MAIN) -> None:
        self.catalog.uploads.upload(LAKE, branch, path, [text.encode()])

    def put_action(self, name: str, *events: str, branch: BranchID = MAIN, **more: Any) -> None:
        text = action(name, *events, **more)
        self.put(FOLDER + name.encode() + b".yaml", text, branch)

    def commit(self, branch: BranchID = MAIN, message: str = "m") -> Commit:
        request = CommitRequest(committer="ann", message=message, metadata={"k": "v"})
        return self.catalog.commits.commit(LAKE, branch, request).commit

    def set_strict(self, *, strict: bool) -> None:
        self.engine.repositories.set_strict_hooks(LAKE, strict=strict)

    def merge(self, source: str = "dev", branch: BranchID = MAIN) -> Commit:
        request = MergeRequest(committer="ann", message="merge")
        return self.catalog.commits.merge(LAKE, source, branch, request)

    def head(self, branch: BranchID = MAIN) -> str:
        return self.engine.branches.get(self.repository, branch).commit_id

    def heard(self, event_type: EventType) -> list[HookEvent]:
        return [event for event in self.answers.events() if event.event_type is event_type]
