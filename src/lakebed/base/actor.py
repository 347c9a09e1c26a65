"""The actor: the user on whose behalf code runs, and the origin of the request.

An entry point (REST API, S3 gateway, library, task) creates an `Actor` for each request and runs
the request inside `acting_as`. Rules, hooks and records read it with `current_actor`. A context
variable carries the actor: `Runtime.map_parallel` passes the caller's context to its threads, and a
task that continues after its request keeps the value.
"""

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakebed.base.runtime import UniqueID


class EntryPoint(StrEnum):
    """Entry point of a request."""

    NONE = "none"
    """No request: internal work of Lakebed."""
    API = "api"
    S3 = "s3"
    LIBRARY = "library"
    HOOK = "hook"
    """A hook called the REST API in this process."""
    IMPORT = "import"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """User and request on whose behalf code runs; encoded and decoded by `msgspec`."""

    user: str = ""
    """User name; empty without a signed-in user."""
    unique_id: UniqueID | None = None
    """Id of the user, never reused for a later user of the same name; None if unknown."""
    groups: tuple[str, ...] = ()
    """Names of the user's groups."""
    access_key_id: str = ""
    """Access key that authenticated the user; empty for a token."""
    address: str = ""
    """Address of the client."""
    request_id: str = ""
    """Request id, as logged."""
    entry_point: EntryPoint = EntryPoint.NONE
    force: bool = False
    """Whether writes to read-only repositories are allowed (`force` in the API)."""
    skips_hooks: bool = False
    """Whether hooks before operations are skipped; entry points check the permission."""
    hook_depth: int = 0
    """Number of nested hooks that led to the request."""


_NO_REQUEST: Final = Actor()
_ACTOR: Final = ContextVar("lakebed_actor", default=_NO_REQUEST)


@dataclass(slots=True)
class _Acting:
    """Context manager that runs its block on behalf of an actor."""

    actor: Actor
    before: Token[Actor] = field(init=False)

    # A class, not a generator: a generator takes three times as long, and every request enters
    # this.
    def __enter__(self) -> None:
        self.before = _ACTOR.set(self.actor)

    def __exit__(self, *exc_info: object) -> None:
        _ACTOR.reset(self.before)


acting_as: Final = _Acting


def current_actor() -> Actor:
    """Return the current actor."""
    return _ACTOR.get()
