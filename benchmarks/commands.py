"""How long commands take to start, as ratios to Python with httpx.

Processor time is measured, the least of some runs: it depends less on what else the machine does.
A client cannot do without an HTTP library, so importing one is the floor.
"""

import os
import resource
import subprocess
import sys
import tempfile
from typing import Final

_RUNS: Final = 10
_COMMAND: Final = [sys.executable, "-m", "lakebed"]
_SECONDS_MAX: Final = 0.4
_COMMANDS: Final = {
    "lakebed --version": ["--version"],
    "lakebed --help": ["--help"],
    # No server listens there: the answer is that it cannot be reached.
    "lakebed repo list": ["repo", "list", "--endpoint", "http://127.0.0.1:1"],
}


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the least processor time that a command took."""
    taken = []
    for _ in range(_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def main() -> int:
    """Print the times; return 1 if a command takes too long."""
    with tempfile.TemporaryDirectory() as home:
        environment = {
            "HOME": home,
            "PATH": os.environ["PATH"],
            "LAKEBED_ACCESS_KEY_ID": "key",
            "LAKEBED_SECRET_ACCESS_KEY": "secret",
        }
        floor = cpu_seconds([sys.executable, "-c", "import httpx"], environment)
        print(f"{'python -c import httpx':<24} {floor:.3f} s")
        slow = 0
        for name, arguments in _COMMANDS.items():
            seconds = cpu_seconds([*_COMMAND, *arguments], environment)
            # On a slow machine, the floor is the measure.
            is_slow = seconds > max(_SECONDS_MAX, 1.2 * floor)
            slow += is_slow
            print(f"{name:<24} {seconds:.3f} s  {seconds / floor:.2f}x{'  SLOW' * is_slow}")
    return min(slow, 1)


if __name__ == "__main__":
    sys.exit(main())
