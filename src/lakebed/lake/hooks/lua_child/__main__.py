"""The process: take limits upon itself, run one script, say how it ended."""

import math
import os
import resource
import signal

from lakebed.lake.hooks.lua_child.messages import End, Start
from lakebed.lake.hooks.lua_child.pipe import Pipe
from lakebed.lake.hooks.lua_child.sandbox import run_script

_SPARE_MIB = 768
"""What the interpreter and its libraries take beside the values of a script."""
_SPARE_SECONDS = 2


def main() -> None:
    """Run the script that the server sends."""
    pipe = Pipe.take_standard_streams()
    start = pipe.receive(Start)
    _limit(start)
    try:
        error = run_script(start, pipe)
    except MemoryError:
        error = "the script needs more memory than it may have (hooks.lua.memory_mib)"
    except Exception as problem:  # noqa: BLE001 - a fault of ours must not look like a death
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
    # The server kills this process at the deadline. Should the server die, this ends it.
    signal.alarm(seconds)


if __name__ == "__main__":
    main()
    os._exit(0)  # at once: nothing here needs to be put away
