"""How long things live, and how these times depend on each other.

Garbage collection may delete an object that nothing names, once it is old enough. A writer with an
object that nothing names *yet* (an upload under way, an address given out, a copy) must be done
before that: most of these times are about this, and `check` makes sure that they agree.
"""

from dataclasses import dataclass
from typing import Literal

from lakebed.engine.settings import EngineSettings
from lakebed.lake.errors import InvalidSettings

HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """What may be linked."""

    require_object: bool = True
    """Whether an object must be there when its address is linked. If not, clients may link first
    and upload later, or never; what they say of the object is believed until the first read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """Times and bounds of objects, links, tasks and the preparation of garbage collection."""

    link_life_seconds: float = 6 * HOUR
    """How long an address that was given out can be linked."""

    presign_life_seconds: float = 0.25 * HOUR
    """How long a presigned URL works."""

    longest_request_seconds: float = 600.0
    """How long a request may work on metadata. The bytes of an upload may take longer: up to half
    of `min_age_seconds`."""

    copy_window_seconds: float = HOUR
    """How young an object must be for a copy on its branch to share its address."""

    multipart_life_seconds: float = 7 * 24 * HOUR
    """How long a multipart upload may stay open."""

    partition_life_seconds: float = HOUR
    """How long one process puts new objects under one partition of a branch."""

    partition_objects_max: int = 100_000
    """How many objects it puts there, at most."""

    min_age_seconds: float = 24 * HOUR
    """Younger objects are never garbage, even if nothing names them."""

    gap_seconds: float = HOUR
    """The least time between the two looks that must both find an object to be garbage."""

    skew_seconds: float = 300.0
    """How far the clocks of servers and storages may differ."""

    versions: Literal["keep", "delete"] = "keep"
    """Older versions of deleted garbage, in a bucket that keeps versions: ``delete`` them too, or
    ``keep`` them for the bucket's lifecycle rules. Versions protect from mistakes, ours among them:
    only the operator may give that up."""

    task_life_seconds: float = 24 * HOUR
    """How long the result of a task is kept."""

    task_heartbeat_seconds: float = 60.0
    """A task that wrote no heartbeat for so long has died with its process."""

    @property
    def longest_hold_seconds(self) -> float:
        """The age at which an object is too old to be staged."""
        return self.min_age_seconds / 2

    @property
    def partition_open_seconds(self) -> float:
        """How long after its making a partition may still get objects."""
        return (
            self.partition_life_seconds
            + max(self.longest_hold_seconds, self.multipart_life_seconds)
            + self.skew_seconds
        )

    def check(self, engine: EngineSettings) -> None:
        """Refuse settings under which data could be lost, or nothing could work.

        Raises:
            InvalidSettings: Two of them contradict each other; the message names both.
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
                " server's clock, two looks of garbage collection could be one"
            )
        request = self.longest_request_seconds
        self._at_least("gap_seconds", self.gap_seconds, 1, "longest_request_seconds", request)
        if engine.grace_seconds <= self.longest_request_seconds:
            raise InvalidSettings(
                f"grace_seconds ({engine.grace_seconds:g}) must be above longest_request_seconds"
                f" ({self.longest_request_seconds:g}): what a request reads would be cleaned up"
                " under it"
            )

    @staticmethod
    def _at_least(name: str, value: float, times: int, other: str, least: float) -> None:
        if value < times * least:
            often = "twice " if times > 1 else ""
            raise InvalidSettings(
                f"{name} ({value:g}) must be at least {often}{other} ({least:g}): garbage"
                " collection would take what is still in use"
            )
