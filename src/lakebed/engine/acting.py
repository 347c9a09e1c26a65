"""Who made the request at hand: hooks run as that user.

It concerns the whole request, and nothing but hooks, so it is kept beside the request and not
handed through every function between.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_USER: Final = ContextVar("lakebed_acting_user", default="")


@contextmanager
def acting_as(username: str) -> Iterator[None]:
    """Let hooks of what runs inside run as a user, in this thread."""
    token = _USER.set(username)
    try:
        yield
    finally:
        _USER.reset(token)


def acting_user() -> str:
    """Return who made the request at hand; empty if nobody did."""
    return _USER.get()
