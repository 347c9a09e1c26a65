"""The folders below the root: finding, making and dropping them while others do the same.

Folders are entered one by one, each relative to the one before and never through a symbolic link,
so no link in the tree leads out of it.

**Durable folders.** A new file is durable when its bytes, its name in the folder, and the name of
every folder above it are. That a folder exists proves nothing: another process may have made it a
moment ago and not have brought its name to the disk yet. So a tree brings every level to the disk
once itself and then remembers the folder, by an open descriptor.

**Reads** remember the folders that they entered last, too, since most objects lie in a few. That
says nothing about the disk, so writers do not use these folders.

**Empty folders** are removed when their last object is deleted, because to the users of a storage
there are only objects. A remembered folder may thus be gone, and another in its place. That shows
by itself: a removed folder holds nothing and takes no new names (ENOENT; on a network's file system
ESTALE), and then the walk begins anew. A name that was taken proves that the folder, and so every
folder above it, is still the remembered one.

**Places.** Addresses and files correspond one to one: ``local://name/a/b`` is the file ``name/a/b``
below the root. Addresses that a disk cannot spell are refused, never changed: an empty, ``.`` or
``..`` component (so no ``//`` and no slash at the end), a component or a whole path longer than the
system takes. Names of stores begin with a letter or a digit, so the reserved folder at the root has
no address, and no listing shows it.

Names are bytes here, UTF-8 whatever the locale says.
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
_PATH_BYTES_MAX: Final = 4095  # what Linux takes in one call, less the NUL at the end

Names = tuple[bytes, ...]
"""Names of folders, from the root down."""


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where the file of an address is: in which folder, and under which name."""

    address: Address
    folder: Names
    name: bytes


def place_of(root: bytes, address: Address) -> FilePlace:
    """Return where the file of an address is.

    Raises:
        InvalidAddress: The address is of another scheme, or no file can have this name.
    """
    *folder, name = _names(root, address, address.path)
    return FilePlace(address, tuple(folder), name)


def folder_of(root: bytes, namespace: Namespace) -> Names:
    """Return where the folder of a namespace is.

    Raises:
        InvalidAddress: The namespace is of another scheme, or no folder can have this name.
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
                f"local storage cannot spell {place}:"
                " no component of its path may be empty, '.' or '..'"
            )
        if len(name) > _NAME_BYTES_MAX:
            raise InvalidAddress(
                f"local storage cannot spell {place}: a component of its path has {len(name)}"
                f" bytes, and a file's name has at most {_NAME_BYTES_MAX}"
            )
    if len(root) + sum(map(len, names)) + len(names) > _PATH_BYTES_MAX:
        raise InvalidAddress(
            f"local storage cannot spell {place}: below the root its path is longer than the"
            f" {_PATH_BYTES_MAX} bytes that a path may have"
        )
    return names


ResultT = TypeVar("ResultT")

_ENTER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REMEMBERED_MAX: Final = 128
_ENTERED_MAX: Final = 32
_TRIES: Final = 1000  # each lost try means that another deleted the last object of the folder


class OpenFolder:
    """An open folder; it is closed when the last one who uses it lets go."""

    __slots__ = ("_sync", "descriptor")

    def __init__(self, descriptor: int, sync: Sync) -> None:
        self.descriptor = descriptor
        self._sync = sync

    def sync(self) -> None:
        """Bring the names in the folder to the disk."""
        self._sync(self.descriptor)

    def enter(self, name: bytes) -> "OpenFolder":
        """Open a folder in this one; a link is not followed."""
        try:
            return OpenFolder(os.open(name, _ENTER, dir_fd=self.descriptor), self._sync)
        except OSError:
            refuse_link(os.stat(name, dir_fd=self.descriptor, follow_symlinks=False), name)
            raise

    # Bound here, because at the end of the process the module may be gone before the folder.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self.descriptor)


class Tree:
    """The folders below a root."""

    def __init__(self, root: Path, sync: Sync) -> None:
        self._root_path = os.fsencode(root)
        self._root: OpenFolder | None = OpenFolder(
            os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), sync
        )
        self._remembered: OrderedDict[Names, OpenFolder] = OrderedDict()
        """Folders whose names are on the disk."""
        self._entered: OrderedDict[Names, OpenFolder] = OrderedDict()
        """Folders that were read from."""
        self._lock = threading.Lock()

    def path(self, names: Names) -> bytes:
        """Return the path of a folder, for calls that need one."""
        return b"/".join((self._root_path, *names))

    def within(self, place: FilePlace, action: Callable[[OpenFolder, bytes], ResultT]) -> ResultT:
        """Do something in the folder of a place.

        Raises:
            FileNotFoundError: The folder is not there, or the action raised it.
            InvalidAddress: The way leads through a symbolic link.
        """
        known = self._recall(place.folder) or self._recall(place.folder, self._entered)
        if known is not None:
            try:
                return action(known, place.name)
            except OSError as error:
                # Not forgotten: most likely it is still there, and only the object is missing.
                if not _is_missing(error):
                    raise
        try:
            folder = self.enter(place.folder)
        except NotADirectoryError as error:
            # Below an object there is nothing.
            raise FileNotFoundError(*error.args) from error
        result = action(folder, place.name)
        self._keep(self._entered, place.folder, folder, most=_ENTERED_MAX)
        return result

    def within_made(
        self, place: FilePlace, action: Callable[[OpenFolder, bytes], ResultT]
    ) -> ResultT:
        """Do something in the folder of a place, which is made, durably, if it is not there.

        The action is repeated while it raises FileNotFoundError: the folder was removed meanwhile.

        Raises:
            InvalidAddress: The way leads through a symbolic link, or through an object.
            StorageClosed: The tree was closed.
            StorageUnavailable: Others keep removing the folder.
        """
        for tries in range(_TRIES):
            try:
                folder = self._recall(place.folder)
                if folder is None:
                    # What is remembered above it may be gone too; then the next try makes it anew.
                    above = self._nearest(place.folder) if tries == 0 else (self._top(), 0)
                    folder = self._make(place.folder, *above)
                return action(folder, place.name)
            except NotADirectoryError as error:
                raise InvalidAddress(f"{place.address} lies below another object") from error
            except OSError as error:
                if not _is_missing(error):
                    raise
                self._forget(place.folder)
        raise StorageUnavailable(f"{place.address}: others remove its folder again and again")

    def enter(self, names: Names) -> OpenFolder:
        """Open a folder that exists.

        Raises:
            FileNotFoundError: It is not there.
            NotADirectoryError: The way leads through a file.
            InvalidAddress: The way leads through a symbolic link.
            StorageClosed: The tree was closed.
        """
        folder = self._top()
        for name in names:
            folder = folder.enter(name)
        return folder

    def prune(self, names: Names) -> None:
        """Remove a folder, and those above it, as far as they are empty."""
        for depth in range(len(names), 0, -1):
            try:
                os.rmdir(self.path(names[:depth]))  # noqa: PTH106 - bytes
            except OSError:
                return

    def clear(self, names: Names) -> bool:
        """Remove a folder that holds no file at any depth; return whether it is gone."""
        path = self.path(names)
        if any(files for _, _, files in os.walk(path)):
            return False
        for folder, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106 - bytes
        return not os.path.lexists(path)

    def close(self) -> None:
        """Let go of all folders; calls under way in other threads raise `StorageClosed`, or end."""
        with self._lock:
            self._root = None
            self._remembered.clear()
            self._entered.clear()

    def _top(self) -> OpenFolder:
        root = self._root
        if root is None:
            raise StorageClosed
        return root

    def _nearest(self, names: Names) -> tuple[OpenFolder, int]:
        """Return the nearest folder above that is remembered, and how deep it lies."""
        for depth in range(len(names) - 1, 0, -1):
            known = self._recall(names[:depth])
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
            if not self._remembers(names[:end], child):
                folder.sync()
                self._keep(self._remembered, names[:end], child, most=_REMEMBERED_MAX)
            folder = child
        return folder

    def _remembers(self, names: Names, folder: OpenFolder) -> bool:
        # An open folder keeps its inode, so no other folder has the same one.
        known = self._recall(names)
        return known is not None and os.path.sameopenfile(known.descriptor, folder.descriptor)

    def _recall(
        self, names: Names, among: OrderedDict[Names, OpenFolder] | None = None
    ) -> OpenFolder | None:
        """Return a folder that is known; if nothing else is said, among the durable ones."""
        kept = self._remembered if among is None else among
        with self._lock:
            folder = kept.get(names)
            if folder is not None:
                kept.move_to_end(names)
            return folder

    def _keep(
        self, kept: OrderedDict[Names, OpenFolder], names: Names, folder: OpenFolder, *, most: int
    ) -> None:
        with self._lock:
            if self._root is None:
                return
            kept[names] = folder
            kept.move_to_end(names)
            if len(kept) > most:
                kept.popitem(last=False)

    def _forget(self, names: Names) -> None:
        with self._lock:
            self._remembered.pop(names, None)
            self._entered.pop(names, None)


def _is_missing(error: OSError) -> bool:
    """Whether an error means that a folder, or what was looked for in it, is not there."""
    return isinstance(error, FileNotFoundError) or error.errno == errno.ESTALE


def refuse_link(status: os.stat_result, name: bytes) -> None:
    """Refuse to go through a symbolic link.

    Raises:
        InvalidAddress: It is one.
    """
    if stat.S_ISLNK(status.st_mode):
        raise InvalidAddress(
            f"{quoted(name)} is a symbolic link; local storage does not follow links"
        )
