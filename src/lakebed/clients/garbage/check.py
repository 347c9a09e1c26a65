"""Preflight checks of garbage collection, which leave the user's objects alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.clients.garbage.server import GarbageServer
from lakebed.formats.layout import gc_check_path
from lakebed.formats.object_paths import branches_folder
from lakebed.reclaim.collector.storage import Storage

_SKEW_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check."""

    check: str
    ok: bool
    found: str


def examine(server: GarbageServer, storage: Storage, runtime: Runtime) -> Iterator[Finding]:
    """Run all checks, and yield their results."""
    yield _attempt(
        "server", lambda: f"it keeps objects younger than {server.min_age_seconds()} seconds"
    )
    yield _attempt("list", lambda: _list(storage))
    yield _attempt("read", lambda: _read(storage))
    yield _attempt("write and delete", lambda: _write_and_delete(storage, runtime))
    yield _clocks(server, storage, runtime)


def _attempt(check: str, attempt: Callable[[], str]) -> Finding:
    try:
        return Finding(check, ok=True, found=attempt())
    except LakebedError as error:
        return Finding(check, ok=False, found=str(error))


def _list(storage: Storage) -> str:
    parent = storage.namespace.folder(branches_folder(storage.repository_uid))
    name = next(storage.block.list_folders(parent), None)
    return "no objects yet" if name is None else f"found objects of branch {name}"


def _read(storage: Storage) -> str:
    storage.check_owner()
    return f"the namespace belongs to {storage.repository_uid}"


def _write_and_delete(storage: Storage, runtime: Runtime) -> str:
    _write_nonce(storage, runtime)
    return f"in the folder of garbage collection; gc.versions is {storage.versions}"


def _write_nonce(storage: Storage, runtime: Runtime) -> float:
    """Write and delete a file; return its modification time in the storage."""
    name = gc_check_path(storage.repository_uid, runtime.random_bytes(8).hex())
    address = storage.namespace.address(name)
    storage.block.put(address, [b"Written by lakebed gc check; safe to delete.\n"])
    try:
        return storage.block.head(address).mtime.timestamp()
    finally:
        for result in storage.delete([address]):
            if result.error is not None:
                raise result.error


def _clocks(server: GarbageServer, storage: Storage, runtime: Runtime) -> Finding:
    try:
        apart = {
            "server": server.now() - runtime.now(),
            "storage": _write_nonce(storage, runtime) - runtime.now(),
        }
    except LakebedError as error:
        return Finding("clocks", ok=False, found=str(error))
    found = ", ".join(f"{name} {seconds:+.0f} s" for name, seconds in apart.items())
    spread = max(0.0, *apart.values()) - min(0.0, *apart.values())
    return Finding("clocks", ok=spread < _SKEW_SECONDS_MAX, found=f"{found} from this machine's")
