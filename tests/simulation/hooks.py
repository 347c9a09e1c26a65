"""Scenarios of hooks: committers and mergers whose hooks refuse, sleep and die, and what follows.

Every call may fail, hang or kill its process; whoever lives takes over what comes after operations.
Every commit that a branch leads to was approved under its own id, and the hooks that come after it
have run, once everybody is done. No hook is told that something happened that did not.
"""

import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.keys import BRANCHES, LIVE, TAGS
from lakebed.engine.model import BranchID, Commit, CommitID, TagID
from lakebed.kv import Item
from lakebed.kv.managed import ManagedStore
from lakebed.lake.catalog import Catalog
from lakebed.lake.commits import HeadChanges
from lakebed.lake.hooks.actions import Actions
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.lake.hooks.files import HookSpec
from lakebed.lake.hooks.guard import HookGuard
from lakebed.lake.hooks.settings import HookLimits
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Faults, Simulation
from tests.kit.engines import new_engine
from tests.simulation.monitor import WatchedStore
from tests.simulation.objects import DEV, ENGINE, LINKS, MAIN, REPOSITORY, REQUEST, CatalogWorld

FAULTS: Final = Faults(
    fail_before=0.01,
    fail_after=0.02,
    kill=0.0015,
    stall=0.01,
    stall_seconds=200,
    skew_seconds=20,
    until_step=3000,
)
REF_FAULTS: Final = replace(FAULTS, fail_after=0.04, kill=0.006)
HEARTBEAT_SECONDS: Final = 60.0
TOPIC: Final = BranchID("topic")
TAG: Final = TagID("v")
FILE: Final = b"_lakefs_actions/gate.yaml"
ACTION: Final = b"""
name: gate
on:
  pre-commit:
  post-commit:
  pre-merge:
  post-merge:
  post-create-branch:
  post-delete-branch:
  post-create-tag:
  post-delete-tag:
hooks:
  - {id: gate, type: webhook, properties: {url: "http://gate.example/"}}
"""


_GATE: Final = re.compile(rb"id: (gate\d*)")


class NoCalls:
    """The hooks here ask nothing of the server."""

    depth = 0

    def call(self, name: str, arguments: Any) -> tuple[int, Any]:
        raise AssertionError(name, arguments)


@dataclass
class Hooking:
    """What hooks were told, and what they said."""

    world: CatalogWorld
    calm: bool = False
    approved: set[str] = field(default_factory=set)
    gates: dict[str, set[str]] = field(default_factory=dict)
    """Which hooks approved each commit."""
    refused: set[str] = field(default_factory=set)
    told: dict[EventType, dict[str, set[str]]] = field(default_factory=dict)
    """Of what comes after operations: for each commit, branch or tag the runs."""

    def run_hook(
        self, spec: HookSpec, event: HookEvent, *, runtime: Runtime, **_rest: object
    ) -> None:
        random = self.world.random
        if not self.calm and random.random() < 0.5:
            runtime.sleep(random.random() * random.choice([1, 20, 300]))
        if event.event_type.is_post:
            name = event.commit_id or event.branch_id
            if event.event_type in {EventType.POST_CREATE_BRANCH, EventType.POST_DELETE_BRANCH}:
                name = event.branch_id
            elif event.event_type.is_about_tag:
                name = event.tag_id
            runs = self.told.setdefault(event.event_type, {}).setdefault(name, set())
            runs.add(event.run_id)
            return
        if not self.calm and random.random() < 0.15:
            self.refused.add(event.commit_id)
            raise HookFailed("no")
        self.approved.add(event.commit_id)
        self.gates.setdefault(event.commit_id, set()).add(spec.id)

    def actions(
        self,
        engine: Engine,
        catalog: Catalog,
        guard: HookGuard,
        parts: tuple[Any, Any, Runtime],
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> Actions:
        store, block, runtime = parts
        return Actions(
            guard,
            engine,
            catalog,
            store,
            block,
            runtime,
            HookLimits(),
            heartbeat_seconds=heartbeat_seconds,
            new_caller=lambda _event: NoCalls(),
            while_waiting=nullcontext,
            run_hook=self.run_hook,
            stores_early=False,  # nobody watches; it would only make histories longer
        )

    def process(self, name: str) -> "HookedProcess":
        world = self.world
        actor = world.simulation.actor(name)
        store: Any = world.store.handle(actor)
        if world.random.random() < 0.5:
            store = ManagedStore(store, actor.runtime)
        block = world.block.handle(actor)
        guard = HookGuard(actor.runtime)
        engine = new_engine(store, block, runtime=actor.runtime, settings=ENGINE, hooks=guard)
        catalog = Catalog(engine, store, block, actor.runtime, world.settings, links=LINKS)
        actions = self.actions(engine, catalog, guard, (store, block, actor.runtime))
        return HookedProcess(actor, catalog, actions, self)

    def history(self, left_out: int = 2) -> list[Commit]:
        """The commits that led to the branch, by first parents, without those of the beginning."""
        engine, repository = self.world.onlooker, self.world.repository
        head = engine.branches.get(repository, MAIN).commit_id
        found = [engine.commits.get(repository, head)]
        while found[-1].parents:
            found.append(engine.commits.get(repository, found[-1].parents[0]))
        return found[: len(found) - left_out]


@dataclass(frozen=True)
class HookedProcess:
    """A process, and what it works with."""

    actor: SimulatedProcess
    catalog: Catalog
    actions: Actions
    hooking: Hooking


def begin(world: CatalogWorld) -> Hooking:
    """Both branches have the action file."""
    world.catalog.uploads.upload(REPOSITORY, MAIN, FILE, [ACTION])
    world.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)
    HeadChanges(world.onlooker).hard_reset(REPOSITORY, DEV, MAIN)
    return Hooking(world)


# What actors do


def commit(process: HookedProcess) -> None:
    world = process.hooking.world
    random = world.random
    for _ in range(6):
        process.actor.runtime.sleep(random.random() * 40)
        with suppress(LakebedError):
            path = random.choice([b"a", b"b", b"c"])
            process.catalog.uploads.upload(REPOSITORY, MAIN, path, world.new_body())
            process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)


def merge(process: HookedProcess) -> None:
    world = process.hooking.world
    for _ in range(6):
        process.actor.runtime.sleep(world.random.random() * 60)
        with suppress(LakebedError):
            process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)
        with suppress(LakebedError):
            process.catalog.uploads.upload(REPOSITORY, DEV, b"merged", world.new_body())
            process.catalog.commits.commit(REPOSITORY, DEV, REQUEST)
            request = MergeRequest(committer="", message="merge")
            process.catalog.commits.merge(REPOSITORY, DEV, MAIN, request)


def seal(process: HookedProcess) -> None:
    """Change the branch record, and nothing that a commit holds."""
    world = process.hooking.world
    for _ in range(6):
        process.actor.runtime.sleep(world.random.random() * 20)
        with suppress(LakebedError):
            request = CommitRequest(committer="", message="")
            process.catalog.commits.commit(REPOSITORY, MAIN, request)


def run_what_comes_after(process: HookedProcess) -> None:
    for _ in range(12):
        with suppress(LakebedError):
            process.actions.post.run_waiting()
        process.actor.runtime.sleep(process.hooking.world.random.random() * 60)


def start(hooking: Hooking, name: str, task: Callable[[HookedProcess], None]) -> None:
    process = hooking.process(name)
    process.actor.start(partial(task, process))


# What must hold


def check(hooking: Hooking) -> None:
    ids = {commit.id for commit in hooking.history()}
    assert ids <= hooking.approved, "a commit was published that no hook approved"
    assert not ids & hooking.refused, "a commit was published that a hook refused"
    for event_type in (EventType.POST_COMMIT, EventType.POST_MERGE):
        for commit_id in hooking.told.get(event_type, {}):
            branch = hooking.world.onlooker.commits.get(
                hooking.world.repository, CommitID(commit_id)
            ).branch
            if branch == MAIN:
                assert commit_id in ids, "a hook was told of a commit that never was"


def bring_to_end(hooking: Hooking) -> Actions:
    """Take over what dead processes left, with nothing going wrong any more; return the taker."""
    world = hooking.world
    hooking.calm = True
    # To whoever looks twice, every process that does nothing meanwhile has died.
    actions = hooking.actions(
        world.onlooker,
        world.catalog,
        HookGuard(world.onlooker_runtime),
        (world.store.inner, world.block.inner, world.onlooker_runtime),
        heartbeat_seconds=1e-9,
    )
    for _ in range(5):
        actions.post.run_waiting()
    told = hooking.told
    for commit in hooking.history():
        event_type = EventType.POST_MERGE if len(commit.parents) > 1 else EventType.POST_COMMIT
        assert commit.id in told.get(event_type, {}), f"no hook was told of commit {commit.id}"
    return actions


# Scenarios


def hooks_hold(seed: int, faults: Faults = FAULTS) -> Hooking:
    world = CatalogWorld(Simulation(seed, faults, steps_max=400_000))
    hooking = begin(world)
    for number in range(2):
        start(hooking, f"committer{number}", commit)
        start(hooking, f"runner{number}", run_what_comes_after)
    start(hooking, "merger", merge)
    start(hooking, "sealer", seal)
    world.simulation.run()
    check(hooking)
    bring_to_end(hooking)
    check(hooking)
    return hooking


def hooks(seed: int) -> None:
    hooks_hold(seed)


# Gates that change


def change_the_gate(process: HookedProcess) -> None:
    """Replace the hook of the branch by another one."""
    world = process.hooking.world
    for _ in range(4):
        process.actor.runtime.sleep(world.random.random() * 60)
        with suppress(LakebedError):
            number = world.random.randrange(1000)
            text = ACTION.replace(b"id: gate", b"id: gate%d" % number)
            process.catalog.uploads.upload(REPOSITORY, MAIN, FILE, [text])
            process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)


def check_gates(hooking: Hooking) -> int:
    """Check that the gate of each replaced head approved what replaced it; count such gates."""
    objects = hooking.world.catalog.objects
    changed = 0
    for commit in hooking.history():
        gates = []
        for each in (commit.parents[0], commit.id):
            with objects.read(objects.stat(REPOSITORY, each, FILE)) as stream:
                found = _GATE.search(b"".join(stream))
            assert found is not None
            gates.append(found[1].decode())
        passed = hooking.gates[commit.id]
        assert set(gates) <= passed, f"{commit.id} passed {passed}, and not {gates}"
        changed += gates[0] != gates[1]
    return changed


def gates_hold(seed: int, faults: Faults = FAULTS) -> int:
    world = CatalogWorld(Simulation(seed, faults, steps_max=400_000))
    hooking = begin(world)
    for number in range(2):
        start(hooking, f"changer{number}", change_the_gate)
    start(hooking, "committer", commit)
    start(hooking, "merger", merge)
    world.simulation.run()
    check(hooking)
    return check_gates(hooking)


def gates(seed: int) -> None:
    gates_hold(seed)


# Refs that come and go


@dataclass
class RefEvents:
    """What became of the branch and the tag that come and go, seen where it is stored."""

    made: set[tuple[EventType, str]] = field(default_factory=set)
    """Creations and deletions by unique id, and commits by their own."""
    refs: dict[bytes, pb.Branch | pb.Tag] = field(default_factory=dict)

    def see(self, _partition: bytes, key: bytes, item: Item | None) -> None:
        value = None if item is None else item.value
        if key == BRANCHES.prefix + TOPIC.encode():
            self._see(key, None if value is None else pb.Branch.FromString(value), "BRANCH")
        elif key == TAGS.prefix + TAG.encode():
            self._see(key, None if value is None else pb.Tag.FromString(value), "TAG")

    def _see(self, key: bytes, after: pb.Branch | pb.Tag | None, kind: str) -> None:
        before = self.refs.pop(key, None)
        if after is not None and after.state == LIVE:
            self.refs[key] = after
            self.made.add((EventType[f"POST_CREATE_{kind}"], after.unique_id))
            if kind == "BRANCH":
                self.made.add((EventType.POST_COMMIT, after.commit_id))
        elif before is not None:
            self.made.add((EventType[f"POST_DELETE_{kind}"], before.unique_id))


def change_refs(process: HookedProcess) -> None:
    """Make, commit to, move and delete a branch, and make and delete a tag, in any order."""
    world, catalog = process.hooking.world, process.catalog

    def commit_to_topic() -> None:
        catalog.uploads.upload(REPOSITORY, TOPIC, b"a", world.new_body())
        catalog.commits.commit(REPOSITORY, TOPIC, REQUEST)

    deeds: list[Callable[[], object]] = [
        lambda: catalog.ref_changes.create_branch(REPOSITORY, TOPIC, MAIN),
        commit_to_topic,
        commit_to_topic,
        lambda: catalog.commits.hard_reset(REPOSITORY, TOPIC, MAIN),
        lambda: catalog.ref_changes.delete_branch(REPOSITORY, TOPIC),
        lambda: catalog.ref_changes.create_tag(REPOSITORY, TAG, MAIN),
        lambda: catalog.ref_changes.delete_tag(REPOSITORY, TAG),
    ]
    for _ in range(14):
        process.actor.runtime.sleep(world.random.random() * world.random.choice([1, 30]))
        with suppress(LakebedError):
            world.random.choice(deeds)()


def refs_are_told(seed: int, faults: Faults = REF_FAULTS) -> RefEvents:
    events = RefEvents()
    inner = WatchedStore(ThreadRuntime(), events.see)
    world = CatalogWorld(Simulation(seed, faults, steps_max=400_000), inner=inner)
    hooking = begin(world)
    at_first = {(EventType.POST_COMMIT, commit.id) for commit in hooking.history(left_out=0)}
    for number in range(3):
        start(hooking, f"changer{number}", change_refs)
    for number in range(2):
        start(hooking, f"runner{number}", run_what_comes_after)
    world.simulation.run()
    actions = bring_to_end(hooking)
    told: set[tuple[EventType, str]] = set()
    for event_type, by_name in hooking.told.items():
        for run_id in set().union(*by_name.values()):
            run = actions.runs.records(world.repository).get(run_id.encode()).message
            is_commit = event_type is EventType.POST_COMMIT
            told.add((event_type, run.commit_id if is_commit else run.ref_unique_id))
    made = events.made - at_first
    assert not made - told, f"no hook was told of {sorted(made - told)}"
    assert not told - made, f"a hook was told of what never was: {sorted(told - made)}"
    return events


def refs(seed: int) -> None:
    refs_are_told(seed)


SCENARIOS: Final = {"hooks": hooks, "refs": refs, "gates": gates}


# Refs, for deaths at every step


def make_and_delete_refs(process: HookedProcess) -> None:
    refs = process.catalog.ref_changes
    with suppress(LakebedError):
        refs.create_branch(REPOSITORY, "new", MAIN)
        refs.create_tag(REPOSITORY, "v1", MAIN)
        refs.delete_branch(REPOSITORY, BranchID("new"))
        refs.delete_tag(REPOSITORY, TagID("v1"))


def commit_once(process: HookedProcess) -> None:
    with suppress(LakebedError):
        process.catalog.uploads.upload(REPOSITORY, MAIN, b"a", process.hooking.world.new_body())
        process.catalog.commits.commit(REPOSITORY, MAIN, REQUEST)


def merge_once(process: HookedProcess) -> None:
    with suppress(LakebedError):
        process.catalog.uploads.upload(REPOSITORY, DEV, b"a", process.hooking.world.new_body())
        process.catalog.commits.commit(REPOSITORY, DEV, REQUEST)
        request = MergeRequest(committer="", message="merge")
        process.catalog.commits.merge(REPOSITORY, DEV, MAIN, request)
