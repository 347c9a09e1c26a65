"""How many requests an installation answered, month by month.

Each process counts in memory and adds to the one record of the month now and then: a record for
each request would cost more than the request. What a process counted last is lost when it ends.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.engine.errors import TooManyTries
from lakebed.engine.repositories.owner import installation_id
from lakebed.kv import ABSENT, KeyNotFound, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.store import Predicate

FLUSH_SECONDS: Final = 60.0
"""How often a process adds what it counted, while requests come."""

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
    """Counts requests. One for each process, used by its threads."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._lock = runtime.lock()
        self._pending = 0
        self._due = runtime.monotonic() + FLUSH_SECONDS

    def count(self) -> None:
        """Count a request; one request in a while takes the time to store the sum."""
        with self._lock:
            self._pending += 1
            if self._runtime.monotonic() < self._due:
                return
            self._due = self._runtime.monotonic() + FLUSH_SECONDS
        try:
            self.flush()
        except (OutcomeUnknown, TooManyTries) as error:  # no request fails for being counted
            _LOGGER.warning("the count of requests could not be stored: %s", error)

    def flush(self) -> None:
        """Add what was counted to the record of this month.

        Raises:
            StoreUnavailable, TooManyTries: Nothing was added; the next time adds it too.
            OutcomeUnknown: It may have been added, and is not added again.
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
        """Return what was counted, by month; what other processes did not store yet is missing.

        Raises:
            OutcomeUnknown, TooManyTries: The store fails.
        """
        self.flush()
        found: list[MonthlyUsage] = []
        for item in self._store.scan(METADATA_PARTITION, _PREFIX):
            if not item.key.startswith(_PREFIX):
                break
            year, month = item.key.removeprefix(_PREFIX).decode().split("-")
            found.append(MonthlyUsage(int(year), int(month), int(item.value)))
        return found

    def installation_id(self) -> str:
        """Return the id of the installation."""
        return installation_id(self._store, self._runtime)

    def _add(self, counted: int) -> None:
        key = _PREFIX + datetime.fromtimestamp(self._runtime.now(), UTC).strftime("%Y-%m").encode()
        for _ in range(_TRIES):
            before, predicate = self._read(key)
            try:
                self._store.set(METADATA_PARTITION, key, str(before + counted).encode(), predicate)
            except PredicateFailed:
                continue  # another process was first
            return
        raise TooManyTries("counting requests", _TRIES)

    def _read(self, key: bytes) -> tuple[int, Predicate]:
        try:
            item = self._store.get(METADATA_PARTITION, key)
        except KeyNotFound:
            return 0, ABSENT
        return int(item.value), item.predicate
