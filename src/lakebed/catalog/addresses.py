"""Where new objects go: issues paths of the form that `lakebed.formats.object_paths` describes.

A process takes a new partition after so many objects and after so long, so that garbage collection
can skip the partitions that will get no more objects.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.model import BranchID, Repository
from lakebed.formats.object_paths import (
    OBJECT_RANDOM_BYTES,
    PARTITION_RANDOM_BYTES,
    ObjectPath,
    PartitionID,
    new_object_uid,
    new_partition,
)
from lakebed.runtime import Runtime
from lakebed.times import to_us


@dataclass(slots=True)
class _Partition:
    id: PartitionID
    made: float
    process_id: int
    objects: int = 0


class Addresses:
    """Issues the paths of new objects, for one process."""

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

    def issue(self, repository: Repository, branch: BranchID) -> ObjectPath:
        """Return a path that no other object has or will have."""
        now = self._runtime.now()
        uid = new_object_uid(to_us(now), self._runtime.random_bytes(OBJECT_RANDOM_BYTES))
        return ObjectPath(repository.unique_id, branch, self._partition(now), uid)

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
            # Also when the clock was set back: the time in its name would be too late.
            or not 0 <= now - partition.made < self._life_seconds
            # A process that was forked off takes its own.
            or partition.process_id != self._process_id()
        )

    def _new(self, now: float) -> _Partition:
        random_bytes = self._runtime.random_bytes(PARTITION_RANDOM_BYTES)
        return _Partition(new_partition(to_us(now), random_bytes), now, self._process_id())
