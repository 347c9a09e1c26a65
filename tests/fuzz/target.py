"""What a fuzzing target is: inputs, and what must hold for each of them.

A target reads an input as the server would. It may refuse it with the error that becomes an answer
of 4xx. Anything else that escapes is a finding, and so is an input that takes too long.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypeVar

from hypothesis.strategies import SearchStrategy

SECONDS_MAX: Final = 1.0
"""What one input may cost, in time of the processor. Inputs have up to 64 KiB."""

P = ParamSpec("P")
T = TypeVar("T")
InputT = TypeVar("InputT")

Refusals = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A parser, and what it is fed with."""

    name: str
    inputs: SearchStrategy[Any]
    check: Callable[[Any], None]
    """Raises if something does not hold for an input."""

    def try_one(self, value: object) -> None:
        """Check one input, and that it does not take too long."""
        if self._cost(value) > SECONDS_MAX:
            # What happens once only, like an import, is not the fault of the input.
            cost = self._cost(value)
            assert cost <= SECONDS_MAX, f"the input took {cost:.1f} seconds of the processor"

    def _cost(self, value: object) -> float:
        begun = time.process_time()
        self.check(value)
        return time.process_time() - begun


def attempt(
    refusals: Refusals, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Return what is read, or None if it is refused as it should be."""
    try:
        return read(*args, **kwargs)
    except refusals:
        return None


class Targets:
    """The targets of one file, collected by a decorator."""

    def __init__(self) -> None:
        self.all: list[Target] = []

    def add(
        self, inputs: SearchStrategy[InputT]
    ) -> Callable[[Callable[[InputT], None]], Callable[[InputT], None]]:
        """Make a function the check of a target, which gets the function's name."""

        def register(check: Callable[[InputT], None]) -> Callable[[InputT], None]:
            self.all.append(Target(check.__name__, inputs, check))
            return check

        return register
