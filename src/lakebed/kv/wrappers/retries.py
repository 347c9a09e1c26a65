"""Tries again what is safe to try again, and finds out what became of a write whose reply was lost.

A call that raised `StoreUnavailable` changed nothing, so it is repeated as it is. A write that
raised `OutcomeUnknown` is never repeated blindly: the wrapper reads the key back.

- Its own version is there: the write was applied, once; report success.
- The version it was to replace is still there: the write was not applied, and by the contract of a
  driver never will be; repeat it with the same version.
- Anything else: the write may have been applied and overwritten since. Repeating it could apply it
  twice, so `OutcomeUnknown` goes to the caller, who can tell by the meaning of the record. A key
  that is absent proves nothing for ``set_if(…, ABSENT)``: someone may have deleted it after our
  write.

Pauses between tries grow, with jitter. Bounds keep an outage from turning into a storm: the time
one call may take, and a budget of retries that all callers of the store share. A store that cannot
be reached at all gets less time, since whoever waits for the answer had better know soon; but not
when a lost reply is to be settled, for then an answer is worth waiting for. A store that is
full, or locked by another process, is not asked again at all.

``lakebed_kv_retries_total`` counts repeated calls, by operation and by the kind of the error that
came before. The log has what was given up and what was found out about lost replies.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from prometheus_client import Counter

from lakebed.errors import quoted
from lakebed.kv.errors import (
    KeyNotFound,
    OutcomeUnknown,
    StoreClosed,
    StoreFull,
    StoreHalted,
    StoreLocked,
    StoreUnavailable,
    StoreUnreachable,
)
from lakebed.kv.store import (
    ANY,
    DeletePredicate,
    Guard,
    Item,
    Pair,
    Predicate,
    Put,
    Store,
    Version,
    new_version,
    settling,
    step_of_many,
)
from lakebed.kv.wrappers.wrapped import WrappedStore
from lakebed.runtime import Runtime

ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

PATIENCE_SECONDS: Final = 15.0
"""How long after its first failure a call may be repeated."""

UNREACHABLE_SECONDS: Final = 1.5
"""How long after it began a call may be repeated if no connection can be had. With the try that is
then under way, which takes a driver a second at most, that makes less than three seconds."""

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
RETRY_BURST: Final = 500.0
RETRIES_PER_SECOND: Final = 50.0
WRITE_CHUNK: Final = 1000
"""At most so many writes go to the driver in one call."""

_LOGGER: Final = logging.getLogger(__name__)
_RETRIES: Final = Counter(
    "lakebed_kv_retries",
    "Calls to the key-value store that were repeated, by the kind of error that came before",
    ["operation", "reason"],
)


class _Budget:
    """Retries that all callers share: a burst at once, then a steady rate."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._left = RETRY_BURST
        self._filled_at = runtime.monotonic()

    def take(self) -> bool:
        with self._lock:
            now = self._runtime.monotonic()
            earned = (now - self._filled_at) * RETRIES_PER_SECOND
            self._left = min(RETRY_BURST, self._left + earned)
            self._filled_at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class _Tries:
    """The tries of one call, after the first one failed."""

    def __init__(
        self, runtime: Runtime, budget: _Budget, operation: str, begun: float, *, patient: bool
    ) -> None:
        self._runtime = runtime
        self._patient = patient
        self._budget = budget
        self._operation = operation
        self._begun = begun
        self._give_up_at = runtime.monotonic() + PATIENCE_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    def pause_or_raise(self, error: OutcomeUnknown) -> None:
        """Wait before the next try; raise the error of the last one if there is to be no next."""
        left = self._seconds_left(error)
        if left <= 0 or not self._budget.take():
            took = self._runtime.monotonic() - self._begun
            _LOGGER.warning("gave up %s after %.1f s: %s", self._operation, took, error)
            raise error
        _RETRIES.labels(self._operation, error.kind).inc()
        self._runtime.sleep(min(left, self._pause * (0.5 + self._runtime.random())))
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)

    def _seconds_left(self, error: OutcomeUnknown) -> float:
        now = self._runtime.monotonic()
        if isinstance(error, StoreFull | StoreLocked | StoreHalted):
            return 0.0  # waiting does not make room, and for the lock the driver has waited
        if isinstance(error, StoreUnreachable) and not self._patient:
            return self._begun + UNREACHABLE_SECONDS - now
        return self._give_up_at - now


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that may have to be repeated, and what it would leave and replace."""

    operation: str
    begun: float
    apply: Callable[[], None]
    put: Put


class RetryingStore(WrappedStore):
    """Repeats the calls to the store inside until they have a certain outcome, within bounds."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner)
        self._runtime = runtime
        self._budget = _Budget(runtime)

    def get(self, partition: bytes, key: bytes) -> Item:
        return self._repeat("get", self._inner.get, partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        return self._repeat("scan_page", self._inner.scan_page, partition, start, limit, end)

    def pairs_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Pair]:
        return self._repeat("scan_page", self._inner.pairs_page, partition, start, limit, end)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return self._repeat("partition_page", self._inner.partition_page, cursor)

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        return self._repeat("get_many", self._inner.get_many, keys)

    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        operation = "set" if predicate is ANY else "set_if"
        put = Put(partition, key, value, predicate, version or new_version(self._runtime))

        def apply() -> None:
            self._inner.set(partition, key, value, predicate, version=put.version)

        begun = self._runtime.monotonic()
        try:
            apply()
        except OutcomeUnknown as error:
            self._settle(_Write(operation, begun, apply, put), error)
        assert put.version is not None
        return put.version

    def write(
        self,
        writes: Sequence[Put],
        reads: Sequence[tuple[bytes, bytes]] = (),
        *,
        guards: Sequence[Guard] = (),
    ) -> list[Item | None]:
        if len(writes) == 1:
            return self._write_one(writes[0], reads, guards)
        applied = False
        for begin in range(0, len(writes), WRITE_CHUNK):
            with step_of_many(applied=applied):
                self._repeat("write", self._inner.write, writes[begin : begin + WRITE_CHUNK])
            applied = True
        with step_of_many(applied=applied):
            return self.get_many(reads) if reads else []

    def _write_one(
        self, put: Put, reads: Sequence[tuple[bytes, bytes]], guards: Sequence[Guard]
    ) -> list[Item | None]:
        put = put._replace(version=put.version or new_version(self._runtime))

        def apply() -> None:
            self._inner.write([put], guards=guards)

        begun = self._runtime.monotonic()
        try:
            return self._inner.write([put], reads, guards=guards)
        except OutcomeUnknown as error:
            self._settle(_Write("write", begun, apply, put), error)
        with step_of_many(applied=True):
            return self.get_many(reads) if reads else []

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        operation = "delete" if predicate is ANY else "delete_if"
        begun = self._runtime.monotonic()
        tries: _Tries | None = None
        while True:
            try:
                return self._inner.delete(partition, key, predicate)
            except OutcomeUnknown as error:
                if not isinstance(error, StoreUnavailable):
                    there = self._read_back(partition, key, error)
                    # Deleted at a moment within this call is all that a delete without a
                    # predicate promises.
                    if predicate is ANY and there is None:
                        return None
                    if predicate is ANY or there is None or there.predicate != predicate:
                        _log_unsettled(operation, key, error)
                        raise
                tries = tries or self._tries(operation, begun)
                tries.pause_or_raise(error)

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        drop = self._inner.drop_tombstones
        return self._repeat("drop_tombstones", drop, partition, start, limit, end)

    def _repeat(
        self,
        operation: str,
        call: Callable[ParamT, ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Make a call, again and again while it says that it changed nothing."""
        begun = self._runtime.monotonic()
        tries: _Tries | None = None
        while True:
            try:
                return call(*args, **kwargs)
            except StoreUnavailable as error:
                tries = tries or self._tries(operation, begun)
                tries.pause_or_raise(error)

    def _settle(self, write: _Write, error: OutcomeUnknown) -> None:
        """Bring a write with an uncertain outcome to a certain one, or raise `OutcomeUnknown`."""
        partition, key, _, predicate, version = write.put
        tries = self._tries(write.operation, write.begun)
        while True:
            if not isinstance(error, StoreUnavailable):
                there = self._read_back(partition, key, error)
                if there is not None and there.predicate == version:
                    _LOGGER.warning(
                        "%s of key %s had been applied; its reply was lost: %s",
                        write.operation,
                        quoted(key),
                        error,
                    )
                    return None
                if there is None or there.predicate != predicate:
                    _log_unsettled(write.operation, key, error)
                    raise error
            tries.pause_or_raise(error)
            try:
                return write.apply()
            except OutcomeUnknown as latest:
                error = latest

    def _read_back(self, partition: bytes, key: bytes, error: OutcomeUnknown) -> Item | None:
        tries: _Tries | None = None
        while True:
            try:
                return self._inner.get(partition, key)
            except KeyNotFound:
                return None
            except StoreClosed:
                raise error from None
            except StoreUnavailable as unanswered:
                tries = tries or self._tries("get", self._runtime.monotonic(), patient=True)
                with settling(error):
                    tries.pause_or_raise(unanswered)

    def _tries(self, operation: str, begun: float, *, patient: bool = False) -> _Tries:
        return _Tries(self._runtime, self._budget, operation, begun, patient=patient)


def _log_unsettled(operation: str, key: bytes, error: OutcomeUnknown) -> None:
    _LOGGER.warning(
        "whether %s of key %s was applied cannot be found out: %s", operation, quoted(key), error
    )
