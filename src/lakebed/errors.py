"""The root of every error that Lakebed raises on purpose.

Each layer draws its own tree below this root, in its own ``errors`` module, and the doors (HTTP,
S3, command line) hold one table from those errors to what goes over the wire.
"""

from typing import ClassVar


class LakebedError(Exception):
    """Something that Lakebed can explain: the message says what was wrong and what to do."""

    kind: ClassVar[str] = "error"
    """A stable name for programs; the message is for people and may change."""


class MissingExtraError(LakebedError, ImportError):
    """A driver needs a library that is installed only with one of Lakebed's extras."""

    kind = "missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'lakebed[{extra}]'")
        self.extra = extra
