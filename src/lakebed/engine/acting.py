"""Who made the request at hand, and whether it skips hooks: these run as that user.

Both concern the whole request, and nothing but hooks, so they are kept beside the request and not
handed through every function between.
"""

from contextvars import ContextVar
from typing import Final

from lakebed.runtime import Bound

_USER: Final = ContextVar("lakebed_acting_user", default="")
_SKIPPED: Final = ContextVar("lakebed_hooks_skipped", default=False)


def acting_as(username: str) -> Bound[str]:
    """Let hooks of what runs inside run as a user, in this thread."""
    return Bound(_USER, username)


def acting_user() -> str:
    """Return who made the request at hand; empty if nobody did."""
    return _USER.get()


def skipping_hooks(*, skip: bool = True) -> Bound[bool]:
    """Let no hook run before operations of what runs inside, in this thread.

    For administrators who repair hooks: the callers check the permission.
    """
    return Bound(_SKIPPED, skip)


def are_hooks_skipped() -> bool:
    """Whether the request at hand runs no hooks before its operation."""
    return _SKIPPED.get()
