"""The store returned by `open_store`: a driver with metrics, halt checks, retries and namespaces.

Each attempt of a call is a span and is measured. Writes are refused while the store is halted
(`lakebed.kv.halt`); each attempt checks the halt flag, so it also stops calls in long retries. In a
namespace, every partition is prefixed with the namespace, which isolates installations from each
other.

**A call that changed nothing** (`StoreUnavailable`) is repeated unchanged (`lakebed.kv.retries`).

**A write without a reply** (`OutcomeUnknown`) is never repeated blindly. The key is read back:

- The key has the version of the write: the write was applied, once; report success.
- The key has the version of the predicate: the write was not applied, and by the contract of a
  driver never will be; repeat the write with the same version.
- Otherwise: the write may have been applied and overwritten since, and repeating could apply it
  twice. `OutcomeUnknown` is raised to the caller, who can decide by the content of the record. For
  a create, a missing key proves nothing: another caller may have deleted the key after the write.
- An unconditional deletion only promises that the key was absent at a moment within the call.

A call with several writes is not read back: `OutcomeUnknown` is raised to the caller.

Metrics, by operation and driver:

- ``lakebed_kv_seconds``: duration of attempts, including failed ones.
- ``lakebed_kv_errors_total``: attempts that raised, by the kind of the error. A missing key is not
  counted; a failed predicate is, because many of them indicate contention.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, ParamSpec, TypeVar

from prometheus_client import Counter, Histogram

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import span_starter
from lakebed.kv.errors import (
    KeyNotFound,
    KVError,
    OutcomeUnknown,
    PredicateFailed,
    StoreClosed,
    StoreHalted,
    StoreUnavailable,
)
from lakebed.kv.halt import CHECK_SECONDS, HALT_KEY, Permit, decode_halt, find_halt
from lakebed.kv.retries import Budget, Retries
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.store import (
    ANY,
    NAMESPACE_MARK,
    DeletePredicate,
    Item,
    Predicate,
    Put,
    Store,
    Version,
    applied_before,
    new_version,
    still_unknown,
)

ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

Place = tuple[bytes, bytes]
"""A partition and a key."""

OPERATIONS: Final = (
    *("get", "get_many", "scan_page", "partition_page"),
    *("set", "set_if", "delete", "delete_if", "write", "drop_tombstones"),
)
WRITE_CHUNK: Final = 1000
"""Maximum number of writes in one call to the driver."""

_LOGGER: Final = logging.getLogger(__name__)
_SECONDS = Histogram(
    "lakebed_kv_seconds",
    "Duration of calls to the key-value store",
    ["operation", "driver"],
    buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10),
)
_ERRORS = Counter(
    "lakebed_kv_errors",
    "Failed calls to the key-value store, by kind of error",
    ["operation", "driver", "kind"],
)


class HaltCheck:
    """Refuses writes while the halt flag of a store differs from a permit.

    The flag itself may be written at any time: its writer compares it with the previous one.
    """

    def __init__(self, store: Store, runtime: Runtime, permit: Permit, prefix: bytes = b"") -> None:
        self._store = store
        self._clock = runtime.monotonic
        self._permit = permit
        self._prefix = prefix
        """Prefix of all partitions."""
        self._expected: bytes | None = None
        self._checked_at = float("-inf")

    def check(self, places: Sequence[tuple[bytes, bytes]]) -> None:
        """Check that this process may write to these partitions and keys."""
        if self._permit.reads_only:
            raise StoreHalted("this store was opened read-only")
        expected = self._permit.flag
        # Take the time before reading the flag: it may be written right after the read.
        now = self._clock()
        if expected == self._expected and now - self._checked_at < CHECK_SECONDS:
            return
        if all(place == (METADATA_PARTITION, HALT_KEY) for place in places):
            return
        flag = find_halt(self._store, self._prefix)
        if expected is None:
            refused = flag is not None and decode_halt(flag.value).halts
        else:
            refused = flag is None or flag.value != expected
        if refused:
            raise StoreHalted(_reason(flag))
        self._expected, self._checked_at = expected, now


def _reason(found: Item | None) -> str:
    halt = None if found is None else decode_halt(found.value)
    if halt is None or not halt.halts:
        return "this copy was completed by another run, or cancelled"
    return halt.explain()


class ManagedStore(Store):
    """A driver with halt checks, retries, metrics and namespaces.

    Args:
        driver: The store of a driver; closed together with this one.
        runtime: Provides clock, randomness and threads.
        permit: Permission of this process to write; None: always.
        namespace: The part of the store to use; None: the whole store.
    """

    def __init__(
        self,
        driver: Store,
        runtime: Runtime,
        *,
        permit: Permit | None = None,
        namespace: str | None = None,
    ) -> None:
        self.name = driver.name
        self.limits = driver.limits
        self.shared_between_processes = driver.shared_between_processes
        self.driver = driver
        self._runtime = runtime
        self._clock = runtime.monotonic
        self._budget = Budget(runtime)
        self._prefix = b""
        if namespace is not None:
            self._prefix = NAMESPACE_MARK + namespace.encode() + b"\x00"
            available = driver.limits.partition_bytes - len(self._prefix)
            self.limits = replace(driver.limits, partition_bytes=available)
        self._halt = None if permit is None else HaltCheck(driver, runtime, permit, self._prefix)
        self._observe = {each: _SECONDS.labels(each, driver.name).observe for each in OPERATIONS}

    def get(self, partition: bytes, key: bytes) -> Item:
        return self._repeat("get", (), self.driver.get, self._inside(partition), key)

    def get_many(self, keys: Sequence[Place]) -> list[Item | None]:
        return self._repeat("get_many", (), self.driver.get_many, self._all_inside(keys))

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        inside = self._inside(partition)
        return self._repeat("scan_page", (), self.driver.scan_page, inside, start, limit, end)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        page, after = self._repeat("partition_page", (), self.driver.partition_page, cursor)
        return [
            each.removeprefix(self._prefix) for each in page if each.startswith(self._prefix)
        ], after

    def write(self, writes: Sequence[Put], reads: Sequence[Place] = ()) -> list[Item | None]:
        found: list[Item | None] | None = None
        if len(writes) == 1:
            partition, key, value, predicate, version = writes[0]
            version = version or new_version(self._runtime)
            put = Put(self._inside(partition), key, value, predicate, version)
            call = partial(self.driver.write, [put], self._all_inside(reads))
            operation = "write" if reads else "set" if predicate is ANY else "set_if"
            found = self._write(operation, (partition, key), predicate, version, call)
        else:
            for begin in range(0, len(writes), WRITE_CHUNK):
                chunk = writes[begin : begin + WRITE_CHUNK]
                places = [put[:2] for put in chunk]
                inside = [put._replace(partition=self._inside(put.partition)) for put in chunk]
                with applied_before(any_step=begin > 0):
                    self._repeat("write", places, self.driver.write, inside)
        if found is not None or not reads:
            return found or []
        with applied_before(any_step=bool(writes)):
            return self.get_many(reads)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        call = partial(self.driver.delete, self._inside(partition), key, predicate)
        operation = "delete" if predicate is ANY else "delete_if"
        self._write(operation, (partition, key), predicate, None, call)

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        drop, inside = self.driver.drop_tombstones, self._inside(partition)
        places = ((partition, b""),)
        return self._repeat("drop_tombstones", places, drop, inside, start, limit, end)

    def close(self) -> None:
        self.driver.close()

    def _repeat(
        self,
        operation: str,
        places: Sequence[Place],
        call: Callable[ParamT, ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Make a call, and retry after `StoreUnavailable`."""
        begun = self._clock()
        retries: Retries | None = None
        while True:
            try:
                return self._attempt(operation, places, call, *args, **kwargs)
            except StoreUnavailable as error:
                retries = retries or self._retries(operation, begun)
                retries.pause_or_raise(error)

    def _write(
        self,
        operation: str,
        place: Place,
        predicate: Predicate,
        version: Version | None,
        call: Callable[[], ResultT],
    ) -> ResultT | None:
        """Write until the outcome is certain; return None if the write was applied without a reply.

        `version` is the version of the write, or None for a deletion.

        Raises:
            OutcomeUnknown: The write may have been applied, or its retries are exhausted.
        """
        begun = self._clock()
        retries: Retries | None = None
        while True:
            try:
                return self._attempt(operation, (place,), call)
            except OutcomeUnknown as error:
                if not isinstance(error, StoreUnavailable):
                    current = self._read_back(place, error)
                    applied = self._was_applied(predicate, version, current)
                    if applied is not False:
                        _log_lost(operation, place, error, applied=applied)
                        if applied:
                            return None
                        raise
                retries = retries or self._retries(operation, begun)
                retries.pause_or_raise(error)

    def _was_applied(
        self, predicate: Predicate, version: Version | None, current: Item | None
    ) -> bool | None:
        """Return whether a write was applied, by the item read back; None if unknown."""
        if current is None:
            return True if version is None and predicate is ANY else None
        if current.predicate == version:
            return True
        return False if current.predicate == predicate else None

    def _read_back(self, place: Place, error: OutcomeUnknown) -> Item | None:
        partition, key = self._inside(place[0]), place[1]
        retries: Retries | None = None
        while True:
            try:
                return self._attempt("get", (), self.driver.get, partition, key)
            except KeyNotFound:
                return None
            except StoreClosed:
                raise error from None
            except StoreUnavailable as unanswered:
                retries = retries or self._retries("get", self._clock(), patient=True)
                with still_unknown(error):
                    retries.pause_or_raise(unanswered)

    def _retries(self, operation: str, begun: float, *, patient: bool = False) -> Retries:
        return Retries(self._runtime, self._budget, operation, begun, patient=patient)

    def _attempt(
        self,
        operation: str,
        places: Sequence[Place],
        call: Callable[ParamT, ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        """Make one attempt, traced and measured; refuse writes while the store is halted."""
        begun = self._clock()
        try:
            if places and self._halt is not None:
                self._halt.check(places)
            begin_span = span_starter()
            if begin_span is None:
                return call(*args, **kwargs)
            with begin_span("kv." + operation):
                return call(*args, **kwargs)
        except KVError as error:
            if not isinstance(error, KeyNotFound):
                _ERRORS.labels(operation, self.name, error.kind).inc()
            if self._prefix and isinstance(error, KeyNotFound | PredicateFailed):
                # Restore the partition name used by the caller.
                raise type(error)(error.partition.removeprefix(self._prefix), error.key) from None
            raise
        finally:
            self._observe[operation](self._clock() - begun)

    def _inside(self, partition: bytes) -> bytes:
        if not self._prefix:
            return partition
        self.limits.check_partition(partition)
        return self._prefix + partition

    def _all_inside(self, places: Sequence[Place]) -> Sequence[Place]:
        return [(self._inside(of), key) for of, key in places] if self._prefix else places


def _log_lost(operation: str, place: Place, error: OutcomeUnknown, *, applied: bool | None) -> None:
    text = (
        "%s of key %s was applied, but its reply was lost: %s"
        if applied
        else "the outcome of %s of key %s is unknown: %s"
    )
    _LOGGER.warning(text, operation, quoted(place[1]), error)
