"""The lease of each repository's garbage collection, for runs of servers and of others alike.

See `lakebed.gc.lease` for how it is used: it only saves work. Here it is a record that is changed
by compare-and-swap.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lakebed.catalog import records_pb2 as pb
from lakebed.catalog.keys import GC, copy_of
from lakebed.engine.engine import Engine
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import RepositoryID
from lakebed.formats.gc_files import GCLease
from lakebed.kv import ABSENT, PredicateFailed, Store
from lakebed.kv.records import Records
from lakebed.runtime import Runtime
from lakebed.times import now_us

_NAME: Final = b"lease"
_MARK_BYTES: Final = 8
_TRIES: Final = 10


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

    def take(self, repository_id: RepositoryID, holder: str, *, over: str = "") -> GCLease:
        """Take a lease if it is free, or has the mark `over`; return it as it is now."""
        return self._change(
            repository_id, holder, lambda found: found.holder in {"", holder} or found.mark == over
        )

    def renew(self, repository_id: RepositoryID, holder: str) -> GCLease:
        """Renew a lease if this holder has it; return it as it is now."""
        return self._change(repository_id, holder, lambda found: found.holder == holder)

    def give_back(
        self, repository_id: RepositoryID, holder: str, *, is_good: bool, next_us: int
    ) -> None:
        """Give a lease back, if this holder has it.

        Args:
            repository_id: Of which repository.
            holder: Who gives it back.
            is_good: Whether the run ended and had done all that it should.
            next_us: No run before this time would find anything to delete.
        """
        records = self._records(repository_id)
        record = records.find(_NAME)
        if record is None or record.message.holder != holder:
            return
        free = copy_of(record.message)
        free.holder, free.mark, free.next_us = "", self._new_mark(), next_us
        free.ended_us = now_us(self._runtime)
        if is_good:
            free.good_us = free.ended_us
        with suppress(PredicateFailed):  # somebody took it over just now
            records.set_if(_NAME, free, record.predicate)

    def expect_garbage(self, repository_id: RepositoryID) -> None:
        """Note that there may be garbage before the time that the last run gave.

        It only saves waiting: a run that ends at this very moment may say otherwise.
        """
        records = self._records(repository_id)
        record = records.find(_NAME)
        if record is not None and record.message.next_us:
            sooner = copy_of(record.message)
            sooner.next_us = 0
            with suppress(PredicateFailed):
                records.set_if(_NAME, sooner, record.predicate)

    def last_run(self, repository_id: RepositoryID) -> LastRun:
        """Return what the runs of a repository left."""
        record = self._records(repository_id).find(_NAME)
        message = record.message if record is not None else pb.GCLease()
        return LastRun(message.good_us, message.next_us, message.ended_us)

    def _change(
        self, repository_id: RepositoryID, holder: str, may: Callable[[pb.GCLease], bool]
    ) -> GCLease:
        records = self._records(repository_id)
        for _ in range(_TRIES):
            record = records.find(_NAME)
            message = copy_of(record.message) if record is not None else pb.GCLease()
            if not may(message):
                return self._as_lease(message)
            message.holder, message.mark = holder, self._new_mark()
            with suppress(PredicateFailed):  # somebody was faster: look again
                records.set_if(_NAME, message, ABSENT if record is None else record.predicate)
                return self._as_lease(message)
        raise TooManyTries("changing the lease of garbage collection", _TRIES)

    def _as_lease(self, message: pb.GCLease) -> GCLease:
        return GCLease(message.holder, message.mark, self._seconds)

    def _records(self, repository_id: RepositoryID) -> Records[pb.GCLease]:
        repository = self._engine.repositories.get(repository_id)
        return Records(self._store, GC, repository.partition)

    def _new_mark(self) -> str:
        return self._runtime.random_bytes(_MARK_BYTES).hex()
