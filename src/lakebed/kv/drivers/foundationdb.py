"""A store in FoundationDB (7.1 or newer): **experimental**.

``foundationdb:///etc/foundationdb/fdb.cluster``, the path of the cluster file; ``foundationdb://``
for the default of FoundationDB's tools. The Python package loads ``libfdb_c``, which is part of
``foundationdb-clients``; the package must not be newer than that library. Keys and certificates for
TLS come from ``FDB_TLS_*``.

Experimental because it was never run against a server. It is tested with a model of the client, in
which transactions conflict as documented by FoundationDB.

All records are in the subspace ``("lakebed",)``, so a cluster can contain other data, too.

**Delayed writes.** Every write is a transaction that reads one key, at a database version known
before the commit is sent. After a commit with unknown outcome, the driver commits a transaction
that conflicts with all earlier readers of this key, until FoundationDB has confirmed the commit.
From then on the lost transaction was applied, or would be refused: the key it read has been written
since. This is exact, for one record or many, and needs neither clocks nor tombstones, so the driver
does not use `lakebed.kv.fenced`. If FoundationDB does not answer for a minute, the process ends,
for the same reason as in `lakebed.kv.fenced`.

**Consistency.** Transactions are strictly serializable. Reads see every acknowledged write.

**Durability.** FoundationDB acknowledges a commit when the logs of all replicas have it on disk.
(Except with the storage engine ``memory`` of a single process that is lost with its disk; the
number of replicas is part of the cluster's configuration, which is not checked.)

**Limits.** A FoundationDB key has at most 10,000 bytes and a value 100,000; larger values are split
into pieces, in the subspace ``("lakebed-pieces",)``. A transaction is limited to 10 MB and 5
seconds; bulk writes are split accordingly.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn, Protocol, TypeVar

import fdb

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import (
    InvalidArgument,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreUnavailable,
)
from lakebed.kv.fenced import FENCE_SECONDS, end_process
from lakebed.kv.lifetime import Lifetime
from lakebed.kv.rows import list_partitions, row_name
from lakebed.kv.store import (
    ANY,
    VERSION_BYTES,
    DeletePredicate,
    Item,
    Limits,
    Put,
    Store,
    Version,
    after_prefix,
    applied_before,
    check_deletable,
    holds,
    new_version,
)
from lakebed.kv.urls import split_url

ResultT = TypeVar("ResultT")

API_VERSION: Final = 710
REPLY_SECONDS: Final = 4.0
"""Less than the 5 seconds of a transaction."""
PAUSE_SECONDS: Final = 0.2
TRANSACTION_KEYS: Final = 1000
TRANSACTION_BYTES: Final = 1 << 20
"""FoundationDB accepts 10 MB, and recommends 1 MB."""

# The tuples ("lakebed",) and ("lakebed-pieces",) in FoundationDB's encoding.
SUBSPACE: Final = b"\x02lakebed\x00"
PIECES: Final = b"\x02lakebed-pieces\x00"
PIECE_BYTES: Final = 90_000

# The stored bytes: the version, one of these flags, and the value unless in pieces.
_HERE: Final = b"\x00"
_IN_PIECES: Final = b"\x01"
_HEAD: Final = VERSION_BYTES + 1

_EXAMPLE: Final = "foundationdb:///etc/foundationdb/fdb.cluster"
_LIBRARY: Final = (
    "cannot load the FoundationDB library: install the package foundationdb-clients, and a Python"
    " package foundationdb that is not newer"
)
# Commit errors after which nothing was committed; all others leave the outcome open.
_REFUSALS: Final = frozenset(
    {
        1007,  # transaction_too_old
        1009,  # future_version
        1020,  # not_committed: another transaction came first
        1037,  # process_behind
        1038,  # database_locked
        1042,  # commit_proxy_memory_limit_exceeded
        1051,  # batch_transaction_throttled
        1078,  # grv_proxy_memory_limit_exceeded
        1213,  # tag_throttled
        2101,  # transaction_too_large
        2102,  # key_too_large
        2103,  # value_too_large
    }
)

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a FoundationDB cluster; see `lakebed.kv.open_store`."""
    return FoundationDBStore(url, runtime)


class Pending(Protocol):
    """A result not yet received from the cluster."""

    @property
    def value(self) -> bytes | None:
        """Wait for the value; None for a missing key."""

    def wait(self) -> object:
        """Wait for the result."""


class Transaction(Protocol):
    """The part of the library's transactions that the driver uses."""

    options: "fdb.TransactionOptions"

    def get_read_version(self) -> Pending: ...
    def get(self, key: bytes, /) -> Pending: ...
    def get_range(
        self, begin: bytes, end: bytes, limit: int, *, streaming_mode: int
    ) -> Iterable["fdb.KeyValue"]: ...
    def set(self, key: bytes, value: bytes, /) -> None: ...
    def clear(self, key: bytes, /) -> None: ...
    def clear_range(self, begin: bytes, end: bytes, /) -> None: ...
    def add_read_conflict_key(self, key: bytes, /) -> None: ...
    def add_write_conflict_key(self, key: bytes, /) -> None: ...
    def commit(self) -> Pending: ...


class FoundationDBStore(Store):
    """The records in `SUBSPACE` and `PIECES`. Raises as `lakebed.kv.open_store`.

    `give_up` ends the process; it is called when a lost write cannot be fenced.
    """

    name = "foundationdb"
    limits = Limits(partition_bytes=1024, key_bytes=8192, value_bytes=1 << 20)
    shared_between_processes = True

    def __init__(
        self,
        url: str,
        runtime: Runtime,
        *,
        reply_seconds: float = REPLY_SECONDS,
        give_up: Callable[[], NoReturn] = end_process,
    ) -> None:
        self._runtime = runtime
        self._reply_milliseconds = int(1000 * reply_seconds)
        self._give_up = give_up
        self._database = _open(_parse_url(url))
        # The library has one connection per process, and closes it at exit.
        self._lifetime = Lifetime(runtime, lambda: None, limits=self.limits, shared=True)
        self._read(lambda transaction: transaction.get_read_version().wait())

    def get(self, partition: bytes, key: bytes) -> Item:
        with self._lifetime.call(partition, key):
            name = _name(partition, key)

            def ask(transaction: Transaction) -> Item | None:
                found = transaction.get(name).value
                return None if found is None else _item(transaction, partition, key, found)

            item = self._read(ask)
        if item is None:
            raise KeyNotFound(partition, key)
        return item

    def _set(self, put: Put) -> None:
        partition, key, value, predicate, version = put
        with self._lifetime.call(partition, key, value):
            new = version or new_version(self._runtime)
            name = _name(partition, key)

            def change(transaction: Transaction) -> None:
                if predicate is not ANY and not holds(predicate, _version(transaction, name)):
                    raise PredicateFailed(partition, key)
                _put(transaction, partition, key, value, new)

            self._write(name, change)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._lifetime.call(partition, key):
            check_deletable(predicate)
            name = _name(partition, key)

            def change(transaction: Transaction) -> None:
                if predicate is not ANY and not holds(predicate, _version(transaction, name)):
                    raise PredicateFailed(partition, key)
                prefix = _pieces(partition, key)
                transaction.clear_range(prefix, after_prefix(prefix))
                transaction.clear(name)

            self._write(name, change)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        with self._lifetime.call(partition):
            base = _name(partition)
            last = after_prefix(base) if end is None else base + end

            def ask(transaction: Transaction) -> list[Item]:
                found = _range(transaction, base + start, last, limit)
                return [
                    _item(transaction, partition, name[len(base) :], value) for name, value in found
                ]

            return self._read(ask)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        def first_name(start: bytes) -> bytes | None:
            begin, end = SUBSPACE + start, after_prefix(SUBSPACE)
            found = self._read(lambda transaction: _range(transaction, begin, end, 1))
            return found[0][0][len(SUBSPACE) :] if found else None

        with self._lifetime.call(b"any"):
            return list_partitions(first_name, cursor)

    def _set_all(self, writes: Sequence[Put]) -> None:
        applied = False
        chunks = self._lifetime.chunks(
            writes, keys_max=TRANSACTION_KEYS, bytes_max=TRANSACTION_BYTES
        )
        for chunk in chunks:

            def change(transaction: Transaction, chunk: Sequence[Put] = chunk) -> None:
                for partition, key, value, _, version in chunk:
                    _put(transaction, partition, key, value, version or new_version(self._runtime))

            partition = chunk[0].partition
            with self._lifetime.call(partition), applied_before(any_step=applied):
                self._write(_name(partition), change)
            applied = True

    def close(self) -> None:
        self._lifetime.close()

    def _begin(self) -> Transaction:
        transaction: Transaction = self._database.create_transaction()
        transaction.options.set_timeout(self._reply_milliseconds)
        return transaction

    def _read(self, ask: Callable[[Transaction], ResultT]) -> ResultT:
        try:
            return ask(self._begin())
        except fdb.FDBError as error:
            raise StoreUnavailable(f"foundationdb did not answer: {error}") from error

    def _write(self, name: bytes, change: Callable[[Transaction], None]) -> None:
        """Commit a change, in a transaction that conflicts with concurrent writers of `name`.

        Raises:
            StoreUnavailable: Nothing was applied, or will be.
            OutcomeUnknown: The change may have been applied, but will not be applied later.
        """
        transaction = self._prepare(name, change)
        try:
            transaction.commit().wait()
        except fdb.FDBError as error:
            if error.code in _REFUSALS:
                raise StoreUnavailable(f"foundationdb refused a write: {error}") from error
            _LOGGER.warning("lost the reply to a write: %s", str(error))
            self._fence(name)
            raise OutcomeUnknown(
                f"the outcome of a write to foundationdb is unknown: {error}"
            ) from error
        except BaseException:
            # Ctrl-C, or a signal handler that raises: the write must not be applied later.
            self._fence(name)
            raise

    def _prepare(self, name: bytes, change: Callable[[Transaction], None]) -> Transaction:
        """Return a transaction ready to commit; no change has been sent."""
        try:
            transaction = self._begin()
            # Before the commit: a later fence must have a higher version.
            transaction.get_read_version().wait()
            transaction.add_read_conflict_key(name)
            change(transaction)
        except fdb.FDBError as error:
            raise StoreUnavailable(f"foundationdb did not answer: {error}") from error
        return transaction

    def _fence(self, name: bytes) -> None:
        """Return when no transaction that read a name before can still be committed."""
        give_up_at = self._runtime.monotonic() + FENCE_SECONDS
        while True:
            try:
                transaction = self._begin()
                # Conflicts like a write, without a change.
                transaction.add_write_conflict_key(name)
                transaction.commit().wait()
            except fdb.FDBError as error:
                if self._runtime.monotonic() >= give_up_at:
                    _LOGGER.critical(
                        "exiting: no reply to a write, and for %.0f s no confirmation by"
                        " foundationdb that it can no longer be applied: %s",
                        FENCE_SECONDS,
                        str(error),
                    )
                    self._give_up()
                self._runtime.sleep(PAUSE_SECONDS)
            else:
                return


def _open(cluster_file: str | None) -> "fdb.Database":
    try:
        fdb.api_version(API_VERSION)
    except Exception as error:  # the package has no error of its own for this
        raise InvalidArgument(f"{_LIBRARY} ({error})") from error
    try:
        return fdb.open(cluster_file)
    except fdb.FDBError as error:
        raise InvalidArgument(f"cannot use this cluster file of foundationdb: {error}") from error


def _parse_url(url: str) -> str | None:
    """Return the path of the cluster file, or None for the default."""
    parts, _ = split_url(url, options=(), example=_EXAMPLE)
    if parts.netloc:
        # Do not quote the URL: it may contain credentials.
        raise InvalidArgument(f"the URL does not name a cluster file: use {_EXAMPLE}")
    return parts.path or None


def _name(partition: bytes, key: bytes = b"") -> bytes:
    return SUBSPACE + row_name(partition, key)


def _version(transaction: Transaction, name: bytes) -> bytes | None:
    value = transaction.get(name).value
    return None if value is None else value[:VERSION_BYTES]


def _range(
    transaction: Transaction, begin: bytes, end: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    # A reply has about 80 kB; want_all requests as many as necessary.
    found = transaction.get_range(begin, end, limit, streaming_mode=fdb.StreamingMode.want_all)
    return [(pair.key, pair.value) for pair in found]


def _pieces(partition: bytes, key: bytes) -> bytes:
    """Return the common prefix of the pieces of a value."""
    return PIECES + row_name(partition) + row_name(key)


def _put(
    transaction: Transaction, partition: bytes, key: bytes, value: bytes, version: Version
) -> None:
    prefix = _pieces(partition, key)
    transaction.clear_range(prefix, after_prefix(prefix))
    if len(value) <= PIECE_BYTES:
        transaction.set(_name(partition, key), version + _HERE + value)
        return
    transaction.set(_name(partition, key), version + _IN_PIECES)
    for number, begin in enumerate(range(0, len(value), PIECE_BYTES)):
        transaction.set(prefix + bytes([number]), value[begin : begin + PIECE_BYTES])


def _item(transaction: Transaction, partition: bytes, key: bytes, found: bytes) -> Item:
    value = found[_HEAD:]
    if found[VERSION_BYTES:_HEAD] == _IN_PIECES:
        prefix = _pieces(partition, key)
        pieces = _range(transaction, prefix, after_prefix(prefix), 0)
        value = b"".join(piece for _, piece in pieces)
    return Item(key, value, Version(found[:VERSION_BYTES]))
