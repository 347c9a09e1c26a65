"""Lifetimes of objects, links and tasks, and their dependencies.

Garbage collection can delete an unreferenced object once it is old enough. A writer of an object
not *yet* referenced (an upload in progress, an issued address, a copy) must finish before that.
Most of these times ensure this, and `check` verifies that they are consistent.
"""

from dataclasses import dataclass
from typing import Literal

from lakebed.engine.settings import EngineSettings
from lakebed.lake.errors import InvalidSettings

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Rules for linking objects."""

    require_object: bool = True
    """Require that an object exists when its address is linked. If off, clients may link first and
    upload later, or never; size and checksum given by the client are trusted until the first
    read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """Times and limits of objects, links, tasks and the preparation of garbage collection."""

    link_life_seconds: float = 6 * HOUR
    """How long an issued address can be linked."""

    presign_life_seconds: float = 0.25 * HOUR
    """How long a presigned URL is valid."""

    longest_request_seconds: float = 600.0
    """Maximum time for the metadata work of a request. The bytes of an upload may take longer: up
    to half of `min_age_seconds`."""

    copy_window_seconds: float = HOUR
    """Maximum age of an object whose address a copy on its branch can share."""

    multipart_life_seconds: float = 7 * 24 * HOUR
    """How long a multipart upload may stay open."""

    partition_life_seconds: float = HOUR
    """How long one process puts new objects into one partition of a branch."""

    partition_objects_max: int = 100_000
    """Maximum number of objects that one process puts into a partition."""

    min_age_seconds: float = 24 * HOUR
    """Grace period: younger objects are never garbage, even if unreferenced."""

    gap_seconds: float = HOUR
    """Minimum time between the two marking phases that must both find an object unreferenced."""

    skew_seconds: float = 300.0
    """Maximum clock difference between servers and storages."""

    versions: Literal["keep", "delete"] = "keep"
    """Older versions of deleted garbage in a versioned bucket: ``delete`` them too, or ``keep``
    them for the bucket's lifecycle rules. Versions protect from mistakes, including Lakebed's:
    only the operator may give up that protection."""

    task_life_seconds: float = 24 * HOUR
    """How long the result of a task is stored."""

    task_heartbeat_seconds: float = 60.0
    """A task without a heartbeat for this long has died with its process."""

    @property
    def longest_hold_seconds(self) -> float:
        """The age at which an object is too old to be staged."""
        return self.min_age_seconds / 2

    @property
    def partition_open_seconds(self) -> float:
        """Time after its creation in which a partition may still receive objects."""
        return (
            self.partition_life_seconds
            + max(self.longest_hold_seconds, self.multipart_life_seconds)
            + self.skew_seconds
        )

    def check(self, engine: EngineSettings) -> None:
        """Reject settings that could lose data or make operations fail.

        Raises `InvalidSettings` if two settings contradict each other; the message names both.
        """
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, str) and value <= 0:
                raise InvalidSettings(f"{name} is {value:g}, and must be above 0")
        for name in (
            "link_life_seconds",
            "presign_life_seconds",
            "longest_request_seconds",
            "copy_window_seconds",
        ):
            self._at_least("min_age_seconds", self.min_age_seconds, 2, name, getattr(self, name))
        scan_limit = engine.scan_limit_seconds
        self._at_least("gap_seconds", self.gap_seconds, 2, "scan_limit_seconds", scan_limit)
        if self.gap_seconds < scan_limit + self.skew_seconds:
            raise InvalidSettings(
                f"gap_seconds ({self.gap_seconds:g}) must be at least scan_limit_seconds"
                f" ({scan_limit:g}) and skew_seconds ({self.skew_seconds:g}) together: by another"
                " server's clock, two marking phases of garbage collection could coincide"
            )
        request = self.longest_request_seconds
        self._at_least("gap_seconds", self.gap_seconds, 1, "longest_request_seconds", request)
        if engine.grace_seconds <= self.longest_request_seconds:
            raise InvalidSettings(
                f"grace_seconds ({engine.grace_seconds:g}) must be above longest_request_seconds"
                f" ({self.longest_request_seconds:g}): records read by a request would be"
                " cleaned up during it"
            )

    @staticmethod
    def _at_least(name: str, value: float, times: int, other: str, least: float) -> None:
        if value < times * least:
            often = "twice " if times > 1 else ""
            raise InvalidSettings(
                f"{name} ({value:g}) must be at least {often}{other} ({least:g}): garbage"
                " collection would delete objects still in use"
            )
