"""The lease of each repository's garbage collection, and the end of its last run.

A run holds the lease through `lease`, in a server or by the REST API.
"""

from dataclasses import dataclass
from typing import Final

from lakebed.catalog import records_pb2 as pb
from lakebed.catalog.keys import GC
from lakebed.engine.engine import Engine
from lakebed.engine.leases import LeaseRecords
from lakebed.engine.model import RepositoryID
from lakebed.kv import Store
from lakebed.kv.records import Records
from lakebed.leases import LeaseState
from lakebed.runtime import Runtime
from lakebed.times import now_us

_NAME: Final = b"last_run"


@dataclass(frozen=True, slots=True)
class LastRun:
    """What the runs of a repository left."""

    good_us: int
    """When one last ended and had done all that it should; 0: none has."""
    next_us: int
    """No run before this time would find anything to delete."""
    ended_us: int
    """When one last ended, whatever it did."""


class GCLeases:
    """Leases of repositories. All methods raise `RepositoryNotFound`, and what a store raises."""

    def __init__(self, engine: Engine, store: Store, runtime: Runtime, *, seconds: float) -> None:
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self._seconds = seconds

    def take(self, repository_id: RepositoryID, holder: str, *, over: str = "") -> LeaseState:
        """Take a lease if it is free, or has the mark `over`; return it as it is now."""
        return self._lease(repository_id).take_lease(holder, over)

    def renew(self, repository_id: RepositoryID, holder: str) -> LeaseState:
        """Renew a lease if this holder has it; return it as it is now."""
        return self._lease(repository_id).renew_lease(holder)

    def give_back(
        self, repository_id: RepositoryID, holder: str, *, is_good: bool, next_us: int
    ) -> None:
        """Note the end of a run and release its lease, if this holder has it.

        A run that loses its lease between the two notes its end too. That only moves the time of
        the next run.

        Args:
            repository_id: Of which repository.
            holder: Who gives it back.
            is_good: Whether the run ended and had done all that it should.
            next_us: No run before this time would find anything to delete.
        """
        lease = self._lease(repository_id)
        if lease.renew_lease(holder).holder != holder:
            return
        ended_us = now_us(self._runtime)

        def end(message: pb.GCLastRun) -> None:
            message.next_us, message.ended_us = next_us, ended_us
            if is_good:
                message.good_us = ended_us

        self._records(repository_id).change(_NAME, end)
        lease.release_lease(holder)

    def expect_garbage(self, repository_id: RepositoryID) -> None:
        """Note that there may be garbage before the time that the last run gave.

        It only saves waiting: a run that ends at this very moment may say otherwise.
        """

        def expect(message: pb.GCLastRun) -> None:
            message.next_us = 0

        if self.last_run(repository_id).next_us:
            self._records(repository_id).change(_NAME, expect)

    def last_run(self, repository_id: RepositoryID) -> LastRun:
        """Return what the runs of a repository left."""
        record = self._records(repository_id).find(_NAME)
        message = record.message if record is not None else pb.GCLastRun()
        return LastRun(message.good_us, message.next_us, message.ended_us)

    def _lease(self, repository_id: RepositoryID) -> LeaseRecords:
        unique_id = self._engine.repositories.get(repository_id).unique_id
        return LeaseRecords(self._store, self._runtime, f"gc/{unique_id}".encode(), self._seconds)

    def _records(self, repository_id: RepositoryID) -> Records[pb.GCLastRun]:
        repository = self._engine.repositories.get(repository_id)
        return Records(self._store, GC, repository.partition)
