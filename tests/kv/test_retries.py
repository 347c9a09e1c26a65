"""The wrapper that retries, with threads and real faults; its rules are proved by simulation."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from prometheus_client import REGISTRY

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import (
    ABSENT,
    OutcomeUnknown,
    Store,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
    StoreUnreachable,
    Version,
)
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.managed import WRITE_CHUNK, ManagedStore
from lakebed.kv.retries import PATIENCE_SECONDS, RETRY_BURST, UNREACHABLE_SECONDS
from lakebed.kv.store import Item, Put, puts
from lakebed.testing.faults import FaultyStore, Interceptor, StoreCall
from lakebed.testing.simulation.simulator import Simulation

ResultT = TypeVar("ResultT")


class Script:
    """Raises the errors it was given, one a call, then lets calls through; counts them."""

    def __init__(self, *errors: Exception | None, applied: bool = False) -> None:
        self.errors = list(errors)
        self.calls: list[str] = []
        self.applied = applied

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        self.calls.append(call.operation)
        error = self.errors.pop(0) if self.errors else None
        if error is None:
            return apply()
        if self.applied:
            apply()
        raise error


def retrying(script: Interceptor, runtime: Runtime | None = None) -> Store:
    runtime = runtime or ThreadRuntime()
    return ManagedStore(FaultyStore(MemoryStore(runtime), script), runtime)


def test_an_unavailable_store_is_tried_again() -> None:
    script = Script(StoreUnavailable("down"), StoreUnavailable("down"))
    store = retrying(script)
    store.set(b"p", b"k", b"v")
    assert script.calls == ["set", "set", "set"]


def test_a_page_is_tried_again() -> None:
    script = Script(None, StoreUnavailable("injected"))
    store = retrying(script)
    store.set(b"p", b"k", b"v")
    assert [item.value for item in store.scan(b"p")] == [b"v"]
    assert script.calls == ["set", "scan_page", "scan_page"]


def test_a_full_store_is_not_tried_again() -> None:
    script = Script(StoreFull("full"))
    with pytest.raises(StoreFull):
        retrying(script).set(b"p", b"k", b"v")
    assert script.calls == ["set"]


def test_a_lost_reply_is_read_back() -> None:
    script = Script(OutcomeUnknown("lost"), applied=True)
    store = retrying(script)
    version = store.set(b"p", b"k", b"v", ABSENT)
    assert script.calls == ["set_if", "get"]
    assert store.get(b"p", b"k").predicate == version


def test_a_lost_request_is_sent_again_if_the_old_version_is_there() -> None:
    script = Script(None, OutcomeUnknown("lost"))
    store = retrying(script)
    old = store.set(b"p", b"k", b"v")
    new = store.set(b"p", b"k", b"w", old)
    assert script.calls == ["set", "set_if", "get", "set_if"]
    assert store.get(b"p", b"k") == (b"k", b"w", new)


def test_an_outcome_that_cannot_be_told_is_not_guessed() -> None:
    script = Script(OutcomeUnknown("lost"))
    with pytest.raises(OutcomeUnknown):
        retrying(script).set(b"p", b"k", b"v", ABSENT)
    assert script.calls == ["set_if", "get"]


@pytest.mark.parametrize(
    ("error", "patience"),
    [
        (StoreUnavailable("down"), PATIENCE_SECONDS),
        (StoreUnreachable("no way there"), UNREACHABLE_SECONDS),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get(b"p", b"k"),
        lambda store: store.set(b"p", b"k", b"v"),
        lambda store: store.set(b"p", b"k", b"v", ABSENT),
        lambda store: store.delete(b"p", b"k"),
        lambda store: store.delete(b"p", b"k", Version(bytes(16))),
        lambda store: store.write(puts(b"p", [(b"k", b"v")])),
    ],
)
def test_patience_ends(
    call: Callable[[Store], object], error: StoreUnavailable, patience: float
) -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    script = Script(*[error] * 1000)
    waited: list[float] = []

    def body() -> None:
        with pytest.raises(type(error)):
            call(retrying(script, actor.runtime))
        waited.append(actor.runtime.monotonic())

    actor.start(body)
    simulation.run()
    assert patience <= waited[0] < patience + 0.1
    assert 3 < len(script.calls) < 30


@pytest.mark.parametrize("away_seconds", [6.0, 600.0])
def test_a_lost_reply_is_settled_with_patience(away_seconds: float) -> None:
    """Whoever asked for a change had better wait than not know what became of it."""
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    begun: list[float] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        now = actor.runtime.monotonic()
        if not begun:
            begun.append(now)
            apply()
            raise OutcomeUnknown("lost")
        if now - begun[0] < away_seconds:
            raise StoreUnreachable("no way there")
        return apply()

    def body() -> None:
        store = retrying(intercept, actor.runtime)
        if away_seconds < PATIENCE_SECONDS:
            store.set(b"p", b"k", b"v")
            return
        with pytest.raises(OutcomeUnknown) as raised:
            store.set(b"p", b"k", b"v")
        assert not isinstance(raised.value, StoreUnavailable)

    actor.start(body)
    simulation.run()
    assert begun


def test_a_store_out_of_reach_is_not_tried_again_after_a_long_try() -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    tries: list[float] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        tries.append(actor.runtime.monotonic())
        actor.runtime.sleep(UNREACHABLE_SECONDS)
        raise StoreUnreachable("no way there")

    def body() -> None:
        with pytest.raises(StoreUnreachable):
            retrying(intercept, actor.runtime).get(b"p", b"k")

    actor.start(body)
    simulation.run()
    assert len(tries) == 1


def retries(operation: str, reason: str) -> float:
    labels = {"operation": operation, "reason": reason}
    return REGISTRY.get_sample_value("lakebed_kv_retries_total", labels) or 0.0


def test_retries_are_counted_and_what_is_given_up_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = retries("get", "store_unavailable"), retries("set_if", "outcome_unknown")
    store = retrying(Script(None, StoreUnavailable("down"), StoreUnavailable("down")))
    old = store.set(b"p", b"k", b"v")
    store.get(b"p", b"k")
    store = retrying(script := Script(OutcomeUnknown("lost")))
    script.errors.insert(0, None)
    old = store.set(b"p", b"k", b"v")
    store.set(b"p", b"k", b"w", old)
    after = retries("get", "store_unavailable"), retries("set_if", "outcome_unknown")
    assert (after[0] - before[0], after[1] - before[1]) == (2, 1)
    assert caplog.messages == []
    with pytest.raises(StoreFull):
        retrying(Script(StoreFull("no room"))).set(b"p", b"k", b"v")
    assert caplog.messages == ["gave up set after 0.0 s: no room"]


def test_the_outcome_of_a_lost_reply_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    retrying(Script(OutcomeUnknown("lost"), applied=True)).set(b"p", b"k/1", b"v", ABSENT)
    assert caplog.messages == ["set_if of key 'k/1' was applied, but its reply was lost: lost"]
    caplog.clear()
    with pytest.raises(OutcomeUnknown):
        retrying(Script(OutcomeUnknown("lost"))).set(b"p", b"k/1", b"v", ABSENT)
    assert caplog.messages == ["the outcome of set_if of key 'k/1' is unknown: lost"]


@pytest.mark.slow
def test_the_budget_bounds_the_retries_of_everyone_together() -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    script = Script(*[StoreUnavailable("down")] * 100_000)
    store = retrying(script, actor.runtime)
    callers = 2000

    def body() -> None:
        with pytest.raises(StoreUnavailable):
            store.get(b"p", b"k")

    for _ in range(callers):
        actor.start(body)
    simulation.run()
    tries = len(script.calls)
    assert tries < callers + RETRY_BURST + 50 * simulation.seconds + 1
    assert tries > callers


def test_a_delete_whose_reply_was_lost_is_done_if_the_key_is_gone() -> None:
    script = Script(None, OutcomeUnknown("lost"), applied=True)
    store = retrying(script)
    store.set(b"p", b"k", b"v")
    store.delete(b"p", b"k")
    assert script.calls == ["set", "delete", "get"]


def test_a_delete_is_not_repeated_blindly() -> None:
    script = Script(None, OutcomeUnknown("lost"))
    store = retrying(script)
    store.set(b"p", b"k", b"v")
    with pytest.raises(OutcomeUnknown):
        store.delete(b"p", b"k")
    assert script.calls == ["set", "delete", "get"]


def test_many_writes_are_repeated_only_if_nothing_was_applied() -> None:
    script = Script(StoreUnavailable("down"))
    store = retrying(script)
    store.write(puts(b"p", [(b"k", b"v"), (b"l", b"v")]))
    assert script.calls == ["write", "write"]
    script.errors = [OutcomeUnknown("lost")]
    with pytest.raises(OutcomeUnknown):
        store.write(puts(b"p", [(b"k", b"v"), (b"l", b"v")]))
    assert script.calls == ["write"] * 3


def test_many_writes_that_stop_in_the_middle_do_not_claim_that_nothing_happened() -> None:
    script = Script(None, StoreFull("full"))
    store = retrying(script)
    with pytest.raises(OutcomeUnknown) as caught:
        store.write(puts(b"p", ((b"%d" % number, b"v") for number in range(WRITE_CHUNK + 1))))
    assert not isinstance(caught.value, StoreUnavailable)
    assert len(list(store.scan(b"p"))) == WRITE_CHUNK


def test_values_in_several_partitions_are_written_again_if_none_was() -> None:
    script = Script(StoreUnavailable("down"))
    store = retrying(script)
    store.write([Put(b"p", b"k", b"v"), Put(b"q", b"k", b"v")])
    assert script.calls == ["write"] * 2
    assert [len(list(store.scan(partition))) for partition in (b"p", b"q")] == [1, 1]


def test_values_in_several_partitions_are_not_written_again_blindly() -> None:
    script = Script(OutcomeUnknown("lost"))
    store = retrying(script)
    with pytest.raises(OutcomeUnknown, match="lost"):
        store.write([Put(b"p", b"k", b"v"), Put(b"q", b"k", b"v")])
    assert script.calls == ["write"]


def test_a_drop_of_tombstones_is_repeated() -> None:
    script = Script(StoreUnavailable("down"))
    store = retrying(script)
    assert store.drop_tombstones(b"p", b"", 1) is None
    assert script.calls == ["drop_tombstones"] * 2


def test_the_default_bulk_calls_do_not_claim_that_nothing_happened() -> None:
    class OneByOne(MemoryStore):
        def write(
            self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
        ) -> list[Item | None]:
            return Store.write(self, writes, reads)

        def _set(self, put: Put) -> None:
            if put.key == b"2":
                raise StoreUnavailable("down")
            super().write([put])

    store = OneByOne(ThreadRuntime())
    with pytest.raises(OutcomeUnknown) as caught:
        store.write(puts(b"p", [(b"0", b""), (b"1", b""), (b"2", b"")]))
    assert not isinstance(caught.value, StoreUnavailable)
    with pytest.raises(OutcomeUnknown) as caught:
        store.write([Put(b"p", b"0", b""), Put(b"q", b"2", b"")])
    assert not isinstance(caught.value, StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        store.write(puts(b"q", [(b"2", b"")]))
    with pytest.raises(StoreUnavailable):
        store.write([Put(b"q", b"2", b""), Put(b"q", b"0", b"")])


def test_a_store_closed_before_the_read_back_leaves_the_outcome_unknown() -> None:
    store: Store

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        apply()
        store.close()
        raise OutcomeUnknown("lost")

    store = retrying(intercept)
    with pytest.raises(OutcomeUnknown, match="lost"):
        store.set(b"p", b"k", b"v", ABSENT)


def test_a_write_whose_reply_was_lost_is_settled_before_its_keys_are_read() -> None:
    script = Script(OutcomeUnknown("lost"), applied=True)
    store = retrying(script)
    (found,) = store.write([Put(b"p", b"k", b"v", ABSENT)], [(b"p", b"k")])
    assert found is not None
    assert found.value == b"v"
    assert script.calls == ["set_if", "get", "get_many"]


def test_a_write_that_was_applied_is_not_said_to_be_not_if_its_keys_cannot_be_read() -> None:
    def refuse(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation == "get_many":
            raise StoreClosed
        return apply()

    store = retrying(refuse)
    with pytest.raises(OutcomeUnknown) as caught:
        store.write([Put(b"p", b"k", b"v", ABSENT)], [(b"p", b"k")])
    assert not isinstance(caught.value, StoreUnavailable)
    assert store.get(b"p", b"k").value == b"v"
