"""How often tests repeat what chance decides: seldom in a fast run, often in a long one."""

import os
from collections.abc import Callable
from typing import Final, TypeVar

_LONG: Final = bool(os.environ.get("LAKEBED_TEST_LONG"))
_FAST: Final = bool(os.environ.get("LAKEBED_TEST_FAST"))

T = TypeVar("T")


def rounds(usual: T, *, long: T, fast: T | None = None) -> T:
    """Return what fits this run; without `fast`, a fast run is as long as the usual one."""
    if _LONG:
        return long
    return fast if _FAST and fast is not None else usual


def stores(first: T, *others: T) -> list[T]:
    """Return the stores that tests of the layers above run on: one of them in a fast run.

    A fast run still has the stores' own tests, each on its own.
    """
    return [first] if _FAST else [first, *others]


def fails_within(scenario: Callable[[int], None], *, seeds: int) -> bool:
    """Whether a scenario that is wrong on purpose fails for one of so many seeds."""
    for seed in range(seeds):
        try:
            scenario(seed)
        except AssertionError:
            return True
    return False
