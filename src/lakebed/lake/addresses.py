"""Where new objects go, and how long they count as new.

Paths have the form that `lakebed.formats.object_paths` describes. A process takes a new partition
after so many objects and after so long, so that garbage collection can skip the partitions that
will get no more objects.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.base.runtime import Runtime
from lakebed.base.times import now_us, to_us
from lakebed.block import Address
from lakebed.engine.model import BranchID, Repository
from lakebed.engine.staging.writer import IsFresh
from lakebed.formats.object_paths import (
    OBJECT_RANDOM_BYTES,
    PARTITION_RANDOM_BYTES,
    ObjectPath,
    PartitionID,
    new_object_uid,
    new_partition,
)
from lakebed.lake.settings import CatalogSettings


@dataclass(slots=True)
class _Partition:
    id: PartitionID
    made: float
    process_id: int
    objects: int = 0


class Issued(NamedTuple):
    """Where a new object goes."""

    path: ObjectPath
    text: str
    """The path as the entry holds it."""
    address: Address


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

    def issue(self, repository: Repository, branch: BranchID) -> Issued:
        """Return a path that no other object has or will have."""
        now = self._runtime.now()
        uid = new_object_uid(to_us(now), self._runtime.random_bytes(OBJECT_RANDOM_BYTES))
        path = ObjectPath(repository.unique_id, branch, self._partition(now), uid)
        text = str(path)
        return Issued(path, text, repository.namespace.address(text))

    def _partition(self, now: float) -> PartitionID:
        with self._lock:
            current = self._current
            if (
                current is None
                or current.objects >= self._objects_max
                # Also when the clock was set back: the time in its name would be too late.
                or not 0 <= now - current.made < self._life_seconds
                # A process that was forked off takes its own.
                or current.process_id != self._process_id()
            ):
                current = self._current = self._new(now)
            current.objects += 1
            return current.id

    def _new(self, now: float) -> _Partition:
        random_bytes = self._runtime.random_bytes(PARTITION_RANDOM_BYTES)
        return _Partition(new_partition(to_us(now), random_bytes), now, self._process_id())


class Freshness:
    """Judges the age of objects by the clock of this process.

    This is the rule that keeps writers and garbage collection out of each other's way. Garbage
    collection leaves objects alone that are younger than `min_age_seconds`. A writer stages an
    object only while it is younger than half of that, and checks the age again before it
    acknowledges. So if a collection has not seen the entry, the object was too young for it when it
    set its cutoff.
    """

    def __init__(self, runtime: Runtime, settings: CatalogSettings) -> None:
        self._runtime = runtime
        self._hold_us = to_us(settings.longest_hold_seconds)
        self._window_us = to_us(settings.copy_window_seconds)
        self._url_us = to_us(settings.presign_life_seconds + settings.skew_seconds)

    def test(self, path: ObjectPath) -> IsFresh:
        """Return a test of whether an object may still be staged."""
        issued_us = path.issued_us
        return lambda: now_us(self._runtime) - issued_us < self._hold_us

    def may_share(self, path: ObjectPath) -> bool:
        """Whether an object is so young that a copy may use its address."""
        return now_us(self._runtime) - path.issued_us < self._window_us

    def is_settled(self, path: ObjectPath) -> bool:
        """Whether an object is so old that no URL to write it works any more."""
        return now_us(self._runtime) - path.issued_us > self._url_us
