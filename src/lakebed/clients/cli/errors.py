"""Why a command did not do its work, and the exit code of each reason.

LakebedError
├── ClientError             see `lakebed.clients.http.errors`
└── CommandError            the command could not do its work
    ├── Misuse              it was called wrongly
    ├── UnsafeKey           an object's key cannot be the name of a file
    ├── Damaged             bytes did not arrive as they were sent
    └── Incomplete          some of many were not done; each was named before
"""

from typing import Final

from lakebed.base.errors import LakebedError


class CommandError(LakebedError):
    """A command could not do its work."""

    kind = "command"


class Misuse(CommandError):
    """The command was called wrongly; the message says what was expected."""

    kind = "misuse"


class UnsafeKey(CommandError):
    """An object's key cannot be the name of a file in the target folder."""

    kind = "unsafe_key"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key!r} cannot become a file: {reason}")
        self.key = key


class Damaged(CommandError):
    """Bytes did not arrive as they were sent; nothing of them was kept."""

    kind = "damaged"


class Incomplete(CommandError):
    """Some of many things were not done; each was named before this is raised."""

    kind = "incomplete"


FAILED: Final = 1
CALLED_WRONGLY: Final = 2
INTERRUPTED: Final = 130

# By name: importing the server's own errors would take longer than most commands.
_WRONG_CALLS: Final = frozenset(
    {
        Misuse.kind,
        "client_invalid_name",
        "invalid_name",  # of a repository or branch
        "settings",  # of a server
        "invalid_argument",  # a database URL that cannot be one
    }
)


def exit_code(error: LakebedError) -> int:
    """Return the exit code of a command that ends with this error."""
    return CALLED_WRONGLY if error.kind in _WRONG_CALLS else FAILED
