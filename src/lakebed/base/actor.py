"""The actor: the user on whose behalf code runs, and the request by which the user came.

An entry point (REST API, S3 gateway, library, a task) makes one `Actor` for each request and runs
the request inside `acting_as`. Rules, hooks and records read it by `current_actor`. A context
variable carries it: `Runtime.map_parallel` gives its helper threads the context of the caller, and
a task that goes on after its request keeps the value.
"""

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakebed.base.ids import UniqueID


class EntryPoint(StrEnum):
    """How a request reached Lakebed."""

    NONE = "none"
    """By no request: work of Lakebed itself."""
    API = "api"
    S3 = "s3"
    LIBRARY = "library"
    HOOK = "hook"
    """A hook called the REST API in this process."""
    IMPORT = "import"
    MIGRATION = "migration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """On whose behalf code runs; `msgspec` encodes and decodes it."""

    user: str = ""
    """The name of the user; empty if no user is signed in."""
    unique_id: UniqueID | None = None
    """The id of the user, which no later user of that name has; None if it is not known."""
    groups: tuple[str, ...] = ()
    """The names of the user's groups."""
    access_key_id: str = ""
    """The access key that proved the user; empty if a token did."""
    address: str = ""
    """The address of the client."""
    request_id: str = ""
    """The id of the request, as in the log."""
    entry_point: EntryPoint = EntryPoint.NONE
    force: bool = False
    """Whether writes to read-only repositories are allowed (`force` in the API)."""
    skips_hooks: bool = False
    """Whether no hook runs before operations; entry points check the permission for it."""
    hook_depth: int = 0
    """In how many hooks, each called by another, the request was made."""


_NO_REQUEST: Final = Actor()
_ACTOR: Final = ContextVar("lakebed_actor", default=_NO_REQUEST)


@dataclass(slots=True)
class _Acting:
    """Run a ``with`` block on behalf of an actor."""

    actor: Actor
    before: Token[Actor] = field(init=False)

    # Not a generator, which would take three times as long: each request enters one of these.
    def __enter__(self) -> None:
        self.before = _ACTOR.set(self.actor)

    def __exit__(self, *exc_info: object) -> None:
        _ACTOR.reset(self.before)


acting_as: Final = _Acting


def current_actor() -> Actor:
    """Return the actor on whose behalf this code runs."""
    return _ACTOR.get()
