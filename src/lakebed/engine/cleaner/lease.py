"""A lease in the key-value store, so that work is done by one process at a time.

It only saves work. Safety must not depend on it: a holder that sleeps does not know that its lease
was taken over.

A lease is a record that its holder writes again and again. Another process takes it over when it
has seen the same record for as long as the lease lasts, by its own clock (the clocks of two
processes are never compared); or when the time in the record is more than an hour ago, for
processes that do not run that long.
"""

import logging
from contextlib import suppress
from typing import Final

from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import LEASES
from lakebed.kv import ABSENT, OutcomeUnknown, Predicate, PredicateFailed, Store, Version
from lakebed.kv.records import Record, Records
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.runtime import Runtime
from lakebed.times import now_us

_LOGGER: Final = logging.getLogger(__name__)

FORGOTTEN_SECONDS: Final = 3600.0
"""A lease that was not renewed for so long, by the wall clock, may be taken over by anyone."""

_HOLDER_BYTES: Final = 8


class Lease:
    """The lease of one name, as one process sees it."""

    def __init__(self, store: Store, runtime: Runtime, name: bytes, *, seconds: float) -> None:
        self._runtime = runtime
        self._name = name
        self._seconds = seconds
        self._records = Records(store, LEASES, METADATA_PARTITION)
        self._holder = runtime.random_bytes(_HOLDER_BYTES).hex()
        self._message = pb.Lease()
        """The record as it was read before this process wrote it."""
        self._held: Version | None = None
        self._renewed_at = 0.0
        self._seen: tuple[Version, float] | None = None

    def acquire(self) -> bool:
        """Take the lease; return whether this process holds it now."""
        record = self._records.find(self._name)
        if record is None:
            return self._write(ABSENT)
        if not self._may_take(record):
            return False
        self._message = record.message
        previous = record.message.holder
        taken = self._write(record.predicate)
        if taken and previous != self._holder:
            _LOGGER.warning("took over the lease %s, which was not renewed", self._name.decode())
        return taken

    def keep(self) -> bool:
        """Renew the lease if it is time to; return whether this process still holds it."""
        if self._runtime.monotonic() - self._renewed_at < self._seconds / 3:
            return True
        return self._held is not None and self._write(self._held)

    def release(self) -> None:
        """Give the lease back, if this process holds it."""
        # If it fails, someone took the lease over, or will in a while.
        with suppress(PredicateFailed, OutcomeUnknown):
            if self._held is not None:
                self._records.delete_if(self._name, self._held)
        self._held = None

    def _write(self, predicate: Predicate) -> bool:
        self._held = None
        self._renewed_at = self._runtime.monotonic()
        message = self._message
        message.holder, message.renewed_us = self._holder, now_us(self._runtime)
        # If the outcome is unknown and it was applied, the next `acquire` finds it.
        with suppress(PredicateFailed, OutcomeUnknown):
            self._held = self._records.set_if(self._name, message, predicate)
        return self._held is not None

    def _may_take(self, record: Record[pb.Lease]) -> bool:
        if record.message.holder == self._holder:
            return True
        if self._runtime.now() - record.message.renewed_us / 1e6 > FORGOTTEN_SECONDS:
            return True
        now = self._runtime.monotonic()
        if self._seen is None or self._seen[0] != record.predicate:
            self._seen = record.predicate, now
        return now - self._seen[1] >= self._seconds
