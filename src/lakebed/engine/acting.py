"""Who made the request at hand: hooks run as that user.

It concerns the whole request, and nothing but hooks, so it is kept beside the request and not
handed through every function between.
"""

from contextvars import ContextVar
from typing import Final

from lakebed.runtime import Bound

_USER: Final = ContextVar("lakebed_acting_user", default="")


def acting_as(username: str) -> Bound[str]:
    """Let hooks of what runs inside run as a user, in this thread."""
    return Bound(_USER, username)


def acting_user() -> str:
    """Return who made the request at hand; empty if nobody did."""
    return _USER.get()
