"""Command hooks: programs configured by the server's operator, chosen by action files.

The program receives the event as JSON on standard input, and as arguments first the operator's,
then the action file's. Of the server's environment it inherits only ``PATH``. Exit status 0 lets
the operation proceed; the program's output is the hook's output.

A shell sets the memory limit and then becomes the program: Python cannot set limits of a child in
a process with threads. The limit covers memory that a process can write (``RLIMIT_DATA``); a limit
of the address space would refuse runtimes that reserve more than they use.
"""

import os
import re
import shutil
from collections.abc import Sequence
from typing import Final

from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import HookContext, to_json
from lakebed.lake.hooks.processes import Child

_LIMITED: Final = 'ulimit -d "$0"; unset PWD OLDPWD SHLVL _; exec "$@"'
_TAIL_BYTES: Final = 4096
_OUT_OF_MEMORY: Final = re.compile(
    rb"memory ?error|bad_alloc|(out of|insufficient|cannot allocate) memory", re.IGNORECASE
)


def run(context: HookContext) -> None:
    """Run the program; raise `HookFailed` if it is not configured, does not start, or fails."""
    properties = context.spec.properties
    name = properties["command"]
    command = context.settings.commands.get(name)
    if not command:
        raise HookFailed(
            f"no command {name!r}: the server's operator defines commands in hooks.commands"
        )
    arguments = [context.environment.fill_text(each) for each in properties.get("args", [])]
    if any("\0" in each for each in arguments):
        raise HookFailed("an argument of the command contains a null character")
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LAKEBED_RUN_ID": context.event.run_id,
        "LAKEBED_EVENT": context.event.event_type.value,
    }
    memory_mib = context.settings.command_memory_mib
    limited = _limited([*command, *arguments], environment["PATH"], memory_mib)
    tail = b""
    with Child(
        limited, environment=environment, deadline=context.deadline, with_errors=True
    ) as child:
        child.send(to_json(context.payload) + b"\n", is_last=True)
        while output := child.receive():
            context.output.write(output)
            tail = (tail + output)[-_TAIL_BYTES:]
        code = child.wait()
    if code == 0:
        return
    how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    if _OUT_OF_MEMORY.search(tail):
        how += f" and reports a lack of memory (hooks.command_memory_mib is {memory_mib})"
    raise HookFailed(f"the command {name} {how}")


def _limited(command: Sequence[str], path: str, memory_mib: int) -> list[str]:
    """Return the arguments that start a program with a memory limit."""
    # Like the process, start at the root directory.
    name = f"/{command[0]}" if os.sep in command[0] else command[0]
    program = shutil.which(name, path=path)
    if program is None:
        raise HookFailed(f"{command[0]} cannot be started: it is missing or not executable")
    return ["/bin/sh", "-c", _LIMITED, str(memory_mib << 10), program, *command[1:]]
