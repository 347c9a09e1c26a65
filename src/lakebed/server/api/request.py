"""A request to the API, as passed to handlers."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final
from wsgiref.types import WSGIEnvironment

import falcon

from lakebed.auth import Context, Identity, Permission
from lakebed.lake.errors import InvalidPath
from lakebed.server.http.errors import BadRequest
from lakebed.server.services import Services


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API with its authenticated identity."""

    services: Services
    environ: WSGIEnvironment
    template: str
    """The path's template in the routing table."""
    signed_in: Identity | None
    """None if the operation is open to anyone."""
    context: Context
    """The values that conditions of policies test."""

    @property
    def http(self) -> falcon.Request:
        """The request as a Falcon object; created on demand, as few handlers need it."""
        return falcon.Request(self.environ)

    @property
    def identity(self) -> Identity:
        assert self.signed_in is not None, "the operation requires no authentication"
        return self.signed_in

    def authorize(self, action: str, resource: str) -> None:
        """Check a permission that depends on stored data."""
        self.services.auth.authorize(self.identity, self.context, Permission(action, resource))

    def absolute(self, url: str) -> str:
        """Return the absolute URL for an object's `url`, which may be a path on this server."""
        if not url.startswith("/"):
            return url
        objects_origin = self.services.settings.listen.objects_origin
        if objects_origin is not None:
            return objects_origin + url
        http = self.http
        return f"{http.forwarded_scheme}://{http.forwarded_host}{url}"


def one_of(value: str, allowed: Iterable[str], what: str) -> str:
    """Return `value`, which must be in `allowed`."""
    known = list(allowed)
    if value not in known:
        choices = ", ".join(f"'{each}'" for each in known)
        raise BadRequest(f"invalid {what} '{value}': use one of {choices}")
    return value


def as_key(path: str, what: str = "path") -> bytes:
    """Return the key of an object's path."""
    if not path:
        raise InvalidPath(f"the {what} of an object must not be empty")
    if "\x00" in path:
        raise InvalidPath(f"{what} contains a NUL character")
    try:
        return path.encode()
    except UnicodeEncodeError:
        raise InvalidPath(f"{what} has characters that UTF-8 cannot encode") from None


as_text: Final = partial(str, encoding="utf-8", errors="replace")
"""Returns a key as text for the client."""


def seconds(moment_us: int) -> int:
    """Return a time in microseconds as the API's seconds."""
    return moment_us // 1_000_000
