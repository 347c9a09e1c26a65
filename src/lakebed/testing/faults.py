"""Lets a test stand between a caller and its store.

Every call of a `FaultyStore` goes through an interceptor, which may delay it, refuse it, apply it
and lose the reply, or apply it when nobody expects it any more. The simulator's interceptor also
decides who goes next.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from lakebed.kv.errors import OutcomeUnknown, StoreUnavailable
from lakebed.kv.store import Guard, Item, Placed, Predicate, Store, Version, step_of_many
from lakebed.kv.wrappers.wrapped import WrappedStore

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class StoreCall:
    """What a caller asks of a store."""

    operation: str
    partition: bytes
    key: bytes
    writes: bool
    version: Version | None = None
    """The mark of a write, if the caller chose it."""


class Interceptor(Protocol):
    """Decides what becomes of a call."""

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        """Return what `apply` returns, having called it or not, or raise."""


class FaultyStore(WrappedStore):
    """Sends every call through an interceptor before it reaches the store inside."""

    def __init__(self, inner: Store, intercept: Interceptor) -> None:
        super().__init__(inner)
        self._intercept = intercept

    def get(self, partition: bytes, key: bytes) -> Item:
        call = StoreCall("get", partition, key, writes=False)
        return self._intercept(call, lambda: self._inner.get(partition, key))

    def set(
        self, partition: bytes, key: bytes, value: bytes, *, version: Version | None = None
    ) -> Version:
        call = StoreCall("set", partition, key, writes=True, version=version)
        return self._intercept(
            call, lambda: self._inner.set(partition, key, value, version=version)
        )

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate,
        *,
        version: Version | None = None,
    ) -> Version:
        call = StoreCall("set_if", partition, key, writes=True, version=version)
        return self._intercept(
            call, lambda: self._inner.set_if(partition, key, value, predicate, version=version)
        )

    def set_if_then_get(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate,
        keys: Sequence[tuple[bytes, bytes]],
        *,
        guards: Sequence[Guard] = (),
        version: Version | None = None,
    ) -> list[Item | None]:
        if not guards:
            return super().set_if_then_get(partition, key, value, predicate, keys, version=version)
        call = StoreCall("set_if", partition, key, writes=True, version=version)
        write = partial(self._inner.set_if_then_get, partition, key, value, predicate)
        self._intercept(call, lambda: write((), guards=guards, version=version))
        with step_of_many(applied=True):
            return self.get_many(keys) if keys else []

    def delete(self, partition: bytes, key: bytes) -> None:
        call = StoreCall("delete", partition, key, writes=True)
        self._intercept(call, lambda: self._inner.delete(partition, key))

    def delete_if(self, partition: bytes, key: bytes, predicate: Version) -> None:
        call = StoreCall("delete_if", partition, key, writes=True, version=predicate)
        self._intercept(call, lambda: self._inner.delete_if(partition, key, predicate))

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

    def set_many(self, partition: bytes, items: Iterable[tuple[bytes, bytes]]) -> None:
        chunk = list(items)
        call = StoreCall("set_many", partition, b"", writes=True)
        self._intercept(call, lambda: self._inner.set_many(partition, chunk))

    def set_all(self, records: Sequence[Placed]) -> None:
        call = StoreCall("set_all", b"", b"", writes=True)
        self._intercept(call, lambda: self._inner.set_all(records))

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        call = StoreCall("drop_tombstones", partition, start, writes=True)
        return self._intercept(
            call, lambda: self._inner.drop_tombstones(partition, start, limit, end)
        )


def lost(call: StoreCall, *, known: bool) -> OutcomeUnknown:
    """The error that a caller sees when its request or the reply to it was lost.

    A read that failed changed nothing; of a write the driver may or may not know that.
    """
    if known or not call.writes:
        return StoreUnavailable(f"injected: {call.operation} did not reach the store")
    return OutcomeUnknown(f"injected: no reply to {call.operation}")
