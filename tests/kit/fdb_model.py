"""A model of FoundationDB and of its Python client, as far as the driver uses them.

It shows what the driver makes of transactions that conflict as the documentation says, and of
commits whose outcome is unknown. It shows nothing about the real client or the real database.
"""

import threading
from collections.abc import Callable
from enum import Enum, auto
from types import SimpleNamespace
from typing import NamedTuple

from sortedcontainers import SortedDict

NOT_COMMITTED = 1020
COMMIT_UNKNOWN_RESULT = 1021
TRANSACTION_TIMED_OUT = 1031
TRANSACTION_TOO_LARGE = 2101
KEY_TOO_LARGE = 2102
VALUE_TOO_LARGE = 2103


class FDBError(Exception):
    """An error of the client."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self.code = code


class Fault(Enum):
    """What becomes of a commit."""

    LOST = auto()
    """It never arrives."""
    REPLY_LOST = auto()
    """It is applied, and nobody hears of it."""
    LATE = auto()
    """It is on its way, until the model is told to let it arrive."""


class Write(NamedTuple):
    """A range that was written at a version."""

    version: int
    begin: bytes
    end: bytes


class Cluster:
    """All that a cluster holds, at all versions."""

    def __init__(self) -> None:
        self.rows: SortedDict[bytes, list[tuple[int, bytes | None]]] = SortedDict()
        self.version = 1
        self.writes: list[Write] = []
        self.lock = threading.RLock()
        self.faults: list[Fault] = []
        """What becomes of the next commits, in this order; of others, what should."""
        self.held: list[Transaction] = []
        self.down = False

    def create_transaction(self) -> "Transaction":
        return Transaction(self)

    def read(self, name: bytes, version: int) -> bytes | None:
        history = self.rows.get(name, [])
        return next((value for at, value in reversed(history) if at <= version), None)

    def apply(self, transaction: "Transaction") -> None:
        """Commit a transaction, or refuse it."""
        with self.lock:
            read_version = transaction.read_version()
            for write in reversed(self.writes):
                if write.version <= read_version:
                    break
                if any(write.begin <= name < write.end for name in transaction.reads):
                    raise FDBError(NOT_COMMITTED)
            self.version += 1
            for change in transaction.changes:
                change(self.version)
            self.writes += [Write(self.version, begin, end) for begin, end in transaction.written]

    def release(self) -> int:
        """Let all arrive that is on its way; return how many of these were applied."""
        held, self.held = self.held, []
        applied = 0
        for transaction in held:
            try:
                self.apply(transaction)
            except FDBError:
                continue
            applied += 1
        return applied


class Future:
    """A result that is there when somebody waits for it."""

    def __init__(self, get: Callable[[], object]) -> None:
        self._get = get

    def wait(self) -> object:
        return self._get()

    @property
    def value(self) -> object:
        return self._get()


class Transaction:
    """Reads at one version; writes that are applied by the commit, or not at all."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_version: int | None = None
        self.reads: list[bytes] = []
        self.written: list[tuple[bytes, bytes]] = []
        self.changes: list[Callable[[int], None]] = []
        self._size = 0
        self._error: int | None = None
        self.options = SimpleNamespace(set_timeout=lambda _: None)

    def read_version(self) -> int:
        if self._cluster.down:
            raise FDBError(TRANSACTION_TIMED_OUT)
        if self._read_version is None:
            self._read_version = self._cluster.version
        return self._read_version

    def get_read_version(self) -> Future:
        return Future(self.read_version)

    def get(self, key: bytes) -> Future:
        self.reads.append(key)
        return Future(lambda: self._cluster.read(key, self.read_version()))

    def get_range(
        self, begin: bytes, end: bytes, limit: int = 0, *, streaming_mode: object = None
    ) -> list[SimpleNamespace]:
        found: list[SimpleNamespace] = []
        with self._cluster.lock:
            for name in self._cluster.rows.irange(begin, end, inclusive=(True, False)):
                value = self._cluster.read(name, self.read_version())
                if value is not None:
                    found.append(SimpleNamespace(key=name, value=value))
                    if len(found) == limit:  # 0: all
                        break
        return found

    def add_read_conflict_key(self, key: bytes) -> None:
        self.reads.append(key)

    def add_write_conflict_key(self, key: bytes) -> None:
        self.written.append((key, key + b"\x00"))

    def set(self, key: bytes, value: bytes) -> None:
        if len(key) > 10_000:
            self._error = KEY_TOO_LARGE
        if len(value) > 100_000:
            self._error = VALUE_TOO_LARGE
        self._size += len(key) + len(value)
        self.add_write_conflict_key(key)
        rows = self._cluster.rows
        self.changes.append(lambda version: rows.setdefault(key, []).append((version, value)))

    def clear(self, key: bytes) -> None:
        self.clear_range(key, key + b"\x00")

    def clear_range(self, begin: bytes, end: bytes) -> None:
        self.written.append((begin, end))

        def change(version: int) -> None:
            rows = self._cluster.rows
            for name in rows.irange(begin, end, inclusive=(True, False)):
                rows[name].append((version, None))

        self.changes.append(change)

    def commit(self) -> Future:
        return Future(self._commit)

    def _commit(self) -> None:
        if self._error is not None or self._size > 10_000_000:
            raise FDBError(self._error or TRANSACTION_TOO_LARGE)
        cluster = self._cluster
        fault = cluster.faults.pop(0) if cluster.faults else None
        if fault is Fault.LATE:
            # Without a version by now, it gets one when it arrives.
            cluster.held.append(self)
            raise FDBError(TRANSACTION_TIMED_OUT)
        if fault is not Fault.LOST:
            cluster.apply(self)
        if fault is not None:
            raise FDBError(COMMIT_UNKNOWN_RESULT)


class Client:
    """What ``import fdb`` gives."""

    FDBError = FDBError
    StreamingMode = SimpleNamespace(want_all=-2)

    def __init__(self) -> None:
        self.clusters: dict[str | None, Cluster] = {}

    def api_version(self, ver: int) -> None:
        assert ver > 0

    def open(self, cluster_file: str | None = None) -> Cluster:
        return self.clusters.setdefault(cluster_file, Cluster())
