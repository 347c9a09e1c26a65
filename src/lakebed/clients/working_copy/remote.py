"""Requests of working copies to the server."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

from lakebed.base.content_types import content_type_of
from lakebed.clients.http.errors import Refused
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items
from lakebed.clients.working_copy.errors import Changed, Conflicts, WorkingCopyError
from lakebed.clients.working_copy.state import RemotePath
from lakebed.wire import refs
from lakebed.wire.objects import (
    ForcePathQuery,
    ListQuery,
    ObjectsAPI,
    ObjectStats,
    PathList,
    PathQuery,
    ReadQuery,
)

Step = Callable[[int], None]
"""Called with the size of each chunk; may raise to end a transfer."""

_CLIENT_MTIME: Final = "::lakefs::client-mtime"
_CLIENT_MTIME_HEADER: Final = "X-Lakefs-Internal-Client-Mtime"
"""Where lakectl stores a file's modification time in seconds. To lakectl, a file with another
time is changed."""

_CHUNK_BYTES: Final = 1 << 20
_REMOVED_AT_ONCE: Final = 1000
_MD5_DIGITS: Final = 32
_TIME_DIGITS_MAX: Final = 10
_NOT_FOUND: Final = 404
_EXISTS: Final = 409
_FAILED_CONDITION: Final = 412


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object below the remote path of a working copy."""

    path: str
    """Relative to the working copy."""
    checksum: str
    size: int
    mtime: int
    """Modification time of the uploaded file in seconds, if known; else of the object."""
    ref: str
    """The ref that was listed."""

    @property
    def md5(self) -> str | None:
        """The MD5 of its bytes, or None if unknown, as after a multipart upload."""
        is_md5 = len(self.checksum) == _MD5_DIGITS and self.checksum.isalnum()
        return self.checksum if is_md5 else None

    def is_same(self, other: "RemoteFile | None") -> bool:
        """Whether both have the same checksum and size."""
        return other is not None and (self.checksum, self.size) == (other.checksum, other.size)


class Remote:
    """A path of a repository. Threads may share it."""

    def __init__(self, client: Client, source: RemotePath, *, step: Step) -> None:
        self.source = source
        self._client = client
        self._step = step
        self._lake = source.repository

    def resolve(self, ref: str) -> str:
        """Return the commit id of a ref."""
        return self._client.commits.get(self._lake, ref).id

    def branch_head(self) -> str:
        """Return the head of the source branch, checking that commits to it are allowed."""
        try:
            found = self._client.branches.get(self._lake, self.source.ref)
        except Refused as error:
            if error.status != _NOT_FOUND or error.body.kind == "repository_not_found":
                raise
            raise WorkingCopyError(
                f"{self.source.ref} is not a branch: commits need a branch"
            ) from None
        # A merge must not bypass a write protection.
        query = PathQuery(path=f"{self.source.prefix}any")
        self._client.objects.may_upload(self._lake, self.source.ref, query)
        return found.commit_id

    def list(self, ref: str) -> Iterator[RemoteFile]:
        """Iterate over the objects at a ref, sorted by path."""
        query = ListQuery(prefix=self.source.prefix)
        for found in list_items(self._client.objects.list, self._lake, ref, query):
            if (item := self._item(found, found, ref)) is not None:
                yield item

    def diff(self, left: str, right: str) -> Iterator[tuple[str, RemoteFile | None]]:
        """Yield the paths that differ, each with its object in `right`, or None if deleted."""
        query = refs.DiffRefsQuery(
            prefix=self.source.prefix, type="two_dot", include_right_stats=True
        )
        for found in list_items(self._client.refs.diff, self._lake, left, right, query):
            path = found.path.removeprefix(self.source.prefix)
            if _is_data(path, found.size_bytes):
                yield path, self._item(found, found.right, right) if found.right else None

    def _item(
        self, found: ObjectStats | refs.Diff, stats: ObjectStats | refs.DiffObjectStat, ref: str
    ) -> RemoteFile | None:
        path = found.path.removeprefix(self.source.prefix)
        if not _is_data(path, found.size_bytes):
            return None
        noted = (stats.metadata or {}).get(_CLIENT_MTIME, "")
        is_time = noted.isdecimal() and len(noted) <= _TIME_DIGITS_MAX
        mtime = int(noted) if is_time else stats.mtime
        return RemoteFile(path, stats.checksum, found.size_bytes or 0, mtime, ref)

    def fetch(self, item: RemoteFile, write: Callable[[bytes], object]) -> str:
        """Read an object and return the MD5 of its bytes."""
        md5, size = hashlib.md5(usedforsecurity=False), 0
        query = ReadQuery(path=self.source.prefix + item.path)
        with self._client.open(
            ObjectsAPI.get.request(self._lake, item.ref, query),
            headers={"Accept-Encoding": "identity"},
        ) as answer:
            for chunk in answer.iter_raw():
                md5.update(chunk)
                write(chunk)
                size += len(chunk)
                self._step(len(chunk))
        found = md5.hexdigest()
        if size != item.size or item.md5 not in {None, found}:
            raise WorkingCopyError(f"{item.path} was corrupted in transit: run the command again")
        return found

    def send(
        self,
        branch: str,
        path: str,
        file: BinaryIO,
        *,
        size: int,
        mtime: int,
        instead: RemoteFile | None,
    ) -> tuple[str, str]:
        """Upload a file, only if the branch still has `instead` at its path.

        Returns:
            The MD5 of the bytes, and the checksum of the object.

        Raises:
            Conflicts: The branch has another object at this path.
            Changed: The file was truncated during the upload.
        """
        md5 = hashlib.md5(usedforsecurity=False)

        def chunks() -> Iterator[bytes]:
            left = size
            while left:
                chunk = file.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    raise Changed(path)
                md5.update(chunk)
                left -= len(chunk)
                self._step(len(chunk))
                yield chunk

        query = ForcePathQuery(path=self.source.prefix + path)
        request = ObjectsAPI.upload.request(self._lake, branch, query)
        condition = {"If-Match": f'"{instead.checksum}"'} if instead else {"If-None-Match": "*"}
        try:
            with self._client.open(
                request,
                content=chunks(),
                headers={
                    "Content-Length": str(size),
                    "Content-Type": content_type_of(path),
                    _CLIENT_MTIME_HEADER: str(mtime),
                    **condition,
                },
            ) as answer:
                checksum = self._client.answer(request, answer).value.checksum
        except Refused as error:
            if error.status != _FAILED_CONDITION:
                raise
            raise Conflicts([path], "run `lakebed local pull`, then commit again") from None
        if checksum != md5.hexdigest():
            raise WorkingCopyError(f"{path} was corrupted in transit: run the command again")
        return md5.hexdigest(), checksum

    def remove(self, branch: str, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), _REMOVED_AT_ONCE):
            batch = [self.source.prefix + path for path in paths[start : start + _REMOVED_AT_ONCE]]
            answer = self._client.objects.delete_many(self._lake, branch, PathList(paths=batch))
            for error in answer.errors:
                raise WorkingCopyError(f"could not remove {error.path}: {error.message}")

    def make_branch(self, name: str, source: str) -> None:
        """Create a hidden branch if it does not exist."""
        body = refs.BranchCreation(name=name, source=source, hidden=True)
        with _tolerating(_EXISTS):
            self._client.branches.create(self._lake, body)

    def drop_branch(self, name: str) -> None:
        with _tolerating(_NOT_FOUND):
            self._client.branches.delete(self._lake, name)

    def commit(self, branch: str, message: str, metadata: Mapping[str, str]) -> str:
        """Commit the staged changes of a branch, if any; return its head."""
        body = refs.CommitCreation(message=message, metadata=dict(metadata))
        with _tolerating("no_changes"):
            self._client.commits.create(self._lake, branch, body)
        return self._client.branches.get(self._lake, branch).commit_id

    def merge(self, branch: str, message: str, metadata: Mapping[str, str]) -> str:
        """Squash-merge a branch into the source branch; return the commit id.

        Uncommitted changes on the source branch are kept.

        Raises:
            Conflicts: The source branch has committed or staged changes of the same objects.
        """
        body = refs.Merge(
            message=message, metadata=dict(metadata), squash_merge=True, keep_staged=True
        )
        merge = self._client.refs.merge
        try:
            return merge(self._lake, branch, self.source.ref, body=body).reference
        except Refused as error:
            if error.status != _EXISTS:
                raise
            paths = [key.removeprefix(self.source.prefix) for key in error.body.conflicts]
            raise Conflicts(
                paths or [error.message],
                "they were changed meanwhile, or have uncommitted changes on the branch",
            ) from None


@contextmanager
def _tolerating(reason: int | str) -> Iterator[None]:
    """Ignore a refusal with this status or error kind."""
    try:
        yield
    except Refused as error:
        if reason not in {error.status, error.body.kind}:
            raise


def _is_data(path: str, size: object) -> bool:
    """Whether a key is neither a directory marker nor a macOS metadata file."""
    is_folder_marker = (not path or path.endswith("/")) and not size
    return not is_folder_marker and path.rpartition("/")[2] != ".DS_Store"
