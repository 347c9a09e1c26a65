"""Why a request to a server failed.

LakebedError
└── ClientError
    ├── SettingsError       the settings of the client are missing or wrong
    ├── InvalidName         a name cannot be part of a request        (also a ValueError)
    ├── Unreachable         the server did not answer
    │   └── NeverReached    it has not answered this client once
    ├── Refused             the server answered with an error
    └── UnexpectedAnswer    the answer is not one of a lakeFS server
"""

from lakebed.base.errors import LakebedError
from lakebed.wire.base import ErrorBody


class ClientError(LakebedError):
    """Any error of the client."""

    kind = "client"


class ClientSettingsError(ClientError):
    """The settings of the client are missing or wrong."""

    kind = "client_settings"


class InvalidName(ClientError, ValueError):
    """A name that would lead a request to another place."""

    kind = "client_invalid_name"

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} is not a name")


class Unreachable(ClientError):
    """The server did not answer, or the connection broke."""

    kind = "unreachable"


class NeverReached(Unreachable):
    """The server has not answered this client once: no other request will fare better."""

    kind = "never_reached"


class Refused(ClientError):
    """The server answered with an error."""

    kind = "server_refused"

    def __init__(self, status: int, message: str, said: ErrorBody | None = None) -> None:
        super().__init__(f"{message} ({status})")
        self.status = status
        self.message = message
        self.said = said or ErrorBody()
        """The body of the answer, as far as it is understood."""


class UnexpectedAnswer(ClientError):
    """The answer is not one that a lakeFS server gives."""

    kind = "unexpected_answer"
