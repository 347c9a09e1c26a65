"""Number of requests served by an installation, per month.

Each process counts in memory and regularly adds its count to the record of the month: a record per
request would cost more than the request. Counts not yet stored when a process ends are lost.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.engine.errors import TooManyTries
from lakebed.engine.repositories.ownership import installation_id
from lakebed.kv import ABSENT, KeyNotFound, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.store import Predicate

FLUSH_SECONDS: Final = 60.0
"""How often a process stores its count while requests arrive."""

_PREFIX: Final = b"usage/"
_TRIES: Final = 10

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MonthlyUsage:
    """The requests of one month."""

    year: int
    month: int
    count: int


class Usage:
    """Counts requests. One instance per process, used by all threads."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._lock = runtime.lock()
        self._pending = 0
        self._due = runtime.monotonic() + FLUSH_SECONDS

    def count(self) -> None:
        """Count a request; store the count if `FLUSH_SECONDS` have passed."""
        with self._lock:
            self._pending += 1
            if self._runtime.monotonic() < self._due:
                return
            self._due = self._runtime.monotonic() + FLUSH_SECONDS
        try:
            self.flush()
        except (OutcomeUnknown, TooManyTries) as error:  # counting must not fail a request
            _LOGGER.warning("the request count could not be stored: %s", error)

    def flush(self) -> None:
        """Add the pending count to the record of this month.

        Raises:
            StoreUnavailable, TooManyTries: Nothing was added; the count stays pending.
            OutcomeUnknown: The count may have been added, and is dropped.
        """
        with self._lock:
            counted, self._pending = self._pending, 0
        if not counted:
            return
        try:
            self._add(counted)
        except (StoreUnavailable, TooManyTries):
            with self._lock:
                self._pending += counted
            raise

    def report(self) -> list[MonthlyUsage]:
        """Return the counts by month, without counts pending in other processes."""
        self.flush()
        found: list[MonthlyUsage] = []
        for item in self._store.scan(METADATA_PARTITION, _PREFIX):
            if not item.key.startswith(_PREFIX):
                break
            year, month = item.key.removeprefix(_PREFIX).decode().split("-")
            found.append(MonthlyUsage(int(year), int(month), int(item.value)))
        return found

    def installation_id(self) -> str:
        return installation_id(self._store, self._runtime)

    def _add(self, counted: int) -> None:
        key = _PREFIX + datetime.fromtimestamp(self._runtime.now(), UTC).strftime("%Y-%m").encode()
        for _ in range(_TRIES):
            before, predicate = self._read(key)
            try:
                self._store.set(METADATA_PARTITION, key, str(before + counted).encode(), predicate)
            except PredicateFailed:
                continue  # another process wrote first
            return
        raise TooManyTries("counting requests", _TRIES)

    def _read(self, key: bytes) -> tuple[int, Predicate]:
        try:
            item = self._store.get(METADATA_PARTITION, key)
        except KeyNotFound:
            return 0, ABSENT
        return int(item.value), item.predicate
