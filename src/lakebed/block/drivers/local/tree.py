"""The folders below the root: opening, creating and pruning them concurrently.

Folders are entered one by one, each relative to its parent and never through a symbolic link, so no
link in the tree leads out of it.

**Durable folders.** A new file is durable when its bytes, its entry in the folder, and the entry of
every folder above are. The existence of a folder proves nothing: another process may have created
it and not synced it yet. So a tree syncs every level once itself and then caches the folder as an
open descriptor.

**Reads** also cache the folders entered last, since most objects are in a few folders. These
folders may not be durable, so writers do not use them.

**Empty folders** are removed with their last object, because users of a storage see only objects.
So a cached folder may have been deleted and replaced. Such a descriptor fails by itself: a deleted
folder is empty and refuses new entries (ENOENT; ESTALE on a network file system), and then the walk
restarts. A successful creation proves that the folder, and so every folder above, is still current.

**Places.** Addresses and files correspond one to one: ``local://name/a/b`` is the file ``name/a/b``
below the root. Addresses that a disk cannot represent are refused, never changed: an empty, ``.``
or ``..`` component (so no ``//`` and no trailing slash), or a component or path longer than the
system allows. Store names begin with a letter or a digit, so the reserved folder at the root has no
address, and no listing includes it.

Names are UTF-8 bytes, whatever the locale.
"""

import errno
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from lakebed.base.errors import quoted
from lakebed.block.address import Address, Namespace, split_store
from lakebed.block.drivers.local.files import Sync
from lakebed.block.errors import InvalidAddress, StorageClosed, StorageUnavailable

SCHEME: Final = "local"
RESERVED_FOLDER: Final = ".lakebed"

_NAME_BYTES_MAX: Final = 255
_PATH_BYTES_MAX: Final = 4095  # limit of Linux, without the terminating NUL

Names = tuple[bytes, ...]
"""Names of folders, from the root down."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Folder and file name of an address."""

    address: Address
    folder: Names
    name: bytes


def place_of(root: bytes, address: Address) -> FilePlace:
    """Return the file of an address.

    Raises:
        InvalidAddress: The address has another scheme, or is not a valid file name.
    """
    *folder, name = _names(root, address, address.path)
    return FilePlace(address, tuple(folder), name)


def folder_of(root: bytes, namespace: Namespace) -> Names:
    """Return the folder of a namespace.

    Raises:
        InvalidAddress: The namespace has another scheme, or is not a valid folder name.
    """
    if not namespace.prefix:
        return _names(root, namespace, "x")[:1]
    return _names(root, namespace, namespace.prefix.removesuffix("/"))


def _names(root: bytes, place: Address | Namespace, path: str) -> Names:
    store = split_store(place.store)
    if store.scheme != SCHEME:
        raise InvalidAddress(f"{place} is not an address of local storage")
    names = (store.bucket.encode(), *path.encode().split(b"/"))
    for name in names:
        if name in {b"", b".", b".."}:
            raise InvalidAddress(
                f"local storage cannot represent {place}:"
                " a component of its path is empty, '.' or '..'"
            )
        if len(name) > _NAME_BYTES_MAX:
            raise InvalidAddress(
                f"local storage cannot represent {place}: a component of its path has {len(name)}"
                f" bytes, more than the limit of {_NAME_BYTES_MAX} for a file name"
            )
    if len(root) + sum(map(len, names)) + len(names) > _PATH_BYTES_MAX:
        raise InvalidAddress(
            f"local storage cannot represent {place}: its path is longer than the limit of"
            f" {_PATH_BYTES_MAX} bytes"
        )
    return names


ResultT = TypeVar("ResultT")

_ENTER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DURABLE_MAX: Final = 128
_ENTERED_MAX: Final = 32
_TRIES: Final = 1000  # each failure means that a client deleted the folder's last object


class OpenFolder:
    """An open folder, closed when the last reference is dropped."""

    __slots__ = ("_sync", "descriptor")

    def __init__(self, descriptor: int, sync: Sync) -> None:
        self.descriptor = descriptor
        self._sync = sync

    def sync(self) -> None:
        self._sync(self.descriptor)

    def enter(self, name: bytes) -> "OpenFolder":
        """Open a subfolder; links are not followed."""
        try:
            return OpenFolder(os.open(name, _ENTER, dir_fd=self.descriptor), self._sync)
        except OSError:
            refuse_link(os.stat(name, dir_fd=self.descriptor, follow_symlinks=False), name)
            raise

    # Bound here: at interpreter exit the module may be cleared before the folder.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


class Tree:
    """The folders below a root."""

    def __init__(self, root: Path, sync: Sync) -> None:
        self._root_path = os.fsencode(root)
        self._root: OpenFolder | None = OpenFolder(
            os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), sync
        )
        self._durable: OrderedDict[Names, OpenFolder] = OrderedDict()
        """Folders whose entries are durable."""
        self._entered: OrderedDict[Names, OpenFolder] = OrderedDict()
        """Folders entered for reading."""
        self._lock = threading.Lock()

    def path(self, names: Names) -> bytes:
        """Return the path of a folder, for calls that need a path."""
        return b"/".join((self._root_path, *names))

    def within(self, place: FilePlace, action: Callable[[OpenFolder, bytes], ResultT]) -> ResultT:
        """Call an action with the folder and name of a place.

        Raises:
            FileNotFoundError: The folder does not exist, or the action raised the error.
            InvalidAddress: The path leads through a symbolic link.
        """
        known = self._cached(place.folder) or self._cached(place.folder, self._entered)
        if known is not None:
            try:
                return action(known, place.name)
            except OSError as error:
                # Keep the cached folder: most likely only the object is missing.
                if not _is_missing(error):
                    raise
        try:
            folder = self.enter(place.folder)
        except NotADirectoryError as error:
            # Nothing exists below an object.
            raise FileNotFoundError(*error.args) from error
        result = action(folder, place.name)
        self._cache(self._entered, place.folder, folder, most=_ENTERED_MAX)
        return result

    def within_made(
        self, place: FilePlace, action: Callable[[OpenFolder, bytes], ResultT]
    ) -> ResultT:
        """Call an action in the folder of a place, creating the folder durably if missing.

        The action is repeated while it raises FileNotFoundError: the folder was deleted meanwhile.

        Raises:
            InvalidAddress: The path leads through a symbolic link or an object.
            StorageClosed: The tree was closed.
            StorageUnavailable: Other clients keep deleting the folder.
        """
        for tries in range(_TRIES):
            try:
                folder = self._cached(place.folder)
                if folder is None:
                    # A cached ancestor may be deleted, too: later attempts start from the root.
                    above = self._nearest(place.folder) if tries == 0 else (self._top(), 0)
                    folder = self._make(place.folder, *above)
                return action(folder, place.name)
            except NotADirectoryError as error:
                raise InvalidAddress(f"{place.address} is below another object") from error
            except OSError as error:
                if not _is_missing(error):
                    raise
                self._evict(place.folder)
        raise StorageUnavailable(f"{place.address}: other clients keep deleting its folder")

    def enter(self, names: Names) -> OpenFolder:
        """Open an existing folder.

        Raises:
            FileNotFoundError: The folder does not exist.
            NotADirectoryError: The path leads through a file.
            InvalidAddress: The path leads through a symbolic link.
            StorageClosed: The tree was closed.
        """
        folder = self._top()
        for name in names:
            folder = folder.enter(name)
        return folder

    def prune(self, names: Names) -> None:
        """Remove a folder and its parents, up to the first that is not empty."""
        for depth in range(len(names), 0, -1):
            try:
                os.rmdir(self.path(names[:depth]))  # noqa: PTH106 - bytes
            except OSError:
                return

    def clear(self, names: Names) -> bool:
        """Remove a folder without files at any depth; return whether it is removed."""
        path = self.path(names)
        if any(files for _, _, files in os.walk(path)):
            return False
        for folder, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106 - bytes
        return not os.path.lexists(path)

    def close(self) -> None:
        """Release all folders; concurrent calls raise `StorageClosed` or finish."""
        with self._lock:
            self._root = None
            self._durable.clear()
            self._entered.clear()

    def _top(self) -> OpenFolder:
        root = self._root
        if root is None:
            raise StorageClosed
        return root

    def _nearest(self, names: Names) -> tuple[OpenFolder, int]:
        """Return the nearest cached ancestor and its depth."""
        for depth in range(len(names) - 1, 0, -1):
            known = self._cached(names[:depth])
            if known is not None:
                return known, depth
        return self._top(), 0

    def _make(self, names: Names, folder: OpenFolder, depth: int) -> OpenFolder:
        """Create the missing folders below the existing ancestor at `depth`.

        Raises:
            FileNotFoundError: The ancestor or a new folder was removed meanwhile.
        """
        for end in range(depth + 1, len(names) + 1):
            name = names[end - 1]
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder.descriptor)
            child = folder.enter(name)
            if not self._is_durable(names[:end], child):
                folder.sync()
                self._cache(self._durable, names[:end], child, most=_DURABLE_MAX)
            folder = child
        return folder

    def _is_durable(self, names: Names, folder: OpenFolder) -> bool:
        # An open folder keeps its inode, so the inode is unique.
        known = self._cached(names)
        return known is not None and os.path.sameopenfile(known.descriptor, folder.descriptor)

    def _cached(
        self, names: Names, among: OrderedDict[Names, OpenFolder] | None = None
    ) -> OpenFolder | None:
        """Return a cached folder, by default a durable one."""
        cache = self._durable if among is None else among
        with self._lock:
            folder = cache.get(names)
            if folder is not None:
                cache.move_to_end(names)
            return folder

    def _cache(
        self, cache: OrderedDict[Names, OpenFolder], names: Names, folder: OpenFolder, *, most: int
    ) -> None:
        with self._lock:
            if self._root is None:
                return
            cache[names] = folder
            cache.move_to_end(names)
            if len(cache) > most:
                cache.popitem(last=False)

    def _evict(self, names: Names) -> None:
        with self._lock:
            self._durable.pop(names, None)
            self._entered.pop(names, None)


def _is_missing(error: OSError) -> bool:
    """Return whether an error means that a folder or a file in it is missing."""
    return isinstance(error, FileNotFoundError) or error.errno == errno.ESTALE


def refuse_link(status: os.stat_result, name: bytes) -> None:
    """Raise `InvalidAddress` if the file is a symbolic link."""
    if stat.S_ISLNK(status.st_mode):
        raise InvalidAddress(
            f"{quoted(name)} is a symbolic link; local storage does not follow links"
        )
