"""Where new objects go: addresses that tell whose an object is and when it was issued.

    repos/<repository uid>/branches/<branch>/<partition>/<object uid>

A *partition* is a folder that one process puts its objects in for a while. Its name begins with the
time of its making, counted down, so that listings show the newest first; and ends with chance, so
that no two processes share one. A process takes a new one after so many objects and after so long:
garbage collection may then skip folders that can get no more. An *object uid* begins with the time
at which it was issued, so that the age of an object is known from its address alone.

Times are microseconds since 1970 by the clock of the server that issued them.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NewType

from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.model import BranchID, Repository
from lakebed.ids import UniqueID
from lakebed.runtime import Runtime

ObjectUID = NewType("ObjectUID", str)
"""What tells an object from every other; it carries the time of its issue."""

PartitionID = NewType("PartitionID", str)
"""A folder of one process; it carries the time of its making."""

_TIME_MAX: Final = (1 << 64) - 1
_PARTITION: Final = re.compile(r"([0-9a-f]{16})-[0-9a-f]{12}")
_OBJECT: Final = re.compile(r"([0-9a-f]{16})[0-9a-f]{20}")
_ADDRESS: Final = re.compile(r"repos/([0-9a-f]+)/branches/([^/]+)/([^/]+)/([^/]+)")


@dataclass(frozen=True, slots=True)
class ObjectAddress:
    """The parts of an address that was issued here, relative to the namespace."""

    repository_uid: UniqueID
    branch: BranchID
    partition: PartitionID
    uid: ObjectUID

    def __str__(self) -> str:
        folder = f"repos/{self.repository_uid}/branches/{self.branch}"
        return f"{folder}/{self.partition}/{self.uid}"

    @property
    def issued(self) -> float:
        """When it was issued, in seconds since 1970."""
        match = _OBJECT.fullmatch(self.uid)
        assert match is not None, "an address is made by `Addresses` or `parse_address`"
        return int(match[1], 16) / 1e6

    @classmethod
    def parse(cls, relative: str) -> "ObjectAddress | None":
        """Return the parts of an address; None if it is none that was issued here."""
        match = _ADDRESS.fullmatch(relative)
        if match is None or not _OBJECT.fullmatch(match[4]) or not _PARTITION.fullmatch(match[3]):
            return None
        repository_uid, branch, partition, uid = match.groups()
        return cls(
            UniqueID(repository_uid), BranchID(branch), PartitionID(partition), ObjectUID(uid)
        )


def partition_made(partition: PartitionID) -> float | None:
    """Return when a partition was made, in seconds since 1970; None if it is no partition."""
    match = _PARTITION.fullmatch(partition)
    return None if match is None else (_TIME_MAX - int(match[1], 16)) / 1e6


@dataclass(slots=True)
class _Partition:
    id: PartitionID
    made: float
    process_id: int
    objects: int = 0


class Addresses:
    """Issues addresses, for one process."""

    def __init__(
        self,
        runtime: Runtime,
        settings: CatalogSettings,
        *,
        process_id: Callable[[], int] = os.getpid,
    ) -> None:
        self._runtime = runtime
        self._life_seconds = settings.partition_life_seconds
        self._objects_max = settings.partition_objects_max
        self._process_id = process_id
        self._lock = runtime.lock()
        self._current: _Partition | None = None

    def issue(self, repository: Repository, branch: BranchID) -> ObjectAddress:
        """Return an address that nobody else has, or will have."""
        now = self._runtime.now()
        uid = f"{int(now * 1e6):016x}{self._runtime.random_bytes(10).hex()}"
        return ObjectAddress(repository.unique_id, branch, self._partition(now), ObjectUID(uid))

    def _partition(self, now: float) -> PartitionID:
        with self._lock:
            current = self._current
            if current is None or self._is_over(current, now):
                current = self._current = self._new(now)
            current.objects += 1
            return current.id

    def _is_over(self, partition: _Partition, now: float) -> bool:
        return (
            partition.objects >= self._objects_max
            # Also when the clock was set back: its name would tell too late a time.
            or not 0 <= now - partition.made < self._life_seconds
            # A process that was forked off takes its own.
            or partition.process_id != self._process_id()
        )

    def _new(self, now: float) -> _Partition:
        name = f"{_TIME_MAX - int(now * 1e6):016x}-{self._runtime.random_bytes(6).hex()}"
        return _Partition(PartitionID(name), now, self._process_id())
