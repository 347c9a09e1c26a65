"""An operation that may have changed something never reports that nothing changed.

One write is applied, its reply is lost, and the store is unreachable from then on. Or the store is
unreachable from some call on. In each case, an operation with visible effects must not raise
`StoreUnavailable`.
"""

from collections.abc import Callable
from typing import TypeVar

import pytest

from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import Stale
from lakebed.engine.model import BranchID, TagID
from lakebed.engine.staging.writer import if_absent
from lakebed.kv import (
    KVError,
    OutcomeUnknown,
    StoreFull,
    StoreLocked,
    StoreUnavailable,
    StoreUnreachable,
    open_store,
)
from lakebed.testing.faults import FaultyStore, Interceptor, StoreCall
from tests.engine.commit_kit import CommitKit, commit, head, put, shown
from tests.engine.histories import REPOSITORY
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation.world import DEV, MAIN, entry

ResultT = TypeVar("ResultT")


class GrowsStale:
    """Returns True when called before the write, and False after it."""

    def __init__(self) -> None:
        self.is_recent = True

    def __call__(self) -> bool:
        was_fresh, self.is_recent = self.is_recent, False
        return was_fresh


def has_branch(engine: Engine) -> bool:
    return engine.branches.get(REPOSITORY, MAIN).id == MAIN


OPERATIONS: dict[str, Callable[[Engine], object]] = {
    "commit": commit,
    "put": lambda engine: put(engine, b"a", "w2"),
    "put if absent": lambda engine: staging.put(
        engine, REPOSITORY.id, MAIN, entry(b"new", "w3"), condition=if_absent
    ),
    "put fresh": lambda engine: staging.put(
        engine, REPOSITORY.id, MAIN, entry(b"a", "w2"), is_recent=lambda: True
    ),
    "put that asks the store whether it is fresh": lambda engine: staging.put(
        engine, REPOSITORY.id, MAIN, entry(b"a", "w2"), is_recent=lambda: has_branch(engine)
    ),
    "put that grows stale": lambda engine: staging.put(
        engine, REPOSITORY.id, MAIN, entry(b"a", "w2"), is_recent=GrowsStale()
    ),
    "delete": lambda engine: staging.delete(engine, REPOSITORY.id, MAIN, b"a"),
    "reset": lambda engine: engine.resetter.reset(REPOSITORY, MAIN),
    "reset key": lambda engine: engine.resetter.reset_key(REPOSITORY, MAIN, b"a"),
    "reset prefix": lambda engine: engine.resetter.reset_prefix(REPOSITORY, MAIN, b""),
    "hard reset": lambda engine: engine.resetter.hard_reset(REPOSITORY, DEV, head(engine)),
    "merge": lambda engine: engine.merger.merge(
        REPOSITORY, DEV, head(engine), MergeRequest(committer="ann", message="m")
    ),
    "create branch": lambda engine: engine.branches.create(
        REPOSITORY, BranchID("new"), head(engine).id
    ),
    "delete if": lambda engine: staging.delete(
        engine, REPOSITORY.id, MAIN, b"a", condition=lambda found: found is not None
    ),
    "commit what is there": lambda engine: engine.merger.commit_metarange(
        REPOSITORY, DEV, head(engine).metarange_id, CommitRequest(committer="ann", message="m")
    ),
    "cherry-pick": lambda engine: engine.merger.cherry_pick(
        REPOSITORY, DEV, head(engine), CommitRequest(committer="ann", message="m")
    ),
    "create branch from ref": lambda engine: engine.refs.create_branch(
        REPOSITORY.id, "new", "main"
    ),
    "create tag of ref": lambda engine: engine.refs.create_tag(REPOSITORY.id, "new", "main"),
    "delete branch and ask hooks": lambda engine: engine.refs.delete_branch(REPOSITORY.id, DEV),
    "delete branch": lambda engine: engine.branches.delete(REPOSITORY, DEV),
    "create tag": lambda engine: engine.tags.create(REPOSITORY, TagID("new"), head(engine).id),
}


class LosesOneReplyAndAllThatFollow:
    def __init__(self, number: int) -> None:
        self.left = number
        self.is_away = False

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if self.is_away:
            raise StoreUnreachable("away")
        result = apply()
        self.left -= call.writes
        if call.writes and self.left == 0:
            self.is_away = True
            raise OutcomeUnknown("the reply was lost")
        return result


def visible(engine: Engine) -> tuple[object, ...]:
    return (
        [(branch.id, branch.commit_id) for branch in engine.branches.list(REPOSITORY)],
        [(tag.id, tag.commit_id) for tag in engine.tags.list(REPOSITORY)],
        shown(engine, b"a"),
        shown(engine, b"new"),
    )


def try_with(network: Interceptor, name: str) -> tuple[KVError | None, bool]:
    """Return the error, and whether an effect can be seen; a refusal is no error, and has none."""
    lake = CommitKit()
    plain = lake.engine()
    put(plain, b"first", "w0")
    commit(plain)
    put(plain, b"a", "w1")
    before = visible(plain)
    raised: KVError | None = None
    try:
        OPERATIONS[name](lake.engine(store=FaultyStore(lake.store, network)))
    except KVError as error:
        raised = error
    except Stale:
        assert visible(lake.engine()) == before
    return raised, visible(lake.engine()) != before


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_unknown_outcome_is_not_reported_as_failed(name: str) -> None:
    effects = 0
    for number in range(1, 20):
        network = LosesOneReplyAndAllThatFollow(number)
        error, has_effect = try_with(network, name)
        if not network.is_away:
            assert effects
            return
        if has_effect and error is not None:
            effects += 1
            assert isinstance(error, OutcomeUnknown)
            assert not isinstance(error, StoreUnavailable), f"write {number}: {error}"
    pytest.fail("an operation has fewer than 20 writes")


class GoesAway:
    """Answers some calls; from then on, the store is unreachable."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.was_missed = False

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if self.left == 0:
            self.was_missed = True
            raise StoreUnreachable("away")
        self.left -= 1
        return apply()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_store_that_goes_away_does_not_undo_what_happened(name: str) -> None:
    for calls in range(100):
        network = GoesAway(calls)
        error, has_effect = try_with(network, name)
        if not network.was_missed:
            return
        if has_effect and error is not None:
            assert not isinstance(error, StoreUnavailable), f"after {calls} calls: {error}"
    pytest.fail("an operation makes fewer than 100 calls")


class TakesSomeWrites:
    def __init__(self, number: int, error: type[StoreUnavailable]) -> None:
        self.left = number
        self.error = error
        self.refused: list[bytes] = []

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.writes and self.left == 0:
            self.refused.append(call.key)
            raise self.error("/var/lib/lakebed.db")
        self.left -= call.writes
        return apply()


@pytest.mark.parametrize("kind", [StoreFull, StoreLocked])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_store_that_takes_no_more_writes_is_not_asked_again_and_again(
    name: str, kind: type[StoreUnavailable]
) -> None:
    """The caller gets the reason soon, although each call to the store may take seconds."""
    for number in range(20):
        network = TakesSomeWrites(number, kind)
        error, has_effect = try_with(network, name)
        if not network.refused:
            assert error is None
            return
        # Two records may be written side by side.
        assert len(network.refused) <= 2
        assert len(set(network.refused)) == len(network.refused), "a write was tried again"
        assert isinstance(error, OutcomeUnknown)
        assert kind.reason in (error.public_message or "")
        assert not (has_effect and isinstance(error, StoreUnavailable))
    pytest.fail("an operation has fewer than 20 writes")


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_commit_outlives_the_lost_reply_to_its_record(is_applied: bool) -> None:
    lake = CommitKit()
    put(lake.engine(), b"a", "w1")
    lost: list[StoreCall] = []

    def lose_first(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation != "write" or lost:
            return apply()
        lost.append(call)
        if is_applied:
            apply()
        raise OutcomeUnknown("the reply was lost")

    made = commit(lake.engine(store=FaultyStore(lake.store, lose_first))).commit
    assert lost
    other = lake.engine()
    assert head(other) == made
    assert lake.contents(made) == {b"a": "w1"}
    assert len(list(other.commits.list(REPOSITORY))) == 2  # with the first of all


def test_a_reset_that_was_applied_and_overtaken_is_not_denied() -> None:
    """Its reply is lost, somebody moves the branch back, and the store takes no more writes."""
    lake = CommitKit()
    plain = lake.engine()
    before = plain.commits.get(REPOSITORY, plain.branches.get(REPOSITORY, DEV).commit_id)
    put(plain, b"first", "w0")
    target = commit(plain).commit
    is_locked = False

    def network(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        nonlocal is_locked
        if call.writes and is_locked:
            raise StoreLocked("/var/lib/lakebed.db")
        result = apply()
        if call.writes and plain.branches.get(REPOSITORY, DEV).commit_id == target.id:
            plain.resetter.hard_reset(REPOSITORY, DEV, before)
            is_locked = True
            raise OutcomeUnknown("the reply was lost")
        return result

    engine = lake.engine(store=FaultyStore(lake.store, network))
    with pytest.raises(OutcomeUnknown) as caught:
        engine.resetter.hard_reset(REPOSITORY, DEV, target)
    assert is_locked
    assert not isinstance(caught.value, StoreUnavailable)
    assert StoreLocked.reason in (caught.value.public_message or "")


@pytest.mark.parametrize("kind", [StoreFull, StoreLocked])
def test_a_repository_is_not_tried_to_be_made_again_and_again(
    kind: type[StoreUnavailable],
) -> None:
    for number in range(20):
        network = TakesSomeWrites(number, kind)
        store = FaultyStore(open_store("memory://"), network)
        engine = new_engine(store)
        try:
            engine.repositories.create("lake", Namespace.parse("mem://lake/x"), committer="")
        except OutcomeUnknown:
            assert len(network.refused) == 1
        else:
            return
    pytest.fail("fewer than 20 writes make a repository")
