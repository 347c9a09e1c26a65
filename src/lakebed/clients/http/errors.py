"""Errors of requests to a server.

LakebedError
└── ClientError
    ├── ClientSettingsError a setting of the client is missing or wrong
    ├── InvalidName         a name cannot be part of a request        (also a ValueError)
    ├── Unreachable         the server did not respond
    │   └── NeverReached    the server has never responded to this client
    ├── Refused             the server responded with an error
    └── UnexpectedAnswer    the response is not from a lakeFS server
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from lakebed.base.errors import LakebedError
from lakebed.wire.base import ErrorBody

AnswerT = TypeVar("AnswerT")


class ClientError(LakebedError):
    """Base class of the client's errors."""

    kind = "client"


class ClientSettingsError(ClientError):
    """A setting of the client is missing or wrong."""

    kind = "client_settings"


class InvalidName(ClientError, ValueError):
    """A name that would change the path of a request."""

    kind = "client_invalid_name"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not a valid name")


class Unreachable(ClientError):
    """The server did not respond, or the connection broke."""

    kind = "unreachable"


class NeverReached(Unreachable):
    """The server has never responded to this client, so further requests are pointless."""

    kind = "never_reached"


class Refused(ClientError):
    """The server responded with an error."""

    kind = "server_refused"

    def __init__(self, status: int, message: str, body: ErrorBody | None = None) -> None:
        super().__init__(f"{message.rstrip()} ({status})")
        self.status = status
        self.message = message
        self.body = body or ErrorBody()
        """The body of the response, as far as it could be decoded."""


def or_none(send: Callable[[], AnswerT]) -> AnswerT | None:
    """Send a request; return the response, or None if the server has no such resource."""
    try:
        return send()
    except Refused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return None


class UnexpectedAnswer(ClientError):
    """The response is not from a lakeFS server."""

    kind = "unexpected_answer"
