"""Errors of hooks.

LakebedError
└── HookError
    ├── InvalidAction       an invalid action file
    ├── HookFailed          a hook failed, or could not run
    ├── TooManyTrials       too many trials are running
    └── RunNotFound         no such run, or it has not ended
"""

from lakebed.base.errors import LakebedError


class HookError(LakebedError):
    """Base class of the errors of hooks."""

    kind = "hooks"


class InvalidAction(HookError, ValueError):
    """An invalid action file; the message names the file and the reason."""

    kind = "invalid_action"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"action file {path}: {reason}")
        self.path = path
        self.reason = reason


class HookFailed(HookError):
    """A hook failed, or could not run. The message contains no secret."""

    kind = "hook_failed"


class TooManyTrials(HookError):
    """The process already runs the maximum number of trials; retry later."""

    kind = "too_many_trials"

    def __init__(self, most: int) -> None:
        super().__init__(f"{most} trials of hooks are already running: retry when one has ended")


class RunNotFound(HookError):
    """The run does not exist, or has not ended."""

    kind = "run_not_found"

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} does not exist, or has not ended")
