"""Entry point of the process: set resource limits, run one script, report its result."""

import math
import os
import resource
import signal

from lakebed.lake.hooks.lua_child.messages import End, Pipe, Start
from lakebed.lake.hooks.lua_child.sandbox import run_script

_SPARE_MIB = 768
"""Memory of the interpreter and its libraries, beyond the script's values."""
_SPARE_SECONDS = 2


def main() -> None:
    """Run the script sent by the server."""
    pipe = Pipe.take_standard_streams()
    start = pipe.receive(Start)
    _limit(start)
    try:
        error = run_script(start, pipe)
    except MemoryError:
        error = "the script exceeds its memory limit (hooks.lua.memory_mib)"
    except Exception as problem:  # noqa: BLE001 - report bugs as errors, not as a dead process
        error = f"the script's process failed: {type(problem).__name__}: {problem}"
    pipe.send(End(error))


def _limit(start: Start) -> None:
    seconds = math.ceil(start.seconds) + _SPARE_SECONDS
    limits = {
        resource.RLIMIT_AS: (start.memory_mib + _SPARE_MIB) << 20,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_NPROC: 0,
    }
    for what, limit in limits.items():
        _, hard = resource.getrlimit(what)
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(what, (least, least))
    # The server kills this process at the deadline. If the server dies, the alarm does.
    signal.alarm(seconds)


if __name__ == "__main__":
    main()
    os._exit(0)  # skip cleanup: nothing needs it
