"""Errors of migrations from lakeFS."""

from collections.abc import Sequence
from typing import Final

from lakebed.base.errors import LakebedError

_SHOWN: Final = 10


class DamagedTable(LakebedError):
    """A metadata file of lakeFS is unreadable."""

    kind = "damaged_table"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"lakeFS file {name} is damaged: {reason}")


class DamagedHistory(LakebedError):
    """The commits of a lakeFS repository are inconsistent."""

    kind = "damaged_history"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the history of the repository is damaged: {reason}")


class UnreadableAddresses(LakebedError):
    """Entries of lakeFS have addresses that the storage cannot read."""

    kind = "source_address_unreadable"

    def __init__(self, name: str, refused: Sequence[str]) -> None:
        shown = "; ".join(refused[:_SHOWN])
        more = len(refused) - _SHOWN
        rest = f"; and {more:,} more" if more > 0 else ""
        super().__init__(
            f"{len(refused):,} entries of {name} cannot be migrated, because the storage cannot"
            f" read their objects: {shown}{rest}"
        )


class NotATarget(LakebedError):
    """A repository cannot be the target of a migration."""

    kind = "not_a_target"

    def __init__(self, repository: str, reason: str) -> None:
        super().__init__(
            f"cannot migrate to repository {repository}: {reason}; choose another name"
        )


class CannotAdopt(LakebedError):
    """A repository cannot adopt its objects in lakeFS's namespace."""

    kind = "cannot_adopt"

    def __init__(self, repository: str, reason: str) -> None:
        super().__init__(f"repository {repository} cannot adopt its objects: {reason}")


class SourceRefused(LakebedError):
    """The source server did not do as requested."""

    kind = "source_refused"
