"""Whether the request at hand may write to repositories that are read-only.

A client says so with `force`. The wish concerns the whole request, and nothing but the check at the
door of the engine, so it is kept beside the request and not handed through every function between.
"""

from contextvars import ContextVar
from typing import Final

from lakebed.runtime import Bound

_LIFTED: Final = ContextVar("lakebed_read_only_lifted", default=False)


def read_only_lifted(*, lifted: bool = True) -> Bound[bool]:
    """Let what runs inside write to read-only repositories, in this thread."""
    return Bound(_LIFTED, lifted)


def is_read_only_lifted() -> bool:
    """Whether read-only repositories may be written to here."""
    return _LIFTED.get()
