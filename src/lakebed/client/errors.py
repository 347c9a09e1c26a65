"""What a command may have to say instead of doing its work.

LakebedError
└── CommandError            one line on stderr, exit code 1
    ├── Misuse              the command was called wrongly, exit code 2
    ├── SettingsError       the settings of the client are missing or wrong
    ├── Unreachable         no answer from the server
    ├── Refused             the server answered, and the answer is no
    ├── UnexpectedAnswer    whatever answered is no lakeFS server, or it broke off
    ├── UnsafeKey           an object's key cannot be a file's name
    ├── Damaged             bytes did not arrive as they were sent
    └── Incomplete          some of many were not done; which ones has been said
"""

from typing import Any, ClassVar

from lakebed.errors import LakebedError

# The names say what happened, not that they are errors.
# ruff: noqa: N818


class CommandError(LakebedError):
    """A command could not do its work."""

    kind = "command"

    exit_code: ClassVar[int] = 1
    """What the process ends with."""


class Misuse(CommandError):
    """The command was called wrongly; the message says what was expected."""

    kind = "misuse"
    exit_code = 2


class SettingsError(CommandError):
    """The settings of the client are missing or wrong."""

    kind = "client_settings"


class Unreachable(CommandError):
    """The server did not answer."""

    kind = "unreachable"


class Refused(CommandError):
    """The server answered, and the answer is no."""

    kind = "server_refused"

    def __init__(self, status: int, message: str, body: Any = None) -> None:
        super().__init__(f"{message} ({status})")
        self.status = status
        self.message = message
        self.body = body


class UnexpectedAnswer(CommandError):
    """Whatever answered does not speak as a lakeFS server does."""

    kind = "unexpected_answer"


class UnsafeKey(CommandError):
    """An object's key cannot be the name of a file in the folder that was asked for."""

    kind = "unsafe_key"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key!r} cannot become a file: {reason}")
        self.key = key


class Damaged(CommandError):
    """Bytes did not arrive as they were sent; nothing was kept of them."""

    kind = "damaged"


class Incomplete(CommandError):
    """Some of many things were not done; each was named before this is raised."""

    kind = "incomplete"
