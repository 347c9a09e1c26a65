"""The kinds of hooks, and how one hook is run."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from lakebed.hooks.events import Event
from lakebed.hooks.files import HookSpec
from lakebed.hooks.outputs import Output
from lakebed.hooks.settings import HooksSettings
from lakebed.runtime import Runtime

OBJECT_BYTES_MAX: Final = 32 << 20
"""The largest object that a hook may read by `Caller`."""


class Caller(Protocol):
    """What a hook may ask of the server, as the user who triggered the event.

    Every call checks the permissions of that user, and that the repository is still the one of
    the event.
    """

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[int, Any]:
        """Do one call of Lua's ``lakefs`` package.

        Names and arguments (those marked ? may be missing):

        - ``create_tag``: repository, reference, tag
        - ``diff_refs``: repository, left, right, after?, prefix?, delimiter?, amount?
        - ``list_objects``: repository, reference, after?, prefix?, delimiter?, amount?,
          user_metadata?
        - ``get_object``: repository, reference, path; more than `OBJECT_BYTES_MAX` is a 413
        - ``stat_object``: repository, reference, path, user_metadata?
        - ``diff_branch``: repository, branch, after?, amount?, prefix?, delimiter?
        - ``update_object_user_metadata``: repository, branch, path, metadata

        Returns:
            The status of the REST API, and its body: ``bytes`` for ``get_object`` that succeeded,
            else what JSON can hold. It raises nothing: an error is a status and a message.
        """


def run_hook(
    spec: HookSpec,
    event: Event,
    *,
    caller: Caller,
    output: Output,
    settings: HooksSettings,
    runtime: Runtime,
    until: float,
    is_cancelled: Callable[[], bool],
) -> None:
    """Run one hook, and return when it succeeded.

    Args:
        spec: Which hook.
        event: What happened.
        caller: What the hook may ask of the server.
        output: Where the hook's log goes.
        settings: The server's settings.
        runtime: The clock.
        until: When it must have ended, by ``runtime.monotonic()``. The hook's own time limit
            may be earlier.
        is_cancelled: Asked often; the hook is ended once it says so.

    Raises:
        HookFailed: The hook failed, could not run, or took too long. Nothing else is raised.
    """
    raise NotImplementedError
