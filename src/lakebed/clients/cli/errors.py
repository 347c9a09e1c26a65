"""Errors of commands, and their exit codes.

LakebedError
├── ClientError             see `lakebed.clients.http.errors`
└── CommandError            the command failed
    ├── Misuse              wrong arguments
    ├── UnsafeKey           the key of an object cannot be a file name
    ├── Damaged             data was corrupted in transit
    └── Incomplete          some items failed, each reported before
"""

from typing import Final

from lakebed.base.errors import LakebedError


class CommandError(LakebedError):
    """The command failed."""

    kind = "command"


class InvalidArguments(CommandError):
    """Wrong arguments; the message describes the expected ones."""

    kind = "misuse"


class UnsafeKey(CommandError):
    """The key of an object cannot be a file name in the target directory."""

    kind = "unsafe_key"

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key!r} cannot become a file: {reason}")
        self.key = key


class Damaged(CommandError):
    """Data was corrupted in transit, and discarded."""

    kind = "damaged"


class Incomplete(CommandError):
    """Some items failed, each reported before this is raised."""

    kind = "incomplete"


FAILED: Final = 1
CALLED_WRONGLY: Final = 2
INTERRUPTED: Final = 130

# By kind: importing the server's errors would take longer than most commands.
_WRONG_CALLS: Final = frozenset(
    {
        InvalidArguments.kind,
        "client_invalid_name",
        "invalid_name",  # of a repository or branch
        "settings",  # of a server
        "invalid_argument",  # a database URL that cannot be one
    }
)


LISTINGS: Final = {
    "repository_not_found": "repo list",
    "branch_not_found": "branch list",
    "tag_not_found": "tag list",
    "ref_not_found": "branch list",
    "commit_not_found": "log",
    "entry_not_found": "fs ls",
    "pull_request_not_found": "pr list",
}
"""Commands that list the existing names, by kind of error."""


def explained(error: LakebedError) -> str:
    """Return the text of an error, for a missing name with the command to list the names."""
    listing = LISTINGS.get(getattr(error, "body", error).kind)
    return f"{error} (see `lakebed {listing}`)" if listing else str(error)


def exit_code(error: LakebedError) -> int:
    """Return the exit code for an error."""
    return CALLED_WRONGLY if error.kind in _WRONG_CALLS else FAILED
