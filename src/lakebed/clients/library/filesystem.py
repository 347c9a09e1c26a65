"""An fsspec file system of a lake: ``lakebed://repository/ref/path``.

Repositories, refs and common prefixes are directories. Writing and deleting need a branch as the
ref. A directory exists as long as an object lies below; a created one is empty, for its creator.
"""

import os
import weakref
from collections.abc import Iterable
from datetime import datetime
from typing import BinaryIO, NamedTuple, cast

from fsspec.spec import AbstractFileSystem

from lakebed.clients.library.errors import Invalid, NotFound
from lakebed.clients.library.lake import Lake, connect, open_lake
from lakebed.clients.library.refs import Branch, Reference
from lakebed.clients.library.values import CommonPrefix, ObjectInfo


class _PathParts(NamedTuple):
    """The parts of a path; missing parts are empty."""

    repository: str
    ref: str
    path: str


class LakebedFileSystem(AbstractFileSystem):  # type: ignore[misc]  # untyped
    r"""The file system of one lake.

    Args:
        folder: Directory of the lake, as in `lakebed.open`. Excludes `endpoint`.
        endpoint: URL of the server; None means the setting of the command line.
        key: Access key id for the server.
        secret: Secret access key for the server.
        committer: Committer of new commits. Needs `folder`.

    >>> from lakebed.clients.library.filesystem import LakebedFileSystem
    >>> files = LakebedFileSystem(folder)
    >>> files.cat("lakebed://books/main/authors.txt")
    b'Ursula K. Le Guin\n'
    """

    protocol = "lakebed"

    def __init__(
        self,
        folder: str | None = None,
        *,
        endpoint: str | None = None,
        key: str | None = None,
        secret: str | None = None,
        committer: str | None = None,
        **options: object,
    ) -> None:
        super().__init__(**options)
        if folder is not None and endpoint is not None:
            raise Invalid("pass either folder or endpoint, not both")
        self._lake: Lake = (
            connect(endpoint, key, secret)
            if folder is None
            else open_lake(folder, committer=committer)
        )
        self._created: set[str] = set()
        # fsspec caches instances and never closes them.
        weakref.finalize(self, _close, self._lake, os.getpid())

    # What there is

    def ls(self, path: str, detail: bool = True, **_: object) -> list[object]:
        """List a directory, or a file."""
        place = _split_path(self._strip_protocol(path))
        if not place.ref:
            found = [_folder(name) for name in self._names(place.repository)]
        else:
            found = self._list(place)
        return [each if detail else each["name"] for each in found]

    def _names(self, repository: str) -> Iterable[str]:
        """The repositories, or the branches of a repository."""
        if not repository:
            return (each.id for each in self._lake.repositories())
        found = self._lake.repository(repository).branches()
        return (f"{repository}/{each.id}" for each in found)

    def _list(self, place: _PathParts) -> list[dict[str, object]]:
        ref, above = self._ref(place), f"{place.repository}/{place.ref}/"
        below = f"{place.path}/" if place.path else ""
        found = [_described(above, item) for item in ref.objects(below, "/")]
        if not found and place.path and "/".join(place) not in self._created:
            return [_described(above, ref.object(place.path).stat())]
        return found

    def info(self, path: str, **_: object) -> dict[str, object]:
        name = self._strip_protocol(path)
        place = _split_path(name)
        if not place.path:
            if place.ref:
                self._ref(place).get_commit()
            elif place.repository:
                self._lake.repository(place.repository).properties  # noqa: B018 - it raises
            return _folder(name)
        ref, above = self._ref(place), f"{place.repository}/{place.ref}/"
        try:
            return _described(above, ref.object(place.path).stat())
        except NotFound:
            if (
                name not in self._created
                and next(iter(ref.objects(f"{place.path}/", "/")), None) is None
            ):
                raise
        return _folder(name)

    def modified(self, path: str) -> datetime:
        """Return the modification time of an object."""
        return cast("datetime", self.info(path)["mtime"])

    def checksum(self, path: str) -> str:
        """Return a value that changes with the object."""
        return str(self.info(path)["checksum"])

    # Files

    def _open(
        self, path: str, mode: str = "rb", *_: object, autocommit: bool = True, **__: object
    ) -> BinaryIO:
        place = _split_path(path)
        if mode == "rb":
            return self._ref(place).object(place.path).reader()
        if not autocommit:
            raise Invalid("fsspec transactions are not supported: write to a branch and merge it")
        if mode not in {"wb", "xb"}:
            raise Invalid(f"invalid mode '{mode}': objects are written as a whole by 'wb' or 'xb'")
        return self._branch(place).object(place.path).writer("xb" if mode == "xb" else "wb")

    def cp_file(self, path1: str, path2: str, **_: object) -> None:
        """Copy an object; within a repository, without downloading."""
        old, new = map(_split_path, map(self._strip_protocol, (path1, path2)))
        if self.isdir(path1):
            return
        if old.repository == new.repository:
            self._ref(old).object(old.path).copy(new.ref, new.path)
        else:
            with self.open(path1, "rb") as source:
                self._branch(new).object(new.path).upload(source)

    def rm(
        self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        """Delete files; with `recursive`, also the content of directories."""
        for each in [path] if isinstance(path, str) else path:
            name = self._strip_protocol(each)
            files = self.find(name, maxdepth=maxdepth) if recursive else [name]
            if not recursive and self.info(name)["type"] == "directory":
                raise IsADirectoryError(f"{name} is a folder: pass recursive=True")
            if files:
                branch = self._branch(_split_path(name))
                branch.delete_objects(_split_path(file).path for file in files)

    def rm_file(self, path: str) -> None:
        self.rm(path)

    def mkdir(self, path: str, *_: object, **__: object) -> None:
        """Let this instance find an empty directory: DuckDB 2 lists the directories it makes."""
        self._created.add(self._strip_protocol(path))

    makedirs = mkdir

    def rmdir(self, path: str) -> None:
        """Forget a directory without objects."""
        self._created.discard(self._strip_protocol(path))

    # Places

    def _ref(self, place: _PathParts) -> Reference:
        return self._lake.repository(place.repository).ref(place.ref)

    def _branch(self, place: _PathParts) -> Branch:
        if not place.path:
            raise Invalid(
                f"{'/'.join(filter(None, place))} is not a file: use lakebed://repository/branch/path"
            )
        return self._lake.repository(place.repository).branch(place.ref)


def _close(lake: Lake, process: int) -> None:
    """Close a lake, but only in the process that opened it, not after ``fork``."""
    if os.getpid() == process:
        lake.close()


def _split_path(name: str) -> _PathParts:
    repository, _, rest = name.partition("/")
    ref, _, path = rest.partition("/")
    return _PathParts(repository, ref, path)


def _folder(name: str) -> dict[str, object]:
    return {"name": name.rstrip("/"), "size": 0, "type": "directory"}


def _described(above: str, item: ObjectInfo | CommonPrefix) -> dict[str, object]:
    if isinstance(item, CommonPrefix):
        return _folder(above + item.path)
    return {
        "name": above + item.path,
        "size": item.size_bytes,
        "type": "file",
        "checksum": item.checksum,
        "mtime": item.mtime,
        "content_type": item.content_type,
        "metadata": dict(item.metadata),
    }
