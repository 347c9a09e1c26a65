"""Users and permissions under the simulator: what must hold for every seed.

`setup`: several processes set up one installation, and stall, fail and die meanwhile. `people`:
several processes create, delete, relate and equip the same user and group.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from unittest.mock import patch

from lakebed.auth import (
    Action,
    AlreadySetUp,
    AuthenticationFailed,
    AuthError,
    AuthService,
    Denied,
    Group,
    Identity,
    NewCredential,
    Permission,
    UniqueID,
    User,
    UserID,
    setup,
)
from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import AUTH, CREDENTIALS, SETUP, SETUP_NAME, USER_GROUPS
from lakebed.auth.entities.relations import Relations
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import OutcomeUnknown, Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import NO_FAULTS, Faults, Simulation
from lakebed.testing.simulation.store import SimulatedStore
from tests.auth.kit import NO_ADDRESS, QUICKSTART, UNCACHED, allow, service

Memberships = Relations[pb.User, User, pb.Group, Group]
Open = Callable[[Store, Runtime], AuthService]
"""Opens the service in a process; a mutant opens a broken one."""

CALM = Faults()
# Longer than other processes wait.
STALLS = Faults(stall=0.02, stall_seconds=30.0)
EVERYTHING = Faults(fail_before=0.01, fail_after=0.02, kill=0.005, stall=0.01, stall_seconds=30.0)
# A few are enough: setup treats all of them alike.
FEW_POLICIES = {"All": (allow("*"),), "FSReadAll": (allow("fs:Read*"),)}
FEW_GROUPS = {"Admins": ("All",), "Viewers": ("FSReadAll",)}
BUSY = Faults(stall=0.03, stall_seconds=3.0)
BUSY_AND_FAULTY = replace(BUSY, fail_before=0.01, fail_after=0.02, kill=0.003)
WEATHER = (CALM, STALLS, EVERYTHING)


def open_right(store: Store, runtime: Runtime) -> AuthService:
    return service(store, runtime, settings=UNCACHED)


def with_memberships(kind: type[Memberships]) -> Open:
    """Opens the service with another kind of memberships."""

    def open_service(store: Store, runtime: Runtime) -> AuthService:
        auth = open_right(store, runtime)
        auth.memberships = kind(store, USER_GROUPS, auth.users, auth.groups, changed=auth._forget)
        return auth

    return open_service


# Setup


@dataclass
class Answers:
    """What the callers of setup were told."""

    won: list[NewCredential] = field(default_factory=list)
    uncertain: int = 0


def set_up_by(auth: AuthService, truth: AuthService, name: str, answers: Answers) -> None:
    """Set up as one caller: under its own name or a common one, with a given key or not."""
    draw = auth._runtime.random
    given = QUICKSTART if draw() < 0.5 else None
    user = name if draw() < 0.5 else "admin"
    for _ in range(3):
        answers.uncertain += 1  # until it is told, and for ever if it dies
        try:
            answers.won.append(auth.setup(user, given))
        except AlreadySetUp:
            assert truth.is_set_up(), "a caller was told that it is set up, and it is not"
        except OutcomeUnknown:
            continue
        answers.uncertain -= 1
        return


def setup_holds(seed: int, open_service: Open = open_right) -> Answers:
    """One winner at most; in the end one administrator, the one that the winner was told of."""
    with patch.multiple(setup, BASE_POLICIES=FEW_POLICIES, BASE_GROUPS=FEW_GROUPS):
        return _setup_holds(seed, open_service)


def _setup_holds(seed: int, open_service: Open) -> Answers:
    weather = WEATHER[seed % len(WEATHER)]
    simulation = Simulation(seed, weather)
    shared = SimulatedStore(simulation, MemoryStore(ThreadRuntime()))
    truth = open_right(shared.inner, ThreadRuntime())
    answers = Answers()
    for name in ("ann", "bob", "cay"):
        actor = simulation.actor(name)
        auth = open_service(shared.handle(actor), actor.runtime)
        actor.start(partial(set_up_by, auth, truth, name, answers))
    simulation.run()
    simulation.faults = NO_FAULTS
    late = simulation.actor("late")
    auth = open_service(shared.handle(late), late.runtime)
    late.start(partial(set_up_by, auth, truth, "late", answers))
    simulation.run()
    assert len(answers.won) <= 1, "two callers won"
    assert answers.won or answers.uncertain, "nobody won, though no outcome is unknown"
    check_installation(shared.inner, answers, tidy=weather is not EVERYTHING)
    return answers


def check_installation(store: Store, answers: Answers, *, tidy: bool) -> None:
    auth = open_right(store, ThreadRuntime())
    assert auth.is_set_up()
    (admin,) = auth.memberships.sources_of("Admins").items
    record = Records(store, SETUP, AUTH).get(SETUP_NAME).message
    assert (record.user.user, record.user.unique_id) == (admin.id, admin.unique_id)
    users = auth.users.list().items
    for user in users:
        identity = Identity(
            user_id=user.id, unique_id=user.unique_id, committer="", access_key_id=None
        )
        may = [action for action in Action if allows(auth, identity, action)]
        assert may == (list(Action) if user == admin else []), user
    working = working_keys(store, auth)
    assert [identity.user_id for identity in working].count(admin.id) == 1
    if answers.won:
        (won,) = answers.won
        identity = auth.authenticate(won.access_key_id, won.secret_access_key)
        assert identity.unique_id == admin.unique_id
    if tidy:
        assert users == (admin,)
        assert len(working) == 1
    for group, policies in FEW_GROUPS.items():
        attached = {policy.id for policy in auth.group_policies.targets_of(group).items}
        assert attached == set(policies)


def working_keys(store: Store, auth: AuthService) -> list[Identity]:
    working = []
    for record in list(Records(store, CREDENTIALS, AUTH).scan()):
        with suppress(AuthenticationFailed):
            working.append(auth.secret_for(record.name.decode())[0])
    return working


def allows(auth: AuthService, identity: Identity, action: Action) -> bool:
    try:
        auth.authorize(identity, NO_ADDRESS, Permission(action, "*"))
    except Denied:
        return False
    return True


# People


@dataclass
class Event:
    """Something that an actor did to user ann or group g, from one step to another."""

    what: str
    start: int
    end: int = 1 << 60
    """Much later, if nobody knows."""
    known: bool = False
    unique_id: UniqueID | None = None
    credential: NewCredential | None = None


@dataclass
class People:
    """A world with one user and one group, made and unmade by several actors."""

    simulation: Simulation
    events: list[Event] = field(default_factory=list)

    def act(self, auth: AuthService, actor: SimulatedProcess) -> None:
        todo: dict[str, Callable[[], object]] = {
            "create user": lambda: auth.users.create("ann").unique_id,
            "delete user": lambda: auth.users.delete("ann"),
            "create group": lambda: auth.groups.create("g").unique_id,
            "delete group": lambda: auth.groups.delete("g"),
            "add": lambda: auth.memberships.add("ann", "g"),
            "remove": lambda: auth.memberships.remove("ann", "g"),
            "list": lambda: auth.memberships.sources_of("g"),
            "equip": lambda: auth.credentials.create("ann"),
        }
        weights = [8, 5, 4, 1, 10, 0.2, 6, 2]
        for _ in range(12):
            (what,) = self.simulation.random.choices(list(todo), weights)
            event = Event(what, self.simulation.step)
            self.events.append(event)
            try:
                result = todo[what]()
            except AuthError:
                self.events.remove(event)  # refused: it did nothing
            except OutcomeUnknown:
                pass
            else:
                event.end, event.known = self.simulation.step, True
                if isinstance(result, NewCredential):
                    event.credential = result
                elif isinstance(result, str):
                    event.unique_id = UniqueID(result)

    def creation(self, unique_id: str) -> Event | None:
        return next((event for event in self.events if event.unique_id == unique_id), None)

    def check(self, auth: AuthService) -> bool:
        """Compare what is there with what was done; return whether there was something to see."""
        users, groups = auth.users.list().items, auth.groups.list().items
        if not users:
            assert not any(self.works(auth, event) for event in self.equipped())
            return False
        born = self.creation(users[0].unique_id)
        if born is None:
            return False
        for event in self.equipped():
            if event.end < born.start:
                assert not self.works(auth, event), "a key outlived its user"
            if event.start > born.end:
                assert self.works(auth, event), "a key was lost"
        founded = self.creation(groups[0].unique_id) if groups else None
        if founded is None:
            return False
        return self.check_membership(auth, born, founded)

    def check_membership(self, auth: AuthService, born: Event, founded: Event) -> bool:
        member = bool(auth.memberships.targets_of("ann").items)
        assert member == bool(auth.memberships.sources_of("g").items)
        adds = [event for event in self.events if event.what == "add"]
        removes = [event for event in self.events if event.what == "remove"]
        settled = max(born.end, founded.end)
        sure = any(
            add.known and add.start > settled and all(gone.end < add.start for gone in removes)
            for add in adds
        )
        if sure:
            assert member, "a membership was lost"
        possible = any(add.end > max(born.start, founded.start) for add in adds)
        if not possible:
            assert not member, "a membership was inherited"
        return sure or not possible

    def equipped(self) -> list[Event]:
        return [event for event in self.events if event.credential is not None]

    def works(self, auth: AuthService, event: Event) -> bool:
        assert event.credential is not None
        pair = event.credential.access_key_id, event.credential.secret_access_key
        try:
            return auth.authenticate(*pair).user_id == UserID("ann")
        except AuthenticationFailed:
            return False


def people_hold(seed: int, open_service: Open = open_right) -> bool:
    """Nothing acknowledged is lost, nothing is inherited from who had the name before."""
    simulation = Simulation(seed, BUSY if seed % 2 else BUSY_AND_FAULTY)
    shared = SimulatedStore(simulation, MemoryStore(ThreadRuntime()))
    people = People(simulation)
    for name in ("one", "two", "three"):
        actor = simulation.actor(name)
        auth = open_service(shared.handle(actor), actor.runtime)
        actor.start(partial(people.act, auth, actor))
    simulation.run()
    return people.check(open_service(shared.inner, ThreadRuntime()))


SCENARIOS = {"setup": setup_holds, "people": people_hold}
