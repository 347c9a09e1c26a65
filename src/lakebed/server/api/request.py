"""A request to an operation of the API, as its handler sees it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from wsgiref.types import WSGIEnvironment

import falcon

from lakebed.auth import Context, Identity, Permission
from lakebed.lake.catalog import Catalog
from lakebed.reclaim.service import Reclaim
from lakebed.server.http.errors import BadRequest
from lakebed.server.services import Services

_BARE: Final = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})
"""Headers that WSGI keeps under their own names."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API, and who makes it."""

    services: Services
    environ: WSGIEnvironment
    """As it came."""
    template: str
    """Its path as the table of routes spells it."""
    signed_in: Identity | None
    """None where anyone may ask."""
    context: Context
    """What conditions of policies ask about."""

    @property
    def http(self) -> falcon.Request:
        """The request as Falcon reads it; made for those few that need it, as it takes time."""
        return falcon.Request(self.environ)

    @property
    def catalog(self) -> Catalog:
        """All that is kept, but users and their permissions."""
        return self.services.catalog

    @property
    def reclaim(self) -> Reclaim:
        """All that deletes data."""
        return self.services.reclaim

    @property
    def identity(self) -> Identity:
        """Who is asking."""
        assert self.signed_in is not None, "nobody is signed in: the operation is open to anyone"
        return self.signed_in

    def authorize(self, action: str, resource: str) -> None:
        """Make sure of a permission that is known only from what is stored.

        Raises:
            Denied: Who is asking does not have it.
        """
        self.services.auth.authorize(self.identity, self.context, Permission(action, resource))

    def header(self, name: str) -> str | None:
        """Return a header of the request."""
        key = name.upper().replace("-", "_")
        value: str | None = self.environ.get(key if key in _BARE else f"HTTP_{key}")
        return value

    def absolute(self, url: str) -> str:
        """Return the URL of an object, which the server may give as a path, for the client."""
        if not url.startswith("/"):
            return url
        objects_origin = self.services.settings.listen.objects_origin
        if objects_origin is not None:
            return objects_origin + url
        http = self.http
        return f"{http.forwarded_scheme}://{http.forwarded_host}{url}"


def one_of(value: str, allowed: Iterable[str], what: str) -> str:
    """Return a value that must be one of a few.

    Raises:
        BadRequest: It is not one of them.
    """
    known = list(allowed)
    if value not in known:
        choices = ", ".join(f"'{each}'" for each in known)
        raise BadRequest(f"{what} is '{value}', and must be one of {choices}")
    return value


def as_key(path: str, what: str = "path") -> bytes:
    """Return the key of an object's path.

    Raises:
        BadRequest: No object can have it.
    """
    if not path:
        raise BadRequest(f"{what} must not be empty")
    if "\x00" in path:
        raise BadRequest(f"{what} must not have a NUL character in it")
    try:
        return path.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"{what} has characters that UTF-8 cannot encode") from None


def as_text(key: bytes) -> str:
    """Return a key as it goes over the wire."""
    return key.decode(errors="replace")


def seconds(moment_us: int) -> int:
    """Return a time in microseconds as the API gives it."""
    return moment_us // 1_000_000
