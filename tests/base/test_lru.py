import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.lru import LRU
from lakebed.base.runtime import ThreadRuntime

RUNTIME = ThreadRuntime()


def test_the_value_used_least_recently_goes_first() -> None:
    lru: LRU[str, int] = LRU(RUNTIME, cost_max=2)
    lru.put("a", 1)
    lru.put("b", 2)
    assert lru.get("a") == 1
    lru.put("c", 3)
    assert [lru.get(key) for key in "abc"] == [1, None, 3]


def test_a_value_that_exceeds_the_bound_alone_is_not_held() -> None:
    lru: LRU[str, int] = LRU(RUNTIME, cost_max=10)
    lru.put("a", 1, cost=4)
    lru.put("b", 2, cost=11)
    assert (lru.get("a"), lru.get("b"), lru.cost) == (1, None, 4)


def test_a_new_value_that_is_too_large_does_not_leave_the_old_one() -> None:
    lru: LRU[str, int] = LRU(RUNTIME, cost_max=10)
    lru.put("a", 1)
    lru.put("a", 2, cost=11)
    assert lru.get("a") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"), st.sampled_from(["put", "get", "pop"]), st.integers(0, 7)
        )
    )
)
def test_the_bound_holds_and_the_costs_add_up(steps: list[tuple[str, str, int]]) -> None:
    lru: LRU[str, int] = LRU(RUNTIME, cost_max=6)
    costs: dict[str, int] = {}  # in order of use
    for key, step, cost in steps:
        if step == "put":
            lru.put(key, cost, cost=cost)
            costs.pop(key, None)
            if cost <= 6:
                costs[key] = cost
            while sum(costs.values()) > 6:
                del costs[next(iter(costs))]
        elif step == "pop":
            assert lru.pop(key) == costs.pop(key, None)
        else:
            assert lru.get(key) == costs.get(key)
            if key in costs:
                costs[key] = costs.pop(key)
        assert (lru.cost, len(lru)) == (sum(costs.values()), len(costs))
        assert lru.cost <= 6


@pytest.mark.parametrize("cost_max", [0, 1])
def test_tiny_bounds(cost_max: int) -> None:
    lru: LRU[str, int] = LRU(RUNTIME, cost_max=cost_max)
    lru.put("a", 1)
    assert lru.get("a") == (1 if cost_max else None)
