"""A store in FoundationDB (7.1 or newer): **experimental**.

``foundationdb:///etc/foundationdb/fdb.cluster``, the path of the cluster file;
``foundationdb://`` for the one that FoundationDB's own tools use. The Python package loads
``libfdb_c``, which FoundationDB's packages ``foundationdb-clients`` bring; the package must not be
newer than that library. Keys and certificates for TLS come from ``FDB_TLS_*``.

It is experimental since no server could be had to test it with. It is tested with a model of the
client, in which transactions conflict as the documentation of FoundationDB says.

All records are in the subspace ``("lakebed",)``, so a cluster can hold other data, too.

**Late application.** Every write is a transaction that reads one name, at a version of the database
that is known before the commit is sent. After a commit whose outcome is unknown, the driver commits
a transaction that conflicts with whoever read this name before, until FoundationDB has said that it
is committed. From then on the lost transaction was applied, or would be refused: what it read at an
older version has been written since. So this is exact, for single keys as for many, and needs
neither clocks nor tombstones; that is why this driver does not use `lakebed.kv.fenced`.
If FoundationDB does not answer for a minute, the process ends, as there, and for the same reason.

**Consistency.** Transactions are strictly serializable. Reads see every write that was answered.

**Durability.** FoundationDB answers a commit when the logs of all replicas have it on disk. (Not
with the storage engine ``memory`` of a single process that is lost with its disk; how many
replicas there are is the cluster's configuration, which is not checked.)

**Limits.** A key has 10,000 bytes and a value 100,000; what is larger is kept in pieces, in the
subspace ``("lakebed-pieces",)``. A transaction has 10 MB and takes 5 seconds at most; bulk writes
are cut accordingly.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol, TypeVar

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
    ABSENT,
    ANY,
    EXISTS,
    VERSION_BYTES,
    DeletePredicate,
    Item,
    Limits,
    Predicate,
    Put,
    Store,
    Version,
    after_prefix,
    applied_before,
    check_deletable,
    check_predicate,
    new_version,
)
from lakebed.kv.urls import split_url

ResultT = TypeVar("ResultT")

API_VERSION: Final = 710
REPLY_SECONDS: Final = 4.0
"""Less than the 5 seconds that a transaction may take."""
PAUSE_SECONDS: Final = 0.2
TRANSACTION_KEYS: Final = 1000
TRANSACTION_BYTES: Final = 1 << 20
"""FoundationDB takes 10 MB, and advises one."""

# The tuples ("lakebed",) and ("lakebed-pieces",) as FoundationDB writes them.
SUBSPACE: Final = b"\x02lakebed\x00"
PIECES: Final = b"\x02lakebed-pieces\x00"
PIECE_BYTES: Final = 90_000

# What is stored: the version, one of these, and the value if it is here.
_HERE: Final = b"\x00"
_IN_PIECES: Final = b"\x01"
_HEAD: Final = VERSION_BYTES + 1

_EXAMPLE: Final = "foundationdb:///etc/foundationdb/fdb.cluster"
_LIBRARY: Final = (
    "the library of FoundationDB cannot be used: install its package foundationdb-clients, and a"
    " Python package foundationdb that is not newer"
)
# Errors of a commit that say that nothing was committed; all others leave it open.
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
    """A result that the cluster has not sent yet."""

    @property
    def value(self) -> bytes | None:
        """Wait for the value; None if there is none."""

    def wait(self) -> object:
        """Wait for the result."""


class Transaction(Protocol):
    """A transaction of the library, as far as it is used here."""

    options: Any

    def get_read_version(self) -> Pending: ...
    def get(self, key: bytes, /) -> Pending: ...
    def get_range(
        self, begin: bytes, end: bytes, limit: int, *, streaming_mode: int
    ) -> Iterable[Any]: ...
    def set(self, key: bytes, value: bytes, /) -> None: ...
    def clear(self, key: bytes, /) -> None: ...
    def clear_range(self, begin: bytes, end: bytes, /) -> None: ...
    def add_read_conflict_key(self, key: bytes, /) -> None: ...
    def add_write_conflict_key(self, key: bytes, /) -> None: ...
    def commit(self) -> Pending: ...


class FoundationDBStore(Store):
    """The records below `SUBSPACE` and `PIECES`.

    Args:
        url: Where the cluster file is.
        runtime: Clock, chance and concurrency.
        reply_seconds: How long a reply is waited for.
        give_up: Ends the process; called when a lost write cannot be fenced.

    Raises:
        InvalidArgument: The URL is malformed, or the library is missing.
        StoreUnavailable: The cluster cannot be reached.
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
        # The library keeps one connection for a process, and closes it at its end.
        self._lifetime = Lifetime(runtime, lambda: None, limits=self.limits, shared=True)
        self._read(lambda transaction: transaction.get_read_version().wait())

    def get(self, partition: bytes, key: bytes) -> Item:
        with self._lifetime.call(partition, key):
            name = _name(partition, key)

            def ask(transaction: Transaction) -> Item | None:
                found = _value(transaction, name)
                return None if found is None else _item(transaction, partition, key, found)

            item = self._read(ask)
        if item is None:
            raise KeyNotFound(partition, key)
        return item

    def set(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        predicate: Predicate = ANY,
        *,
        version: Version | None = None,
    ) -> Version:
        with self._lifetime.call(partition, key, value):
            check_predicate(predicate)
            mark = version or new_version(self._runtime)
            name = _name(partition, key)

            def change(transaction: Transaction) -> None:
                if predicate is not ANY and not _holds(predicate, _value(transaction, name)):
                    raise PredicateFailed(partition, key)
                _put(transaction, partition, key, value, mark)

            self._write(name, change)
        return mark

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._lifetime.call(partition, key):
            check_deletable(predicate)
            name = _name(partition, key)

            def change(transaction: Transaction) -> None:
                if predicate is not ANY and not _holds(predicate, _value(transaction, name)):
                    raise PredicateFailed(partition, key)
                _clear(transaction, partition, key)

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
        """Set several values, in chunks that are each applied whole or not at all."""
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

    # Transactions

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
        """Commit a change, in a transaction that conflicts with whoever writes `name` meanwhile.

        Raises:
            StoreUnavailable: Nothing was applied, and nothing will be.
            OutcomeUnknown: It may have been applied; it will not be from now on.
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
                f"foundationdb did not say what became of a write: {error}"
            ) from error
        except BaseException:
            # Ctrl-C, or a signal handler that raises: not even then may the write come later.
            self._fence(name)
            raise

    def _prepare(self, name: bytes, change: Callable[[Transaction], None]) -> Transaction:
        """Return a transaction that has only to be committed: nothing was sent that changes."""
        try:
            transaction = self._begin()
            # Now, not in the commit: a fence that comes later must have a higher version.
            transaction.get_read_version().wait()
            transaction.add_read_conflict_key(name)
            change(transaction)
        except fdb.FDBError as error:
            raise StoreUnavailable(f"foundationdb did not answer: {error}") from error
        return transaction

    def _fence(self, name: bytes) -> None:
        """Return when whatever read a name before was committed, or cannot be any more."""
        give_up_at = self._runtime.monotonic() + FENCE_SECONDS
        while True:
            try:
                transaction = self._begin()
                # This conflicts as a write does, and changes nothing.
                transaction.add_write_conflict_key(name)
                transaction.commit().wait()
            except fdb.FDBError as error:
                if self._runtime.monotonic() >= give_up_at:
                    _LOGGER.critical(
                        "this process ends: a write got no reply, and for %.0f s foundationdb has"
                        " not answered whether it can still be applied: %s",
                        FENCE_SECONDS,
                        str(error),
                    )
                    self._give_up()
                self._runtime.sleep(PAUSE_SECONDS)
            else:
                return


def _open(cluster_file: str | None) -> Any:
    try:
        fdb.api_version(API_VERSION)
    except Exception as error:  # the package has no error of its own for this
        raise InvalidArgument(f"{_LIBRARY} ({error})") from error
    try:
        return fdb.open(cluster_file)
    except fdb.FDBError as error:
        raise InvalidArgument(f"cannot use this cluster file of foundationdb: {error}") from error


def _parse_url(url: str) -> str | None:
    """Return the path of the cluster file; None: the usual one."""
    parts, _ = split_url(url, options=(), example=_EXAMPLE)
    if parts.netloc:
        # Not what is there instead: some write credentials into a URL.
        raise InvalidArgument(f"the URL does not name a cluster file: use {_EXAMPLE}")
    return parts.path or None


# Names and values


def _name(partition: bytes, key: bytes = b"") -> bytes:
    return SUBSPACE + row_name(partition, key)


def _value(transaction: Transaction, name: bytes) -> bytes | None:
    return transaction.get(name).value


def _range(
    transaction: Transaction, begin: bytes, end: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    # One reply of the database has some 80 kB; this asks for as many as it takes.
    found = transaction.get_range(begin, end, limit, streaming_mode=fdb.StreamingMode.want_all)
    return [(pair.key, pair.value) for pair in found]


def _pieces(partition: bytes, key: bytes) -> bytes:
    """Return what the names of all pieces of a value begin with, and no others."""
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


def _clear(transaction: Transaction, partition: bytes, key: bytes) -> None:
    prefix = _pieces(partition, key)
    transaction.clear_range(prefix, after_prefix(prefix))
    transaction.clear(_name(partition, key))


def _item(transaction: Transaction, partition: bytes, key: bytes, found: bytes) -> Item:
    value = found[_HEAD:]
    if found[VERSION_BYTES:_HEAD] == _IN_PIECES:
        prefix = _pieces(partition, key)
        pieces = _range(transaction, prefix, after_prefix(prefix), 0)
        value = b"".join(piece for _, piece in pieces)
    return Item(key, value, Version(found[:VERSION_BYTES]))


def _holds(predicate: Predicate, found: bytes | None) -> bool:
    if predicate is ABSENT:
        return found is None
    if predicate is EXISTS:
        return found is not None
    assert isinstance(predicate, bytes)
    return found is not None and found.startswith(predicate)
