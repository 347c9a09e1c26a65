"""Entry points: a lake in a directory, and a lake on a server."""

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
    """Repositories, in a directory or on a server. Threads may share it.

    >>> lake.repository("books").branch("main").object("authors.txt").exists()
    True
    """

    def __init__(self, backend: Backend) -> None:
        """Use `open_lake` or `connect`."""
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
        """Release all resources, as leaving ``with`` does."""
        self._backend.close()

    def repository(self, name: str) -> Repository:
        """Return a repository, which need not exist."""
        return Repository(self._backend, name)

    def repositories(self, prefix: str = "") -> Iterator[Repository]:
        """Iterate over the repositories, sorted by name."""
        found = self._backend.list_repositories(prefix)
        return (self.repository(each.id) for each in found)

    def filesystem(self) -> "LakebedFileSystem":
        """Return an fsspec file system; paths are ``repository/ref/path``.

        The file system opens the lake itself, so closing this `Lake` does not affect it.

        >>> lake.filesystem().ls("books/main", detail=False)
        ['books/main/authors.txt']
        """
        from lakebed.clients.library.filesystem import LakebedFileSystem  # imports fsspec

        return LakebedFileSystem(**self._backend.options)


def open_lake(folder: str | PathLike[str], *, committer: str | None = None) -> Lake:
    """Open the lake in a directory, in this process; the directory is created if missing.

    No server is needed; one may run on the same directory (``lakebed quickstart --data-dir``) and
    both see each other's changes. A process that can write to the directory has full access:
    users and policies are not checked. Hooks run.

    Args:
        folder: The directory.
        committer: Committer of new commits; None means the user of this process.

    Raises:
        LakeError: The directory cannot be used.
    """
    from lakebed.clients.library.embedded import EmbeddedBackend  # imports the engine

    return Lake(EmbeddedBackend(Path(folder), committer))


def connect(url: str | None = None, key: str | None = None, secret: str | None = None) -> Lake:
    """Return the lake of a server, as one of its users. No request is made.

    Args:
        url: URL of the server, such as ``http://127.0.0.1:8000``.
        key: Access key id. Without key and secret, the settings of the command line apply, also
            for the URL.
        secret: Secret access key.

    Raises:
        Invalid: A setting is missing or wrong.
    """
    from lakebed.clients.library.remote import RemoteBackend  # imports the HTTP client

    return Lake(RemoteBackend(url, key, secret))
