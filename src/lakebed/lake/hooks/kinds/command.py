"""Command hooks: programs configured by the server's operator, chosen by action files.

The program receives the event as JSON on standard input, and as arguments first the operator's,
then the action file's. Of the server's environment it inherits only ``PATH``. Exit status 0 lets
the operation proceed; the program's output is the hook's output.
"""

import os

from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import HookContext, to_json
from lakebed.lake.hooks.processes import Child


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
    with Child(
        [*command, *arguments], environment=environment, deadline=context.deadline, with_errors=True
    ) as child:
        child.send(to_json(context.payload) + b"\n", is_last=True)
        while output := child.receive():
            context.output.write(output)
        code = child.wait()
    if code < 0:
        raise HookFailed(f"the command {name} was ended by signal {-code}")
    if code > 0:
        raise HookFailed(f"the command {name} failed with exit code {code}")
