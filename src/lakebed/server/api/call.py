"""One request to an operation, as its handler sees it."""

from collections.abc import Iterable
from dataclasses import dataclass

import falcon

from lakebed.auth import Identity
from lakebed.server.http.errors import BadRequest
from lakebed.server.services import Services


@dataclass(frozen=True, slots=True)
class Call:
    """A request, and who makes it."""

    services: Services
    request: falcon.Request
    signed_in: Identity | None
    """None where anyone may call."""

    @property
    def identity(self) -> Identity:
        """Who is asking."""
        assert self.signed_in is not None, "only where anyone may call, nobody is signed in"
        return self.signed_in

    def header(self, name: str) -> str | None:
        """Return a header of the request."""
        value: str | None = self.request.get_header(name)
        return value

    def absolute(self, url: str) -> str:
        """Return a URL of this server, given as a path, as the client can use it."""
        if not url.startswith("/"):
            return url
        return f"{self.request.forwarded_scheme}://{self.request.forwarded_host}{url}"


def one_of(value: str, allowed: Iterable[str], what: str) -> str:
    """Return a value that must be one of a few.

    Raises:
        BadRequest: It is none of them.
    """
    known = list(allowed)
    if value not in known:
        raise BadRequest(f"{what} cannot be {value!r}: use {', '.join(map(repr, known))}")
    return value


def as_key(path: str, what: str = "path") -> bytes:
    """Return the key of an object's path.

    Raises:
        BadRequest: No object can have it.
    """
    if not path:
        raise BadRequest(f"{what} must not be empty")
    if "\x00" in path:
        raise BadRequest(f"{what} {path!r} holds a NUL")
    try:
        return path.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{what} {path!r} has no UTF-8 form") from None


def as_text(key: bytes) -> str:
    """Return a key as it goes over the wire."""
    return key.decode(errors="replace")


def seconds(moment_us: int) -> int:
    """Return a time in microseconds as the API tells it."""
    return moment_us // 1_000_000
