"""A store in RocksDB, a database embedded into one process.

``rocksdb:///data/kv``: a directory, relative to the working directory; with four slashes an
absolute path. A missing directory is created; a directory with other files is rejected. Only one
process at a time can open it, so a server runs a single worker, which also does the work of the
background process. Opening it in a second process raises `StoreLocked`.

**Durability.** A write is acknowledged when RocksDB's log is on disk. Concurrent writes share one
sync. A write is never visible before it is on disk: a read of a key that is being written waits for
the sync, too.

**Delayed writes.** Without a network no request is delayed. But a failed write may have reached the
log, and would be applied by recovery. So a write error of RocksDB (a full or broken disk) **ends
the process**, for the same reason as in `lakebed.kv.fenced`. The next process recovers the log.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, NoReturn

from rocksdict import DbClosedError, Options, Rdict, WriteBatch

from lakebed.base.runtime import Runtime, about_to_wait
from lakebed.kv.drivers.local_disk import check_file_system, make_folder, sync_folder
from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    KeyNotFound,
    PredicateFailed,
    StoreClosed,
    StoreLocked,
    StoreUnavailable,
)
from lakebed.kv.fenced import end_process
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

CHUNK_KEYS: Final = 500
LOG_FILES: Final = 4
OPEN_FILES: Final = 500

_PREFIX: Final = "rocksdb:///"
_MARKER_FILE: Final = "LAKEBED"
"""A file that identifies the directory of a store; created before the database."""
_LOGGER: Final = logging.getLogger(__name__)

SINGLE_PROCESS: Final = True


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a directory, creating it if necessary; see `lakebed.kv.open_store`."""
    return RocksDBStore(_path_of(url), runtime)


class RocksDBStore(Store):
    """A RocksDB database of this process. Raises as `lakebed.kv.open_store`.

    `give_up` ends the process; it is called after a write error of RocksDB.
    """

    name = "rocksdb"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=64 << 20)
    shared_between_processes = True

    def __init__(
        self, path: Path, runtime: Runtime, *, give_up: Callable[[], NoReturn] = end_process
    ) -> None:
        self._runtime = runtime
        self._give_up = give_up
        self._process = os.getpid()
        self._database = _open(path)
        self._writing = runtime.lock()
        self._syncing = runtime.lock()
        self._written = 0
        self._synced = 0
        self._unsynced: dict[bytes, int] = {}
        """For each written row, the number of its write, until it is on disk."""
        self._lifetime = Lifetime(runtime, self._close, limits=self.limits, shared=True)

    def get(self, partition: bytes, key: bytes) -> Item:
        self._lifetime.check(partition, key)
        base = row_name(partition)
        stored = self._read(base + key)
        self._wait_for(base, base + key)
        if stored is None:
            raise KeyNotFound(partition, key)
        return _item(key, stored)

    def _set(self, put: Put) -> None:
        partition, key, value, predicate, version = put
        with self._lifetime.call(partition, key, value):
            mark = version or new_version(self._runtime)
            name = row_name(partition, key)
            if not self._write(
                [name],
                lambda: self._database.put(name, mark + value),
                lambda: predicate is ANY or holds(predicate, self._version(name)),
            ):
                raise PredicateFailed(partition, key)

    def delete(self, partition: bytes, key: bytes, predicate: DeletePredicate = ANY) -> None:
        with self._lifetime.call(partition, key):
            check_deletable(predicate)
            name = row_name(partition, key)
            if not self._write(
                [name],
                lambda: self._database.delete(name),
                lambda: predicate is ANY or holds(predicate, self._version(name)),
            ):
                raise PredicateFailed(partition, key)

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        with self._lifetime.call(partition):
            base = row_name(partition)
            with _reading():
                # All keys are bytes, though the library's types are wider.
                pairs: Iterator[Any] = self._database.items(from_key=base + start)
                last = after_prefix(base) if end is None else base + end
                found = takewhile(lambda pair: pair[0] < last, pairs)
                items = [_item(name[len(base) :], stored) for name, stored in islice(found, limit)]
            with self._writing:
                waiting = [name for name in self._unsynced if name.startswith(base)]
            self._wait_for(*waiting)
        return items

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        def first_name(start: bytes) -> bytes | None:
            # All keys are bytes, though the library's types are wider.
            names: Iterator[Any] = iter(self._database.keys(from_key=start or b"\x00"))
            return next(names, None)

        with self._lifetime.call(b"any"), _reading():
            return list_partitions(first_name, cursor)

    def _set_all(self, writes: Sequence[Put]) -> None:
        applied = False
        for begin in range(0, len(writes), CHUNK_KEYS):
            chunk = writes[begin : begin + CHUNK_KEYS]
            batch = WriteBatch(raw_mode=True)
            names = [row_name(put.partition, put.key) for put in chunk]
            for name, put in zip(names, chunk, strict=True):
                batch.put(name, (put.version or new_version(self._runtime)) + put.value)
            with self._lifetime.call(chunk[0].partition), applied_before(any_step=applied):
                self._write(names, partial(self._database.write, batch))
            applied = True

    def close(self) -> None:
        self._lifetime.close()

    def _read(self, name: bytes) -> bytes | None:
        with _reading():
            found: bytes | None = self._database.get(name)
        return found

    def _version(self, name: bytes) -> bytes | None:
        stored = self._read(name)
        return None if stored is None else stored[:VERSION_BYTES]

    def _write(
        self,
        names: Sequence[bytes],
        apply: Callable[[], None],
        holds: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Apply a change if a condition holds; return whether it held, after the sync."""
        with self._writing:
            if is_met := holds():
                self._written += 1
                # Before the change, so that readers of the change wait for its sync.
                self._unsynced |= dict.fromkeys(names, self._written)
                with self._or_end():
                    apply()
        # A state that made the condition fail must be on disk, too, before the call returns.
        self._wait_for(*names)
        return is_met

    def _wait_for(self, *names: bytes) -> None:
        """Return when the writes of these rows are on disk."""
        number = max((self._unsynced.get(name, 0) for name in names), default=0)
        if number <= self._synced:
            return
        about_to_wait()
        with self._syncing:
            # Another thread may have synced meanwhile: one sync is enough for all.
            if number > self._synced:
                self._sync()

    def _sync(self) -> None:
        with self._writing:
            written = self._written
        with self._or_end():
            self._database.flush_wal(sync=True)
        self._synced = written
        with self._writing:
            done = [name for name, number in self._unsynced.items() if number <= written]
            for name in done:
                del self._unsynced[name]

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        """End the process on a write error of RocksDB: the write may be in the log already."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the library has no exception class for this
            _LOGGER.critical(
                "exiting: a write to RocksDB failed, and may be applied when the database is"
                " reopened: %s",
                error,
            )
            self._give_up()

    def _close(self) -> None:
        # A forked child has none of the database's threads: closing would wait forever.
        if os.getpid() == self._process:
            self._database.close()


def _path_of(url: str) -> Path:
    name = url.removeprefix(_PREFIX)
    if not url.startswith(_PREFIX) or not name.strip("/"):
        raise InvalidArgument(
            "a rocksdb store is a directory: use rocksdb:///relative/path or"
            f" rocksdb:////absolute/path, not {url}"
        )
    if any(character in name for character in "?#\0"):
        raise InvalidArgument(f"a rocksdb store has no options: leave out ?, # and NUL in {url!r}")
    return Path(name).absolute()


def _open(path: Path) -> Rdict:
    check_file_system(path, "RocksDB")
    try:
        _claim(path)
    except OSError as error:
        raise StoreUnavailable(f"cannot use {path}: {error}") from error
    try:
        return Rdict(str(path / "db"), _options())
    except Exception as error:
        if "lock" in str(error).lower():
            raise StoreLocked(
                f"{path} is already open, and RocksDB supports a single process: stop the other"
                " server"
            ) from error
        raise StoreUnavailable(f"cannot open {path}: {error}") from error


def _claim(path: Path) -> None:
    """Mark the directory as a Lakebed store, unless it has other files."""
    mark = path / _MARKER_FILE
    if path.exists() and not mark.exists() and any(path.iterdir()):
        raise ForeignStore(f"{path} is not empty, and not a Lakebed store")
    make_folder(path)
    mark.touch()
    sync_folder(path)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_keep_log_file_num(LOG_FILES)
    options.set_max_open_files(OPEN_FILES)
    return options


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except DbClosedError:
        raise StoreClosed from None
    except Exception as error:
        raise StoreUnavailable(f"cannot read from RocksDB: {error}") from error


def _item(key: bytes, stored: bytes) -> Item:
    return Item(key, stored[VERSION_BYTES:], Version(stored[:VERSION_BYTES]))
