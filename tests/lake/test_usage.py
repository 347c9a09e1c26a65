from datetime import UTC, datetime

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import OutcomeUnknown, Store, StoreUnavailable, open_store
from lakebed.lake.usage import FLUSH_SECONDS, MonthlyUsage, Usage


class Clock(ThreadRuntime):
    """Real, but for the time."""

    def __init__(self) -> None:
        self.seconds = datetime(2026, 11, 30, 23, 59, tzinfo=UTC).timestamp()

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return open_store("memory://", runtime=clock)


def count(usage: Usage, times: int) -> None:
    for _ in range(times):
        usage.count()


def test_processes_add_to_the_record_of_the_month(store: Store, clock: Clock) -> None:
    first, second = Usage(store, clock), Usage(store, clock)
    count(first, 3)
    count(second, 4)
    assert first.report() == [MonthlyUsage(2026, 11, 3)], "the other did not store yet"
    clock.seconds += FLUSH_SECONDS
    count(second, 1)
    assert first.report() == [MonthlyUsage(2026, 11, 3), MonthlyUsage(2026, 12, 5)]
    assert Usage(store, clock).report() == first.report(), "it outlives the process"


@pytest.mark.parametrize(
    ("error", "kept"), [(StoreUnavailable("gone"), 1), (OutcomeUnknown("who knows"), 0)]
)
def test_a_store_that_fails_fails_no_request(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, error: OutcomeUnknown, kept: int
) -> None:
    usage = Usage(store, clock)

    def fail(*_: object) -> None:
        raise error

    clock.seconds += FLUSH_SECONDS
    with monkeypatch.context() as broken:
        broken.setattr(store, "set", fail)
        count(usage, 1)
    count(usage, 1)
    assert sum(each.count for each in usage.report()) == 1 + kept
