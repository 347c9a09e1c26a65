"""Why a hook did not run, or refused.

LakebedError
└── HookError
    ├── InvalidAction       an action file cannot be used
    └── HookFailed          a hook ran and failed, or could not run
"""

from lakebed.base.errors import LakebedError


class HookError(LakebedError):
    """Something about hooks went wrong."""

    kind = "hooks"


class InvalidAction(HookError, ValueError):
    """An action file cannot be used; the message names the file and the reason."""

    kind = "invalid_action"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"action file {path}: {reason}")
        self.path = path
        self.reason = reason


class HookFailed(HookError):
    """A hook ran and failed, or could not run. The message holds no secret."""

    kind = "hook_failed"


class TooManyTrials(HookError):
    """As many hooks are tried by hand as a process may run at once; try again."""

    kind = "too_many_trials"

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} trials of hooks run already: try again when one has ended")


class RunNotFound(HookError):
    """There is no such run, or it has not ended."""

    kind = "run_not_found"

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} is not there, or has not ended")
