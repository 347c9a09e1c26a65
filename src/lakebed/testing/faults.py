"""A store that passes every call through an interceptor, to inject faults.

An interceptor may delay a call, refuse it, apply it and lose the reply, or apply it after an
error. The simulator's interceptor also schedules the callers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lakebed.kv.errors import OutcomeUnknown, StoreUnavailable
from lakebed.kv.store import ANY, DeletePredicate, Item, Put, Store, Version, applied_before

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class StoreCall:
    """A call to a store."""

    operation: str
    partition: bytes
    key: bytes
    writes: bool
    version: Version | None = None
    """Version of a write, if chosen by the caller."""


class Interceptor(Protocol):
    """Decides the outcome of a call."""

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        """Return the result of `apply`, called or not, or raise."""


class FaultyStore(Store):
    """Passes every call through an interceptor to the inner store."""

    def __init__(self, inner: Store, intercept: Interceptor) -> None:
        self.name = inner.name
        self.limits = inner.limits
        self.shared_between_processes = inner.shared_between_processes
        self._runtime = inner._runtime  # noqa: SLF001 - the versions of its writes
        self._inner = inner
        self._intercept = intercept

    def close(self) -> None:
        self._inner.close()

    def get(self, partition: bytes, key: bytes) -> Item:
        call = StoreCall("get", partition, key, writes=False)
        return self._intercept(call, lambda: self._inner.get(partition, key))

    def _set(self, put: Put) -> None:
        operation = "set" if put.predicate is ANY else "set_if"
        call = StoreCall(operation, put.partition, put.key, writes=True, version=put.version)
        self._intercept(call, lambda: self._inner.write([put]))

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        if len(writes) < 2:
            return super().write(writes, reads)
        call = StoreCall("write", b"", b"", writes=True)
        self._intercept(call, lambda: self._inner.write(writes))
        with applied_before(any_step=True):
            return self.get_many(reads) if reads else []

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        call = StoreCall("delete", partition, key, writes=True)
        if isinstance(predicate, bytes):
            call = StoreCall("delete_if", partition, key, writes=True, version=predicate)
        self._intercept(call, lambda: self._inner.delete(partition, key, predicate))

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        call = StoreCall("scan_page", partition, start, writes=False)
        return self._intercept(call, lambda: self._inner.scan_page(partition, start, limit, end))

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        call = StoreCall("partition_page", b"", cursor, writes=False)
        return self._intercept(call, lambda: self._inner.partition_page(cursor))

    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        call = StoreCall("get_many", b"", b"", writes=False)
        return self._intercept(call, lambda: self._inner.get_many(keys))

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        call = StoreCall("drop_tombstones", partition, start, writes=True)
        return self._intercept(
            call, lambda: self._inner.drop_tombstones(partition, start, limit, end)
        )


def lost(call: StoreCall, *, known: bool) -> OutcomeUnknown:
    """Return the error for a lost request or reply.

    A failed read changed nothing; after a failed write, the driver may know the outcome or not.
    """
    if known or not call.writes:
        return StoreUnavailable(f"injected: {call.operation} did not reach the store")
    return OutcomeUnknown(f"injected: no reply to {call.operation}")
