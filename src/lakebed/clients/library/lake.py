"""The two entrances: a lake in a folder, and a lake on a server."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lakebed.clients.library.backend import Backend
from lakebed.clients.library.refs import Repository

if TYPE_CHECKING:
    from lakebed.clients.library.filesystem import LakebedFileSystem


class Lake:
    """Repositories, in a folder or on a server. Threads may share it.

    >>> lake.repository("books").branch("main").object("authors.txt").exists()
    True
    """

    def __init__(self, backend: Backend) -> None:
        """Made by `open_lake` and `connect`."""
        self._backend = backend

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was opened; ``with`` does it."""
        self._backend.close()

    def repository(self, name: str) -> Repository:
        """Return a repository, which need not be there."""
        return Repository(self._backend, name)

    def repositories(self, prefix: str = "") -> Iterator[Repository]:
        """Iterate over the repositories, in order of their names."""
        found = self._backend.list_repositories(prefix)
        return (self.repository(each.id) for each in found)

    def filesystem(self) -> "LakebedFileSystem":
        """Return the lake for programs that know fsspec; paths are ``repository/ref/path``.

        It opens the lake by itself, so it goes on when this one is closed.

        >>> lake.filesystem().ls("books/main", detail=False)
        ['books/main/authors.txt']
        """
        from lakebed.clients.library.filesystem import LakebedFileSystem  # for those who ask

        return LakebedFileSystem(**self._backend.options)


def open_lake(folder: str | PathLike[str], *, committer: str | None = None) -> Lake:
    """Open the lake in a folder, in this process; the folder is made if it is not there.

    No server is needed, and one may run on the same folder (``lakebed quickstart --data-dir``):
    both see what the other does. Whoever can write to the folder can do everything: there are no
    users here, and no policies. Hooks run.

    Args:
        folder: The folder.
        committer: Who is said to make commits; None: the user of this process.

    Raises:
        LakeError: It cannot be opened.
    """
    from lakebed.clients.library.embedded import EmbeddedBackend  # it loads the engine

    return Lake(EmbeddedBackend(Path(folder), committer))


def connect(url: str | None = None, key: str | None = None, secret: str | None = None) -> Lake:
    """Return the lake of a server, as one of its users; nothing is sent yet.

    Args:
        url: The server: ``http://127.0.0.1:8000``.
        key: An access key id. Without key and secret, they are taken from where the command line
            has them, and so is the url.
        secret: The secret that goes with it.

    Raises:
        Invalid: A setting is missing or wrong.
    """
    from lakebed.clients.library.remote import RemoteBackend  # it loads the HTTP client

    return Lake(RemoteBackend(url, key, secret))
