"""Objects of a lake, at any ref for reading, on a branch also for writing."""

import re
import shutil
from collections.abc import Mapping
from functools import partial
from typing import BinaryIO, Final, Literal, TextIO, overload

from lakebed.base.content_types import content_type_of
from lakebed.clients.library.backend import Backend, UploadDetails
from lakebed.clients.library.errors import Invalid, NotFound, ObjectExists, PreconditionFailed
from lakebed.clients.library.files import (
    READ_MODES,
    WRITE_MODES,
    check_mode,
    new_reader,
    new_writer,
)
from lakebed.clients.library.values import ObjectInfo

_NAME: Final = re.compile("[a-z0-9-]+")
_MISSING_ABOVE: Final = frozenset(
    {
        "repository_not_found",
        "branch_not_found",
        "tag_not_found",
        "commit_not_found",
        "ref_not_found",
    }
)


class StoredObject:
    r"""An object at a ref; the object need not exist.

    >>> found = lake.repository("books").ref("main").object("authors.txt")
    >>> found.exists()
    True
    >>> found.reader("r").read()
    'Ursula K. Le Guin\n'
    """

    def __init__(self, backend: Backend, repository: str, ref: str, path: str) -> None:
        """Use `Reference.object` or `Branch.object`."""
        if not path:
            raise Invalid("the path of an object must not be empty")
        self._backend = backend
        self.repository = repository
        self.ref = ref
        self.path = path

    def __repr__(self) -> str:
        return f"<object {self.path!r} at {self.ref!r} of {self.repository!r}>"

    def stat(self) -> ObjectInfo:
        """Return the metadata of the object.

        >>> lake.repository("books").branch("main").object("authors.txt").stat().size_bytes
        18

        Raises:
            NotFound: The object does not exist.
        """
        return self._backend.stat(self.repository, self.ref, self.path)

    def exists(self) -> bool:
        """Whether the object exists. A missing repository or ref is an error."""
        try:
            self.stat()
        except NotFound as error:
            if error.kind in _MISSING_ABOVE:
                raise
            return False
        return True

    @overload
    def reader(self, mode: Literal["rb"] = "rb") -> BinaryIO: ...

    @overload
    def reader(self, mode: Literal["r"]) -> TextIO: ...

    def reader(self, mode: str = "rb") -> BinaryIO | TextIO:
        """Return a file that reads the object: bytes, or UTF-8 text with the mode ``r``.

        The file reads the version that existed when it was opened.

        >>> with lake.repository("books").branch("main").object("authors.txt").reader() as file:
        ...     file.read(6)
        b'Ursula'

        Raises:
            NotFound: The object does not exist.
        """
        check_mode(mode, READ_MODES)
        return new_reader(self._backend.open_object(self.repository, self.ref, self.path), mode)

    def copy(self, branch: str, path: str) -> "WriteableObject":
        """Copy the object onto a branch of its repository; return the copy.

        >>> main = lake.repository("books").branch("main")
        >>> main.object("authors.txt").copy("main", "copies/authors.txt").stat().size_bytes
        18

        Raises:
            NotFound: The object or the branch does not exist.
            Forbidden: The branch is protected.
        """
        self._backend.copy(self.repository, branch, path, self.ref, self.path)
        return WriteableObject(self._backend, self.repository, branch, path)


class WriteableObject(StoredObject):
    """An object on a branch."""

    @overload
    def writer(
        self,
        mode: Literal["wb", "xb"] = "wb",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> BinaryIO: ...

    @overload
    def writer(
        self,
        mode: Literal["w", "x"],
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> TextIO: ...

    def writer(
        self,
        mode: str = "wb",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> BinaryIO | TextIO:
        """Return a file whose content becomes the object when the file is closed.

        If a ``with`` block raises, or the file is never closed, no object is stored. With the mode
        ``x``, `close` fails if the path already has an object.

        >>> with lake.repository("books").branch("main").object("notes.txt").writer("w") as file:
        ...     _ = file.write("Read again.")

        Args:
            mode: ``wb``, ``xb``, or for UTF-8 text ``w``, ``x``.
            content_type: Content type; None means guessed from the path.
            metadata: Metadata that all clients can read: names of lower case letters, digits and
                hyphens, values of printable ASCII.

        Raises:
            Invalid: The metadata is not allowed.
        """
        check_mode(mode, WRITE_MODES)
        _check_metadata(metadata or {})
        details = UploadDetails(
            content_type=content_type or content_type_of(self.path),
            metadata=metadata or {},
            only_new="x" in mode,
        )
        return new_writer(partial(self._store, details), mode)

    def upload(
        self,
        data: bytes | str | BinaryIO,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """Store bytes, text as UTF-8, or the content of a file; return the object's metadata.

        >>> lake.repository("books").branch("main").object("a.csv").upload("x,y").content_type
        'text/csv'

        Raises:
            NotFound: The branch does not exist.
            Forbidden: The branch is protected.
        """
        with self.writer("wb", content_type=content_type, metadata=metadata) as file:
            if isinstance(data, bytes | str):
                file.write(data.encode() if isinstance(data, str) else data)
            else:
                shutil.copyfileobj(data, file)
        return self.stat()

    def delete(self) -> None:
        """Delete the object from its branch if it exists; commits are unchanged."""
        self._backend.delete_objects(self.repository, self.ref, [self.path])

    def _store(self, details: UploadDetails, data: BinaryIO) -> None:
        try:
            self._backend.upload(self.repository, self.ref, self.path, data, details)
        except PreconditionFailed as error:
            if not details.only_new:
                raise
            raise ObjectExists(str(error), error.kind) from error


def _check_metadata(metadata: Mapping[str, str]) -> None:
    """Refuse metadata that HTTP headers cannot carry."""
    for name, value in metadata.items():
        if not _NAME.fullmatch(name):
            raise Invalid(
                f"metadata name {name!r} is not allowed: use lower case letters, digits and hyphens"
            )
        if not (value.isascii() and value.isprintable()):
            raise Invalid(f"metadata {name!r} has the value {value!r}: use only printable ASCII")
