"""Conditional writes at their critical points: propose, check, confirm.

Each test stops a writer before or after one of its calls to the store, and runs other writers
there, or loses the reply, or lets the writer die.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pytest

from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import (
    BranchNotFound,
    PreconditionFailed,
    Protected,
    ReadOnly,
    Stale,
    TooManyTries,
)
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.reading import Reading
from lakebed.engine.staging.cells import has_proposal, value_of, version_of
from lakebed.engine.staging.writer import Condition, UndoLog, if_absent
from lakebed.formats import Entry
from lakebed.kv import Item, OutcomeUnknown, StoreUnavailable
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.engine.commit_kit import CommitKit, commit, head, put, shown
from tests.engine.histories import REPOSITORY
from tests.kit import staging
from tests.simulation import engine_mutants as mutants
from tests.simulation.world import DEV, MAIN, entry

ResultT = TypeVar("ResultT")

_READS_OF_A_PUT = 4
"""The repository; rules and branch; the same with the cells, once the branch was seen; and the read
after the write."""

KEY = STAGED_PREFIX + b"a"
QUERY = EntryQuery()
REQUEST = CommitRequest(committer="", message="")


class Died(BaseException):
    """The process of a writer is gone."""


class Kit(CommitKit):
    """Counts the pauses of writers instead of sleeping, and can run actions there."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self.in_pause: list[Callable[[], object]] = []
        self.runtime.sleep = self._sleep  # type: ignore[method-assign]

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.in_pause:
            self.in_pause.pop(0)()

    def at(self, number: int, *, before: bool, thing: Callable[[], object]) -> Engine:
        """Return an engine that runs an action at its n-th write of the cell."""
        return self.engine(store=FaultyStore(self.store, At(number, thing, before=before)))

    def dying(self) -> Engine:
        """Return an engine whose next conditional write of the key dies before confirming."""
        return self.at(2, before=True, thing=partial(raise_, Died()))

    @property
    def token(self) -> bytes:
        return self.engine().branches.get(REPOSITORY, MAIN).staging_token.encode()

    def cell(self, token: bytes | None = None) -> Item | None:
        return self.store.get_many([(token or self.token, KEY)])[0]


class At:
    """Does something, once, before or after the n-th write of the cell."""

    def __init__(self, number: int, thing: Callable[[], object], *, before: bool) -> None:
        self.left = number
        self.thing = thing
        self.before = before

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        is_it = False
        if call.writes and call.key == KEY:
            self.left -= 1
            is_it = self.left == 0
        if is_it and self.before:
            self.thing()
        result = apply()
        if is_it and not self.before:
            self.thing()
        return result


@pytest.fixture
def lake() -> Kit:
    return Kit()


def create(engine: Engine, name: str, **options: Any) -> None:
    staging.put(engine, REPOSITORY.id, MAIN, entry(b"a", name), condition=if_absent, **options)


def is_now(name: str) -> Condition:
    return lambda found: found is not None and found.address == name


def seal(lake: Kit) -> None:
    """Seal the staging token without a scan."""
    engine = lake.engine()
    engine.publisher.seal(REPOSITORY, engine.branches.get(REPOSITORY, MAIN))


def die(engine: Engine, name: str, condition: Condition) -> None:
    """Let a writer die during its write."""
    with pytest.raises(Died):
        staging.put(engine, REPOSITORY.id, MAIN, entry(b"a", name), condition=condition)


def raise_(error: BaseException) -> None:
    raise error


# Races


def race(lake: Kit) -> list[str]:
    """Two writers create a key in different tokens while the branch moves; return the winner."""
    won: list[str] = []
    moments: list[str] = []
    late: list[Callable[[], object]] = []

    def attempt(name: str, engine: Engine) -> None:
        with suppress(PreconditionFailed):
            create(engine, name)
            won.append(name)

    def into_the_second_token(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation != "set_if" or call.key != KEY or "second" in moments:
            return apply()
        moments.append("second")
        late.pop()()  # now the first one's arrives, in the sealed token
        result = apply()
        seal(lake)
        return result

    def into_the_first_token(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation != "set_if" or call.key != KEY or "first" in moments:
            return apply()
        moments.append("first")
        seal(lake)
        results: list[ResultT] = []
        late.append(lambda: results.append(apply()))
        attempt("second", lake.engine(store=FaultyStore(lake.store, into_the_second_token)))
        return results[0]

    attempt("first", lake.engine(store=FaultyStore(lake.store, into_the_first_token)))
    assert moments == ["first", "second"]
    return won


def test_of_two_creators_in_two_tokens_exactly_one_wins(lake: Kit) -> None:
    won = race(lake)
    assert len(won) == 1
    assert shown(lake.engine(), b"a") == won[0]
    assert lake.contents(commit(lake.engine()).commit)[b"a"] == won[0]


# A single writer


STEPS = {"propose": 1, "confirm": 2}


@pytest.mark.parametrize("is_applied", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_lost_reply_to_a_write_is_settled(lake: Kit, step: str, *, is_applied: bool) -> None:
    lost = partial(raise_, OutcomeUnknown("the reply was lost"))
    store = FaultyStore(lake.store, At(STEPS[step], lost, before=not is_applied))
    create(lake.engine(store=store), "w1")
    assert shown(lake.engine(), b"a") == "w1"
    assert not has_proposal(lake.cell())


def test_a_confirmation_that_cannot_be_settled_is_unknown(lake: Kit) -> None:
    def overwrite_and_lose() -> None:
        put(lake.engine(), b"a", "plain")
        raise OutcomeUnknown("the reply was lost")

    with pytest.raises(OutcomeUnknown) as caught:
        create(lake.at(2, before=False, thing=overwrite_and_lose), "w1")
    assert not isinstance(caught.value, StoreUnavailable)
    assert shown(lake.engine(), b"a") == "plain"


def test_a_lost_confirmation_is_found_below_the_proposal_of_another(lake: Kit) -> None:
    def propose_and_lose() -> None:
        die(lake.dying(), "w2", is_now("w1"))
        raise OutcomeUnknown("the reply was lost")

    create(lake.at(2, before=False, thing=propose_and_lose), "w1")
    assert has_proposal(lake.cell())
    assert shown(lake.engine(), b"a") == "w1"


def test_a_look_without_an_answer_changes_nothing(lake: Kit) -> None:
    away: list[bool] = []

    def network(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if away:
            raise StoreUnavailable("away")
        result = apply()
        if call.writes:
            away.append(True)
        return result

    with pytest.raises(StoreUnavailable):
        create(lake.engine(store=FaultyStore(lake.store, network)), "w1")
    assert shown(lake.engine(), b"a") is None
    create(lake.engine(), "w2")
    assert shown(lake.engine(), b"a") == "w2"


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_writer_that_dies_leaves_nothing_that_is_seen(
    lake: Kit, step: str, *, before: bool
) -> None:
    is_confirmed = step == "confirm" and not before
    put(lake.engine(), b"b", "w0")
    with pytest.raises(Died):
        create(lake.at(STEPS[step], before=before, thing=partial(raise_, Died())), "w1")
    expected = {b"b": "w0", **({b"a": "w1"} if is_confirmed else {})}
    assert shown(lake.engine(), b"a") == expected.get(b"a")
    assert lake.contents(commit(lake.engine()).commit) == expected
    if not is_confirmed:
        create(lake.engine(), "w2")
        assert shown(lake.engine(), b"a") == "w2"


def test_the_first_scan_removes_proposals_of_a_dead_writer(lake: Kit) -> None:
    put(lake.engine(), b"b", "w0")
    die(lake.dying(), "w1", if_absent)
    token = lake.token
    assert has_proposal(lake.cell(token))
    commit(lake.engine())
    assert lake.cell(token) is None


# Others act between two steps


def test_a_branch_that_is_sealed_between_proposal_and_look_begins_it_again(lake: Kit) -> None:
    first = lake.token
    create(lake.at(1, before=False, thing=partial(seal, lake)), "w1")
    assert shown(lake.engine(), b"a") == "w1"
    assert lake.token != first
    assert lake.cell(first) is None
    assert lake.cell() is not None


def merge_and_read(lake: Kit, read: Callable[[Engine], object]) -> list[object]:
    """Let a merge bring the key after the look, under the same token, and let someone read."""
    seen: list[object] = []

    def merge() -> None:
        other = lake.engine()
        staging.put(other, REPOSITORY.id, DEV, entry(b"a", "merged"))
        other.committer.commit(REPOSITORY, DEV, REQUEST)
        source = other.commits.get(REPOSITORY, other.branches.get(REPOSITORY, DEV).commit_id)
        keep = MergeRequest(committer="", message="", keep_staged=True)
        patch.setattr(other.uncommitted, "seal", lambda _repository, branch: branch)
        other.merger.merge(REPOSITORY, MAIN, source, keep)
        seen.append(read(lake.engine()))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(PreconditionFailed):
        create(lake.at(2, before=True, thing=merge), "w1")
    return seen


def test_a_proposal_that_a_read_took_away_is_not_confirmed(lake: Kit) -> None:
    assert merge_and_read(lake, lambda engine: shown(engine, b"a")) == ["merged"]
    assert shown(lake.engine(), b"a") == "merged"


def test_a_proposal_that_a_listing_took_away_is_not_confirmed(lake: Kit) -> None:
    def read(engine: Engine) -> list[str]:
        page = staging.list_entries(engine, REPOSITORY.id, MAIN, QUERY)
        return [item.address for item in page.items if isinstance(item, Entry)]

    assert merge_and_read(lake, read) == [["merged"]]
    assert shown(lake.engine(), b"a") == "merged"


def test_a_proposal_that_a_commit_took_away_is_not_confirmed(lake: Kit) -> None:
    """The write starts again, under the current token."""
    made: list[dict[bytes, str]] = []
    put(lake.engine(), b"b", "w0")
    engine = lake.at(
        2, before=True, thing=lambda: made.append(lake.contents(commit(lake.engine()).commit))
    )
    create(engine, "w1")
    assert made == [{b"b": "w0"}]
    assert shown(lake.engine(), b"a") == "w1"


def test_a_proposal_that_another_writer_took_away_is_not_confirmed(lake: Kit) -> None:
    def seal_and_create() -> None:
        seal(lake)
        create(lake.engine(), "w2")

    with pytest.raises(PreconditionFailed):
        create(lake.at(2, before=True, thing=seal_and_create), "w1")
    assert shown(lake.engine(), b"a") == "w2"


def test_a_write_that_is_confirmed_after_the_branch_was_sealed_is_in_the_commit(lake: Kit) -> None:
    create(lake.at(2, before=True, thing=partial(seal, lake)), "w1")
    assert lake.contents(commit(lake.engine()).commit) == {b"a": "w1"}


def test_a_branch_that_is_deleted_meanwhile_has_nothing_of_it(lake: Kit) -> None:
    def recreate() -> None:
        other = lake.engine()
        first = head(other)
        other.branches.delete(REPOSITORY, MAIN)
        other.branches.create(REPOSITORY, MAIN, first.id)

    create(lake.at(1, before=False, thing=recreate), "w1")  # on the branch of that name
    assert shown(lake.engine(), b"a") == "w1"

    def delete() -> None:
        lake.engine().branches.delete(REPOSITORY, MAIN)

    token = lake.token
    engine = lake.at(1, before=False, thing=delete)
    with pytest.raises(BranchNotFound):
        staging.put(engine, REPOSITORY.id, MAIN, entry(b"a", "w2"), condition=is_now("w1"))
    assert not has_proposal(lake.cell(token))


def protect(lake: Kit) -> None:
    lake.engine().protection.set(REPOSITORY, [MAIN])


def make_read_only(lake: Kit) -> None:
    lake.engine().repositories.set_read_only(REPOSITORY.id, read_only=True)


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize(("forbid", "error"), [(protect, Protected), (make_read_only, ReadOnly)])
def test_a_write_that_is_forbidden_behind_its_proposal_was_never_visible(
    lake: Kit, forbid: Callable[[Kit], None], error: type[Exception], before: str | None
) -> None:
    if before is not None:
        put(lake.engine(), b"a", before)
    engine = lake.at(1, before=False, thing=partial(forbid, lake))
    with pytest.raises(error):
        staging.put(
            engine, REPOSITORY.id, MAIN, entry(b"a", "w1"),
            condition=if_absent if before is None else is_now(before),
        )  # fmt: skip
    assert shown(lake.engine(), b"a") == before
    assert not has_proposal(lake.cell())


@pytest.mark.parametrize("looks", [[False], [True, False]])
def test_a_stale_object_was_never_visible(lake: Kit, looks: list[bool]) -> None:
    seen: list[str | None] = []
    answers = iter(looks)

    def is_recent() -> bool:
        seen.append(shown(lake.engine(), b"a"))
        return next(answers)

    with pytest.raises(Stale):
        create(lake.engine(), "w1", is_recent=is_recent)
    assert seen == [None] * len(looks)
    assert shown(lake.engine(), b"a") is None
    assert lake.cell() is None


def test_a_stale_object_replaces_nothing(lake: Kit) -> None:
    put(lake.engine(), b"a", "old")
    before = lake.cell()
    answers = iter([True, False])
    with pytest.raises(Stale):
        staging.put(
            lake.engine(),
            REPOSITORY.id,
            MAIN,
            entry(b"a", "w1"),
            condition=is_now("old"),
            is_recent=lambda: next(answers),
        )
    after = lake.cell()
    assert before is not None
    assert after is not None
    assert not has_proposal(after)
    assert (value_of(after), version_of(after)) == (value_of(before), version_of(before))


def test_a_conditional_delete_is_judged_as_a_put_is(lake: Kit) -> None:
    engine = lake.engine()
    put(engine, b"a", "old")
    with pytest.raises(PreconditionFailed):
        staging.delete(engine, REPOSITORY.id, MAIN, b"a", condition=is_now("other"))
    assert shown(engine, b"a") == "old"
    commit(engine)
    staging.delete(engine, REPOSITORY.id, MAIN, b"a", condition=is_now("old"))
    assert shown(engine, b"a") is None
    assert b"a" not in lake.contents(commit(engine).commit)


# Two proposals


def test_a_writer_waits_for_the_owner_of_a_proposal(lake: Kit) -> None:
    """The owner has proposed; another comes, and waits; the owner confirms meanwhile."""
    told: list[str] = []

    def meet(confirm: Callable[[], object]) -> None:
        lake.in_pause = [confirm]
        with pytest.raises(PreconditionFailed):
            create(lake.engine(), "w2")
        told.append("refused")

    def owner(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        results: list[ResultT] = []
        if call.writes and call.key == KEY and has_proposal(lake.cell()):
            meet(lambda: results.append(apply()))
            return results[0]
        return apply()

    create(lake.engine(store=FaultyStore(lake.store, owner)), "w1")
    assert told == ["refused"]
    assert shown(lake.engine(), b"a") == "w1"


def test_a_proposal_that_stays_is_replaced(lake: Kit) -> None:
    die(lake.dying(), "w1", if_absent)
    create(lake.engine(), "w2")
    assert len(lake.pauses) == 1
    assert 0.05 <= lake.pauses[0] <= 0.1
    assert shown(lake.engine(), b"a") == "w2"


def test_the_owner_of_a_proposal_that_was_replaced_begins_again(lake: Kit) -> None:
    with pytest.raises(PreconditionFailed):
        create(lake.at(2, before=True, thing=lambda: create(lake.engine(), "w2")), "w1")
    assert shown(lake.engine(), b"a") == "w2"
    assert len(lake.pauses) == 1  # of the other one


def test_a_writer_that_never_comes_first_gives_up_and_was_never_visible(lake: Kit) -> None:
    def seal_first(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        result = apply()
        if call.writes and call.key == KEY:
            lake.engine().publisher.seal(REPOSITORY, lake.engine().branches.get(REPOSITORY, MAIN))
            assert shown(lake.engine(), b"a") is None
        return result

    with pytest.raises(TooManyTries):
        create(lake.engine(store=FaultyStore(lake.store, seal_first)), "w1")
    assert shown(lake.engine(), b"a") is None
    assert len(lake.pauses) > 90  # it went out of the way
    assert max(lake.pauses) < 4


# Beside plain writes


@pytest.mark.parametrize("beside", [None, "old"])
@pytest.mark.parametrize("kind", ["put", "fresh put", "delete", "reset"])
def test_a_plain_write_replaces_a_proposal(lake: Kit, kind: str, beside: str | None) -> None:
    other = lake.engine()
    put(other, b"a", "committed")
    commit(other)
    if beside is not None:
        put(other, b"a", beside)
    writes: dict[str, Callable[[], None]] = {
        "put": lambda: put(other, b"a", "w2"),
        "fresh put": lambda: staging.put(
            other, REPOSITORY.id, MAIN, entry(b"a", "w2"), is_recent=lambda: True
        ),
        "delete": lambda: staging.delete(other, REPOSITORY.id, MAIN, b"a"),
        "reset": lambda: other.resetter.reset_key(REPOSITORY, MAIN, b"a"),
    }
    expected = {"delete": None, "reset": "committed"}.get(kind, "w2")
    condition = is_now(beside or "committed")
    engine = lake.at(2, before=True, thing=writes[kind])
    if kind == "reset" and beside is None:  # there is nothing to reset: the proposal stays
        staging.put(engine, REPOSITORY.id, MAIN, entry(b"a", "w1"), condition=condition)
        expected = "w1"
    else:
        with pytest.raises(PreconditionFailed):
            staging.put(engine, REPOSITORY.id, MAIN, entry(b"a", "w1"), condition=condition)
    assert shown(lake.engine(), b"a") == expected


@pytest.mark.parametrize("takes_away", [False, True])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_put_that_is_taken_back_goes_whatever_was_proposed_beside_it(
    lake: Kit, before: str | None, *, takes_away: bool
) -> None:
    if before is not None:
        put(lake.engine(), b"a", before)
    looks = iter([True, False])

    def is_recent() -> bool:
        fresh = next(looks)
        if not fresh:
            die(lake.dying(), "w2", is_now("w1"))
            assert has_proposal(lake.cell())
            if takes_away:  # a reader that goes by another version of the branch
                token = lake.token
                seal(lake)
                assert shown(lake.engine(), b"a") == "w1"
                assert not has_proposal(lake.cell(token))
        return fresh

    with pytest.raises(Stale):
        staging.put(lake.engine(), REPOSITORY.id, MAIN, entry(b"a", "w1"), is_recent=is_recent)
    assert shown(lake.engine(), b"a") == before
    if not takes_away:
        assert not has_proposal(lake.cell())


def test_a_put_over_a_proposal_that_is_taken_back_does_not_bring_it_back(lake: Kit) -> None:
    put(lake.engine(), b"a", "old")
    die(lake.dying(), "w1", is_now("old"))
    looks = iter([True, False])
    with pytest.raises(Stale):
        staging.put(
            lake.engine(), REPOSITORY.id, MAIN, entry(b"a", "w2"), is_recent=lambda: next(looks)
        )
    assert shown(lake.engine(), b"a") == "old"
    assert not has_proposal(lake.cell())


def test_a_put_is_taken_back_though_a_proposal_comes_in_between(lake: Kit) -> None:
    """Between the look of the undo and its write, another makes a proposal."""
    looks = iter([True, False])

    def propose_beside() -> None:
        die(lake.dying(), "w2", is_now("w1"))

    engine = lake.at(2, before=True, thing=propose_beside)  # the second write is the undo's
    with pytest.raises(Stale):
        staging.put(engine, REPOSITORY.id, MAIN, entry(b"a", "w1"), is_recent=lambda: next(looks))
    assert shown(lake.engine(), b"a") is None
    assert lake.cell() is None


def test_a_put_lets_others_go_first_if_they_always_come_first(lake: Kit) -> None:
    other, left = lake.engine(), 5

    def overtake(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        nonlocal left
        if call.writes and call.key == KEY and left:
            left -= 1
            put(other, b"a", f"w{left}")
        return apply()

    put(lake.engine(store=FaultyStore(lake.store, overtake)), b"a", "last")
    assert shown(lake.engine(), b"a") == "last"
    assert len(lake.pauses) == 2
    assert lake.pauses[0] < lake.pauses[1]


def covered(lake: Kit, *meanwhile: Callable[[Reading], object]) -> Engine:
    """Return an engine that is overtaken right after its next write of the key.

    Another writer then reads the branch; a rule that forbids both writes is set; and `meanwhile`
    runs, given the other writer's reading.
    """

    def overtake() -> None:
        other = lake.engine()
        other.branches.get(REPOSITORY, MAIN)  # it has seen the branch: it reads all in one call
        other.readings.to_write(REPOSITORY.id, MAIN)
        known = other.readings.to_write(REPOSITORY.id, MAIN, b"a")
        assert known.cells is not None
        other.protection.set(REPOSITORY, [MAIN])
        for thing in meanwhile:
            thing(known)

    return lake.at(1, before=False, thing=overtake)


def test_a_put_that_a_refused_one_has_covered_was_made_in_time(lake: Kit) -> None:
    """Its writer cannot undo it: the other, unaware of that, restores it."""
    put(lake.engine(), b"a", "old")

    def cover(known: Reading) -> None:
        with pytest.raises(Protected):
            lake.engine().writer.put(known, entry(b"a", "w2"))

    staging.put(covered(lake, cover), REPOSITORY.id, MAIN, entry(b"a", "w1"))
    assert shown(lake.engine(), b"a") == "w1"


def test_a_put_is_covered_until_the_other_is_taken_back(lake: Kit) -> None:
    put(lake.engine(), b"a", "old")
    other = UndoLog(lake.store, lake.runtime, entry(b"a", "w2"))
    token = lake.engine().branches.get(REPOSITORY, MAIN).staging_token

    def cover(_known: Reading) -> None:
        cell = other.find(token)
        assert cell is not None
        value, version = other.prepare(token, cell)
        lake.store.set(token.encode(), KEY, value, cell.predicate, version=version)

    staging.put(covered(lake, cover), REPOSITORY.id, MAIN, entry(b"a", "w1"))
    assert other.undo() == set()
    assert shown(lake.engine(), b"a") == "w1"


def test_a_forbidden_put_is_taken_back_if_no_other_covers_it(lake: Kit) -> None:
    put(lake.engine(), b"a", "old")
    with pytest.raises(Protected):
        staging.put(covered(lake), REPOSITORY.id, MAIN, entry(b"a", "w1"))
    assert shown(lake.engine(), b"a") == "old"


def test_a_forbidden_put_that_was_deleted_meanwhile_is_refused(lake: Kit) -> None:
    """A removal does not read the key, and proves nothing."""

    def delete(known: Reading) -> None:
        lake.engine().writer.delete(known, b"a")

    with pytest.raises(Protected):
        staging.put(covered(lake, delete), REPOSITORY.id, MAIN, entry(b"a", "w1"))
    assert shown(lake.engine(), b"a") is None


def test_a_forbidden_put_into_a_sealed_token_is_refused_though_it_is_covered(lake: Kit) -> None:
    """The committer may have read the token before."""

    def cover(known: Reading) -> None:
        seal(lake)
        with pytest.raises(Protected):
            lake.engine().writer.put(known, entry(b"a", "w2"))

    with pytest.raises(Protected):
        staging.put(covered(lake, cover), REPOSITORY.id, MAIN, entry(b"a", "w1"))


def test_a_put_that_is_refused_when_it_begins_again_is_taken_back(lake: Kit) -> None:
    put(lake.engine(), b"a", "old")
    reads: list[bytes] = []

    def forbid(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        """Seal the token after the write; set a rule once the writer has seen the seal."""
        if call.operation == "get_many":
            reads.append(call.key)
            if len(reads) == _READS_OF_A_PUT + 1:
                lake.engine().protection.set(REPOSITORY, [MAIN])
        result = apply()
        if call.writes and call.key == KEY and len(reads) < _READS_OF_A_PUT + 1:
            seal(lake)
        return result

    with pytest.raises(Protected):
        staging.put(
            lake.engine(store=FaultyStore(lake.store, forbid)),
            *(REPOSITORY.id, MAIN, entry(b"a", "w1")),
        )
    assert len(reads) > _READS_OF_A_PUT
    assert shown(lake.engine(), b"a") == "old"


# Mutants: each test fails with its rule broken


taken_back = test_a_put_that_is_taken_back_goes_whatever_was_proposed_beside_it
dead = test_a_writer_that_dies_leaves_nothing_that_is_seen

CAUGHT: list[tuple[mutants.Plant, Callable[[Kit], None]]] = [
    (mutants.write_before_looking, test_of_two_creators_in_two_tokens_exactly_one_wins),
    (mutants.scans_pass_over, test_a_proposal_that_a_commit_took_away_is_not_confirmed),
    (mutants.readers_pass_over, test_a_proposal_that_a_read_took_away_is_not_confirmed),
    (mutants.readers_pass_over, test_a_proposal_that_a_listing_took_away_is_not_confirmed),
    (mutants.writers_pass_over, test_a_proposal_that_another_writer_took_away_is_not_confirmed),
    (mutants.others_confirm, test_a_proposal_that_stays_is_replaced),
    (
        mutants.refuse_after_a_lost_confirmation,
        partial(
            test_a_lost_reply_to_a_write_is_settled,
            step="confirm",
            is_applied=True,
        ),
    ),
    (mutants.show_proposals, partial(dead, step="confirm", before=True)),
    (mutants.publish_proposals, partial(dead, step="confirm", before=True)),
    (mutants.recognise_cells_by_their_version, partial(taken_back, before="old", takes_away=False)),
    (mutants.take_away_under_a_new_version, partial(taken_back, before="old", takes_away=True)),
]


@pytest.mark.parametrize(("plant", "scenario"), CAUGHT)
def test_a_broken_rule_is_found_out(
    plant: mutants.Plant, scenario: Callable[[Kit], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario(Kit())  # passes without a mutant
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, PreconditionFailed)):
        scenario(Kit())
