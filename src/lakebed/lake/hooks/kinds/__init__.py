"""The kinds of hooks, and the execution of a single hook."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import HookEvent
from lakebed.lake.hooks.files import HookSpec
from lakebed.lake.hooks.kinds import airflow, command, lua, webhook
from lakebed.lake.hooks.kinds.context import OBJECT_BYTES_MAX, Caller, Environment, HookContext
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.processes import ProcessPool
from lakebed.lake.hooks.properties import HookType
from lakebed.lake.hooks.settings import HookLimits

__all__ = ["OBJECT_BYTES_MAX", "Caller", "run_hook"]

ERROR_CHARACTERS_MAX: Final = 4000
"""Maximum length of a hook's error message."""

_KINDS: Final[dict[HookType, Callable[[HookContext], None]]] = {
    "webhook": webhook.run,
    "airflow": airflow.run,
    "lua": lua.run,
    "command": command.run,
}
_WITH_PROCESS: Final = frozenset[HookType]({"lua", "command"})


def run_hook(
    spec: HookSpec,
    event: HookEvent,
    *,
    caller: Caller,
    output: HookOutput,
    settings: HookLimits,
    runtime: Runtime,
    until: float,
    is_cancelled: Callable[[], bool],
    pool: ProcessPool,
) -> None:
    """Run a hook; return if it succeeds.

    `until`: deadline by ``runtime.monotonic()``. The hook's own timeout may end earlier.
    `is_cancelled`: polled; the hook is ended once it returns True. `pool`: limits the processes of
    scripts and commands. Waiting for a process does not count against the hook's own timeout.

    Raises:
        HookFailed: The hook failed, could not run, or took too long. The message contains no
            secret. Other exceptions are bugs.
    """
    whole = Deadline(runtime, until, is_cancelled)
    slot = (
        pool.one(
            event.username,
            depth=caller.depth,
            deadline=whole,
            is_awaited=not event.event_type.is_post,
        )
        if spec.type in _WITH_PROCESS
        else nullcontext()
    )
    try:
        with slot:
            context = HookContext(
                spec=spec,
                event=event,
                caller=caller,
                output=output,
                settings=settings,
                deadline=whole.within(spec.timeout_seconds),
                environment=Environment(settings.env, output.hide),
            )
            context.deadline.check()
            _KINDS[spec.type](context)
    except HookFailed as error:
        message = output.masked(str(error))
        if len(message) > ERROR_CHARACTERS_MAX:  # scripts choose the text
            message = message[:ERROR_CHARACTERS_MAX] + " …"
        output.print(f"Failed: {message}")
        raise HookFailed(message) from None
    finally:
        output.flush()
