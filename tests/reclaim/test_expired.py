"""A run goes by the state of the one before only if no commits have expired since."""

from lakebed.reclaim.collector.rules import State, may_optimize


def state(expired_ids: tuple[str, ...]) -> State:
    return State(
        repository_uids=frozenset({"a"}),
        began_us=1,
        closed_before_us=0,
        commits=frozenset(),
        objects={},
        expired_ids=expired_ids,
    )


def test_a_run_after_commits_have_expired_is_clean() -> None:
    for before, now, optimized in [
        ((), (), True),
        (("x",), ("x",), True),
        ((), ("x",), False),
        (("x",), ("x", "y"), False),
        (("x",), ("z",), False),
    ]:
        found = may_optimize(state(before), began_us=2, repository_uids=["a"], expired_ids=now)
        assert found is optimized
