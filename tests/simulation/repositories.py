"""Scenarios of repositories and the Cleaner: what must hold for every seed.

Some processes create, delete, look for and use a few repositories, with names and namespaces that
collide, while Cleaners run; calls to the store and to the storage fail, hang and lose replies, and
processes die. Then all is quiet for a while, but for a Cleaner, and what is left must be in order.

A `Monitor` sees every write as it is applied and notes what must never be. Every answer is compared
with what was there while the request lasted. `SCENARIOS` holds the real thing, `BROKEN` the same
with one rule broken each.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from lakebed.block import BlockStore, Namespace, StorageUnavailable
from lakebed.graveler.cleaner import Cleaner
from lakebed.graveler.committed import Cache
from lakebed.graveler.committed_for import committed_for
from lakebed.graveler.errors import (
    BranchNotFound,
    Deleting,
    GivenUp,
    NamespaceTaken,
    NotUnique,
    RepositoryNotFound,
    TooManyTries,
)
from lakebed.graveler.ids import new_staging_token
from lakebed.graveler.keys import (
    DELETED_PARTITION,
    DROPPED_PARTITION,
    GRAVELER,
    STAGED_PREFIX,
)
from lakebed.graveler.model import Branch, BranchID, Repository, RepositoryID, StagingToken
from lakebed.graveler.refs.branches import Branches
from lakebed.graveler.refs.commits import Commits
from lakebed.graveler.removal import ACTIVE, DELETING
from lakebed.graveler.repositories import Repositories
from lakebed.kv import OutcomeUnknown, PredicateFailed, Store
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.wrappers.retries import RetryingStore
from lakebed.runtime import Runtime
from lakebed.testing.scheduler import Actor
from lakebed.testing.simulated_block import SimulatedBlock
from lakebed.testing.simulated_store import SimulatedStore
from lakebed.testing.simulator import NO_FAULTS, Faults, Simulation
from tests.simulation import repository_mutants as mutants
from tests.simulation.monitor import Monitor, Span, overlap

MAIN: Final = BranchID("main")
DEV: Final = BranchID("dev")

GRACE_SECONDS: Final = 900.0
# Less than the grace period even by a clock that runs fast: what lasts longer may leave strays.
LONGEST_REQUEST_SECONDS: Final = GRACE_SECONDS * 0.8
# More than it even by a clock that runs slow.
SURELY_PAST_GRACE_SECONDS: Final = GRACE_SECONDS * 1.2

REQUESTS: Final = 5
PASSES: Final = 8


@dataclass(frozen=True, slots=True)
class Process:
    """A simulated process and what it runs."""

    actor: Actor
    runtime: Runtime
    store: Store
    branches: Branches
    repositories: Repositories
    cleaner: Cleaner


Body = Callable[["World", Process], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What processes are made of."""

    repositories: type[Repositories] = Repositories
    cleaner: type[Cleaner] = Cleaner
    grace_seconds: float = GRACE_SECONDS
    break_rule: Callable[[Repositories, Cleaner], None] = lambda _repositories, _cleaner: None
    """Puts something wrong in the place of a part inside."""

    def build(self, actor: Actor, store: Store, block: BlockStore) -> Process:
        runtime = actor.runtime
        branches = Branches(store, runtime)
        repositories = self.repositories(
            store,
            block,
            runtime,
            branches=branches,
            commits=Commits(store, runtime),
            committed_in=committed_for(block, runtime, Cache(runtime)),
        )
        cleaner = self.cleaner(store, runtime, grace_seconds=self.grace_seconds)
        self.break_rule(repositories, cleaner)
        return Process(actor, runtime, store, branches, repositories, cleaner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What a scenario is made of: how much collides, and how."""

    names: tuple[str, ...]
    namespaces: tuple[str, ...]
    requests: Mapping[str, int]
    """How often each request is made, relative to the others."""
    stall: float = 0.012
    stall_seconds: float = 300.0
    skew_seconds: float = 100.0
    begin_with: int = 0
    """How many repositories there are when it begins."""

    @property
    def faults(self) -> Faults:
        return Faults(
            fail_before=0.02,
            fail_after=0.04,
            kill=0.003,
            stall=self.stall,
            stall_seconds=self.stall_seconds,
            skew_seconds=self.skew_seconds,
        )


class World:
    """What one run shares: the truth, and what actors were told."""

    def __init__(self, simulation: Simulation, mix: Mix, parts: Parts) -> None:
        self.simulation = simulation
        self.names = [RepositoryID(name) for name in mix.names]
        self.namespaces = [Namespace.parse(f"mem://lake/{path}") for path in mix.namespaces]
        self.mix = mix
        self.random = self.simulation.random
        self.monitor = Monitor(self.simulation, self.simulation.actor("storage").runtime)
        self.store = SimulatedStore(self.simulation, self.monitor.store)
        self.block = SimulatedBlock(self.simulation, self.monitor.block)
        self.parts = parts
        self.acknowledged: dict[StagingToken, set[bytes]] = {}
        self.slow = False
        """Whether a request lasted so long that it may have left strays."""
        self.told: Counter[str] = Counter()

    def process(self, name: str) -> Process:
        actor = self.simulation.actor(name)
        store = self.store.handle(actor)
        # Without retries, lost replies reach the protocols more often.
        if self.random.random() < 0.7:
            store = RetryingStore(store, actor.runtime)
        return self.parts.build(actor, store, self.block.handle(actor))

    @contextmanager
    def request(self) -> Iterator[int]:
        """Time a request, and give the step at which it begins; one without an answer ends it."""
        began = self.simulation.seconds
        try:
            yield self.simulation.step
        except (OutcomeUnknown, StorageUnavailable, TooManyTries, GivenUp) as error:
            self.told[type(error).__name__] += 1
        finally:
            self.slow |= self.simulation.seconds - began > LONGEST_REQUEST_SECONDS

    def check(self, what: str, *, holds: bool) -> None:
        if not holds:
            self.monitor.violation(what)


# Requests: each compares its answer with what was there meanwhile


def create(world: World, process: Process) -> None:
    name, namespace = world.random.choice(world.names), world.random.choice(world.namespaces)
    me = process.actor.name
    make: Callable[[], Repository] = partial(
        process.repositories.create, name, namespace, committer=me
    )
    if world.random.random() < 0.25:
        make = partial(process.repositories.create_bare, name, namespace)

    def others(began: int) -> list[Span]:
        spans = [span for span in world.monitor.spans if span.meets(began, world.simulation.step)]
        return [span for span in spans if span.creator != me or span.since < began]

    with world.request() as began:
        try:
            made = make()
            world.told["created"] += 1
            spans = world.monitor.at(name, began, world.simulation.step)
            was_active = any(
                span.unique_id == made.unique_id and span.state == ACTIVE for span in spans
            )
            world.check(f"told {made} was created, and it never was", holds=was_active)
        except NamespaceTaken as error:
            world.told["NamespaceTaken"] += 1
            rival = any(overlap(span.namespace, namespace) for span in others(began))
            world.check(f"no repository was there, and yet: {error}", holds=rival)
        except NotUnique as error:
            world.told["NotUnique"] += 1
            rival = any(span.name == name for span in others(began))
            world.check(f"no repository was there, and yet: {error}", holds=rival)


def delete(world: World, process: Process) -> None:
    name = world.random.choice(world.names)
    world.monitor.deletes_under_way[name] += 1
    try:
        with world.request() as began:
            try:
                process.repositories.delete(name)
                world.told["deleted"] += 1
            except RepositoryNotFound:
                world.told["not found"] += 1
            check_not_active(world, name, began, "a delete of it ended")
    finally:
        world.monitor.deletes_under_way[name] -= 1


def get(world: World, process: Process) -> None:
    name = world.random.choice(world.names)
    with world.request() as began:
        state, unique_id = ACTIVE, ""
        try:
            unique_id = process.repositories.get(name).unique_id
        except Deleting:
            state = DELETING
        except RepositoryNotFound:
            check_not_active(world, name, began, "it was not found")
            return
        spans = world.monitor.at(name, began, world.simulation.step)
        seen = any(span.state == state and unique_id in {"", span.unique_id} for span in spans)
        world.check(f"{name} was never {state} with id {unique_id!r}", holds=seen)


def list_all(world: World, process: Process) -> None:
    with world.request() as began:
        listed = {(found.id, found.unique_id) for found in process.repositories.list()}
        ended = world.simulation.step
        spans = [span for span in world.monitor.spans if span.state == ACTIVE]
        were = {(span.name, span.unique_id) for span in spans if span.meets(began, ended)}
        must = {
            (span.name, span.unique_id) for span in world.monitor.active_throughout(began, ended)
        }
        world.check(f"listed {listed}, of {were}, at least {must}", holds=must <= listed <= were)


def check_not_active(world: World, name: str, began: int, what: str) -> None:
    throughout = world.monitor.active_throughout(began, world.simulation.step)
    world.check(
        f"{what}, but {name} was active all the time",
        holds=all(span.name != name for span in throughout),
    )


# Requests that use a repository: they begin with its record, and know its branch


def use(world: World, process: Process) -> None:
    work = world.random.choice([write, write, write, read, read, drop, drop, fork, fork])
    with world.request():
        try:
            repository = process.repositories.get(world.random.choice(world.names))
            branch = process.branches.get(repository, world.random.choice([MAIN, MAIN, DEV]))
            work(world, process, repository, branch)
        except (RepositoryNotFound, Deleting, BranchNotFound, PredicateFailed):
            return


def write(world: World, process: Process, repository: Repository, branch: Branch) -> None:
    """Stage something; it is acknowledged if the token is current afterwards."""
    token = branch.staging_token
    key = world.random.randbytes(4).hex().encode()
    take_time(world, process)
    process.store.set(token.encode(), STAGED_PREFIX + key, b"staged")
    if process.branches.get(repository, branch.id).staging_token == token:
        world.acknowledged.setdefault(token, set()).add(key)


def read(world: World, process: Process, _repository: Repository, branch: Branch) -> None:
    """Read what is staged, slowly: a record once read serves for the grace period."""
    began = world.simulation.seconds
    expected = {token: set(world.acknowledged.get(token, ())) for token in branch.tokens}
    for token in branch.tokens:
        take_time(world, process)
        missing = expected[token] - staged_keys(process.store, token)
        in_time = world.simulation.seconds - began < LONGEST_REQUEST_SECONDS
        world.check(f"a reader of {token} misses {missing}", holds=not missing or not in_time)


def drop(world: World, process: Process, repository: Repository, branch: Branch) -> None:
    """Seal the staging token, or drop all tokens, as committers do."""
    token = new_staging_token(process.runtime, repository.id, branch.id)
    if world.random.random() < 0.4:
        process.branches.change(
            repository, branch, staging_token=token, sealed_tokens=branch.tokens
        )
        return
    process.branches.announce_drop(repository, branch.id, branch.tokens)
    process.branches.change(repository, branch, staging_token=token, sealed_tokens=())


def fork(world: World, process: Process, repository: Repository, branch: Branch) -> None:
    """Make another branch, or delete it."""
    take_time(world, process)
    try:
        process.branches.create(repository, DEV, branch.commit_id)
    except NotUnique:
        process.branches.delete(repository, DEV)


def take_time(world: World, process: Process) -> None:
    """A request may last: a large upload, a slow client."""
    process.runtime.sleep(world.random.random() ** 2 * 200)


def staged_keys(store: Store, token: StagingToken) -> set[bytes]:
    entries = store.scan(token.encode())
    return {entry.key.removeprefix(STAGED_PREFIX) for entry in entries}


# The run


def work(world: World, process: Process) -> None:
    for _ in range(REQUESTS):
        process.runtime.sleep(world.random.random() ** 3 * 200)
        (name,) = world.random.choices(list(world.mix.requests), [*world.mix.requests.values()])
        REQUEST[name](world, process)


def clean(world: World, process: Process) -> None:
    for _ in range(PASSES):
        process.runtime.sleep(world.random.random() ** 2 * 400)
        with world.request():
            process.cleaner.run_once()


def repositories_hold(seed: int, mix: Mix, parts: Parts) -> World:
    """Run a scenario; raise if something was wrong at any moment, or is in the end."""
    world = World(Simulation(seed), mix, parts)
    run(world, {"begin": begin})
    world.simulation.faults = mix.faults
    run(world, {"ann": work, "bob": work, "cay": work, "dan": work, "eve": clean, "fay": clean})
    world.simulation.faults = NO_FAULTS
    run(world, {"quiet": quiet})
    return world


def run(world: World, bodies: Mapping[str, Body]) -> None:
    """Let processes of some names run until all have ended."""
    for name, body in bodies.items():
        process = world.process(name)
        process.actor.start(partial(body, world, process))
    world.simulation.run()
    assert not world.monitor.violations, world.monitor.violations[0]


def begin(world: World, process: Process) -> None:
    pairs = zip(world.names, world.namespaces, strict=False)
    for name, namespace in islice(pairs, world.mix.begin_with):
        process.repositories.create(name, namespace, committer="begin")


def quiet(world: World, process: Process) -> None:
    """Nobody is at work any more: what died must be gone in minutes, the rest in its time."""
    for _ in range(6):  # a dead Cleaner's lease, then the two minutes
        process.cleaner.run_once()
        process.runtime.sleep(45)
    for record in world.monitor.records():
        world.check(f"{record} is still there", holds=record.message.state == ACTIVE)
    check_nothing_is_blocked(world, process)
    for seconds in (SURELY_PAST_GRACE_SECONDS, 30, 30, 30):
        process.cleaner.run_once()
        process.runtime.sleep(seconds)
    counts = process.cleaner.run_once()
    world.check("the Cleaner did not get the lease", holds=counts.ran)
    check_orphans(world)


def check_nothing_is_blocked(world: World, process: Process) -> None:
    """Make a repository in every place that is free, and one of every name that is free."""
    active = list(process.repositories.list())
    taken = [repository.namespace for repository in active]
    names = [name for name in world.names if name not in {repository.id for repository in active}]
    places = [
        place for place in world.namespaces if not any(overlap(place, each) for each in taken)
    ]
    pairs = [(RepositoryID("fresh"), place) for place in places]
    pairs += [(name, Namespace.parse(f"mem://fresh/{name}")) for name in names]
    for name, place in pairs:
        world.monitor.deletes_under_way[name] += 1
        process.repositories.create_bare(name, place)  # raises if something is in its way
        process.repositories.delete(name)


def check_orphans(world: World) -> None:
    """Compare all that is in the store with what active repositories name."""
    store, runtime = world.monitor.store, world.simulation.actor("checker").runtime
    branches = Branches(store, runtime)
    partitions = {GRAVELER, METADATA_PARTITION}
    claims = {}
    tokens: set[bytes] = set()
    for span in world.monitor.active_throughout(world.simulation.step, world.simulation.step):
        repository = _as_repository(span)
        partitions.add(repository.partition)
        claims[str(span.namespace)] = span.unique_id
        for branch in branches.list(repository):
            tokens.update(token.encode() for token in branch.tokens)
            for token in branch.tokens:
                missing = world.acknowledged.get(token, set()) - staged_keys(store, token)
                world.check(f"{token} is named, and lost {missing}", holds=not missing)
    found = world.monitor.claims()
    world.check(f"claims are {found}, not {claims}", holds=found == claims)
    announced = {entry.key for entry in store.scan(DROPPED_PARTITION)}
    world.check(f"announced in vain: {announced - tokens}", holds=announced <= tokens)
    deleted = [entry.key for entry in store.scan(DELETED_PARTITION)]
    world.check(f"deleted for ever: {deleted}", holds=not deleted)
    orphans = set(store.partitions()) - partitions - tokens - {DROPPED_PARTITION}
    world.check(f"nothing names {orphans}", holds=not orphans or world.slow)


def _as_repository(span: Span) -> Repository:
    return Repository(
        id=RepositoryID(span.name),
        unique_id=span.unique_id,  # type: ignore[arg-type]
        namespace=span.namespace,
        default_branch=MAIN,
        created_us=0,
        read_only=False,
        metadata={},
    )


REQUEST: Final[dict[str, Body]] = {
    "create": create,
    "delete": delete,
    "get": get,
    "list": list_all,
    "use": use,
}

NAMES = Mix(
    names=("apples",),
    namespaces=("a", "b"),
    requests={"create": 4, "delete": 3, "get": 1},
    stall=0.03,
)
# Processes that wake up after others have taken their places (most leave strays), and whose clocks
# make others' creations look old.
SLEEPERS = Mix(
    names=("apples",),
    namespaces=("a",),
    requests={"create": 4, "delete": 3},
    stall=0.06,
    stall_seconds=800,
    skew_seconds=4000,
)
PLACES = Mix(
    names=("apples", "berries", "cherries"),
    namespaces=("a", "a/b", "a/b/c", "d"),
    requests={"create": 5, "delete": 2, "get": 1, "list": 1, "use": 1},
)
TOKENS = Mix(
    names=("apples", "berries"),
    namespaces=("a", "b"),
    requests={"create": 2, "delete": 1, "use": 10},
    begin_with=2,
)

SCENARIOS = {
    "names": lambda seed: repositories_hold(seed, NAMES, Parts()),
    "sleepers": lambda seed: repositories_hold(seed, SLEEPERS, Parts()),
    "places": lambda seed: repositories_hold(seed, PLACES, Parts()),
    "tokens": lambda seed: repositories_hold(seed, TOKENS, Parts()),
}

BROKEN = {
    "claim_before_record": (PLACES, Parts(repositories=mutants.ClaimsBeforeRecord)),
    "look_before_claiming": (PLACES, Parts(break_rule=mutants.look_before_claiming)),
    "delete_record_blindly": (SLEEPERS, Parts(break_rule=mutants.delete_record_blindly)),
    "delete_claim_blindly": (PLACES, Parts(break_rule=mutants.delete_claim_blindly)),
    "activate_blindly": (SLEEPERS, Parts(repositories=mutants.ActivatesBlindly)),
    "write_owner_blindly": (SLEEPERS, Parts(break_rule=mutants.write_owner_blindly)),
    "drop_named_tokens": (TOKENS, Parts(cleaner=mutants.DropsNamedTokens)),
    "drop_branches_unannounced": (TOKENS, Parts(cleaner=mutants.DropsBranchesUnannounced)),
    "no_grace": (TOKENS, Parts(grace_seconds=0.0)),
    "no_second_scan": (TOKENS, Parts(cleaner=mutants.ScansOnce)),
}
