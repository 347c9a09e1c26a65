"""Latency and errors of every call to a driver, by operation and driver, for Prometheus.

- ``lakebed_kv_seconds``: how long calls took, failed ones included.
- ``lakebed_kv_errors_total``: calls that raised, by the kind of the error. A missing key is an
  answer, not an error; a failed predicate is counted, because many of them mean contention.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from prometheus_client import Counter, Histogram

from lakebed.kv.errors import KeyNotFound, KVError
from lakebed.kv.store import ANY, DeletePredicate, Guard, Item, Pair, Predicate, Put, Store, Version
from lakebed.kv.wrappers.wrapped import WrappedStore
from lakebed.runtime import Runtime
from lakebed.tracing import traced

ParamT = ParamSpec("ParamT")
ResultT = TypeVar("ResultT")

_SECONDS = Histogram(
    "lakebed_kv_seconds",
    "Time of calls to the key-value store",
    ["operation", "driver"],
    buckets=(0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10),
)
_ERRORS = Counter(
    "lakebed_kv_errors",
    "Calls to the key-value store that raised, by kind of error",
    ["operation", "driver", "kind"],
)


class MeteredStore(WrappedStore):
    """Measures every call to the store inside."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner)
        self._clock = runtime.monotonic
        operations = (
            *("get", "get_many", "set", "set_if", "delete", "delete_if", "write"),
            *("scan_page", "partition_page", "drop_tombstones"),
        )
        self._observe = {
            operation: _SECONDS.labels(operation, inner.name).observe for operation in operations
        }

    @traced("kv.get")
    def get(self, partition: bytes, key: bytes) -> Item:
        return self._timed("get", self._inner.get, partition, key)

    @traced("kv.set")
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
        call = self._inner.set
        return self._timed(operation, call, partition, key, value, predicate, version=version)

    @traced("kv.delete")
    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        operation = "delete" if predicate is ANY else "delete_if"
        self._timed(operation, self._inner.delete, partition, key, predicate)

    @traced("kv.write")
    def write(
        self,
        writes: Sequence[Put],
        reads: Sequence[tuple[bytes, bytes]] = (),
        *,
        guards: Sequence[Guard] = (),
    ) -> list[Item | None]:
        return self._timed("write", self._inner.write, writes, reads, guards=guards)

    @traced("kv.scan_page")
    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        return self._timed("scan_page", self._inner.scan_page, partition, start, limit, end)

    @traced("kv.scan_page")
    def pairs_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Pair]:
        return self._timed("scan_page", self._inner.pairs_page, partition, start, limit, end)

    @traced("kv.partition_page")
    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return self._timed("partition_page", self._inner.partition_page, cursor)

    @traced("kv.get_many")
    def get_many(self, keys: Sequence[tuple[bytes, bytes]]) -> list[Item | None]:
        return self._timed("get_many", self._inner.get_many, keys)

    @traced("kv.drop_tombstones")
    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        drop = self._inner.drop_tombstones
        return self._timed("drop_tombstones", drop, partition, start, limit, end)

    def _timed(
        self,
        operation: str,
        call: Callable[ParamT, ResultT],
        *args: ParamT.args,
        **kwargs: ParamT.kwargs,
    ) -> ResultT:
        begun = self._clock()
        try:
            return call(*args, **kwargs)
        except KeyNotFound:
            raise
        except KVError as error:
            _ERRORS.labels(operation, self.name, error.kind).inc()
            raise
        finally:
            self._observe[operation](self._clock() - begun)
