"""What became of many transfers."""

from typing import Final

from lakebed.cli.output import size, warn
from lakebed.cli.session import Session
from lakebed.client.errors import Incomplete

_FAILURES_MAX: Final = 100
"""After so many, the rest will hardly fare better."""


class Report:
    """Counts transfers, and names each that failed when it does."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._count = 0
        self._size_bytes = 0
        self._failed: list[dict[str, str]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self._count and not self._failed

    def add(self, name: str, size_bytes: int | None, error: str | None) -> None:
        """Note one outcome.

        Raises:
            Incomplete: Too many have failed to go on.
        """
        if error is None:
            self._count += 1
            self._size_bytes += size_bytes or 0
            return
        warn(f"not {self._verb}ed: {name}: {error}")
        self._failed.append({"name": name, "message": error})
        if len(self._failed) >= _FAILURES_MAX:
            raise Incomplete(
                f"gave up after {len(self._failed)} failures; {self._count} object(s) were"
                f" {self._verb}ed"
            )

    def show(self, session: Session, what: str) -> None:
        """Say how it went.

        Raises:
            Incomplete: Something failed.
        """
        done = f"{self._count} object(s), {size(self._size_bytes)}"
        session.output.done(
            f"{self._verb.capitalize()}ed {what}: {done}",
            {"objects": self._count, "size_bytes": self._size_bytes, "failed": self._failed},
        )
        if self._failed:
            raise Incomplete(f"{len(self._failed)} could not be {self._verb}ed")
