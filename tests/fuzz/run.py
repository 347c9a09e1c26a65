"""Fuzzing for a while: `make fuzz SECONDS=3600`, or ``python -m tests.fuzz.run --seconds 60 …``.

The time is shared among the targets, in rounds. Each round has a seed of its own, so every run
tries other inputs. What fails is printed with the smallest input that was found, ready to be pasted
into a test.
"""

import argparse
import faulthandler
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz import wire
from tests.fuzz.all_targets import TARGETS
from tests.fuzz.target import Target

ROUND_SECONDS: Final = 10.0
"""How long a target is tried before it is the turn of the next."""
EXAMPLES: Final = 50
HANGS_SECONDS: Final = 300.0
_SETTINGS: Final = settings(
    database=None,
    deadline=None,
    derandomize=False,
    max_examples=EXAMPLES,
    phases=[Phase.generate],
    print_blob=False,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
_SHRINKING: Final = settings(_SETTINGS, phases=[Phase.generate, Phase.shrink])
SHRUNK_LENGTH_MAX: Final = 2000
"""Longer inputs are shown as they are: to find smaller ones would take minutes."""


class Failure(NamedTuple):
    """What failed, and where."""

    place: str
    shown: str
    """The input."""
    traceback: str


class Fuzzing:
    """Some targets, and what was found so far."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self._tried: Counter[str] = Counter()
        self._found: set[str] = set()
        """The places of failures."""

    def run(self, seconds: float) -> bool:
        """Try all targets in turn until the time is over; return whether nothing was found."""
        begun = time.monotonic()
        with suppress(KeyboardInterrupt):
            self._try_in_turn(seconds)
        self._report(time.monotonic() - begun)
        return not self._found

    def _try_in_turn(self, seconds: float) -> None:
        """Try all targets in rounds; each gets a turn, even if the ones before took too long."""
        until = time.monotonic() + seconds
        turn = min(ROUND_SECONDS, seconds / len(self._targets))
        while time.monotonic() < until:
            for target in self._targets:
                if time.monotonic() >= until and self._tried[target.name]:
                    return
                turn_ends = time.monotonic() + turn
                self._try_some(target)
                while time.monotonic() < min(until, turn_ends):
                    self._try_some(target)

    def _try_some(self, target: Target) -> None:
        chosen = random.getrandbits(64)
        failure = self._failure(target, chosen, _SETTINGS)
        if failure is None:
            return
        if len(failure.shown) <= SHRUNK_LENGTH_MAX:
            failure = self._failure(target, chosen, _SHRINKING) or failure
        if failure.place not in self._found:
            self._found.add(failure.place)
            print(f"\nFOUND {failure.place}\ninput: {failure.shown[:5000]}")
            print(failure.traceback[-5000:], flush=True)

    def _failure(self, target: Target, chosen: int, how: settings) -> Failure | None:
        """Try some inputs; return what failed, if anything did."""
        failed: list[Any] = []

        def check(value: Any) -> None:
            self._tried[target.name] += 1
            faulthandler.dump_traceback_later(HANGS_SECONDS, exit=True)
            try:
                target.try_one(value)
            except BaseException:
                failed[:] = [value]
                raise
            finally:
                faulthandler.cancel_dump_traceback_later()

        try:
            seed(chosen)(how(given(target.inputs)(check)))()
        except Exception as error:  # noqa: BLE001 - any error is a finding
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return Failure(
                place=f"{type(error).__name__} at {frame.filename}:{frame.lineno} by {target.name}",
                shown=repr(failed[0]) if failed else "none: the target itself is wrong",
                traceback="".join(traceback.format_exception(error)),
            )
        return None

    def _report(self, seconds: float) -> None:
        spent = f"{seconds:.0f} seconds, {time.process_time():.0f} of the processor"
        print(f"\n{len(self._targets)} targets, {spent}")
        for target in self._targets:
            print(f"{self._tried[target.name]:>10,}  {target.name}")
        print(f"{self._tried.total():>10,}  inputs in all")
        for place in sorted(self._found):
            print(f"FOUND {place}")
        print("nothing was found" if not self._found else f"{len(self._found)} findings")


def main() -> int:
    """Run as the command line says; the exit code is 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("names", nargs="*", help="targets; all of them if none is named")
    options = parser.parse_args()
    known = {target.name: target for target in [*TARGETS, *wire.targets.all]}
    unknown = [name for name in options.names if name not in known]
    if unknown:
        print(f"there is no target {unknown[0]}: use {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in options.names or known]
    return 0 if Fuzzing(chosen).run(options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
