"""A lake on a server, by its REST API."""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from lakebed.client.errors import ClientError, Refused, Unreachable
from lakebed.client.http import Client, decoded
from lakebed.client.paging import list_items
from lakebed.client.settings import ClientSettings, load_settings, normal_endpoint
from lakebed.errors import LakebedError
from lakebed.library.backend import CommitWords, Reset
from lakebed.library.errors import Invalid, LakeError, MergeConflict, Unavailable, error_of
from lakebed.library.values import Change, Commit, CommonPrefix, ObjectInfo, RepositoryInfo

if TYPE_CHECKING:  # it loads the engine's files, which a client of a server can do without
    from lakebed.gc.job import Options
    from lakebed.gc.report import Summary

_CHUNK_BYTES: Final = 1 << 20
_POLL_SECONDS: Final = 0.5
_MD5_DIGITS: Final = 32
_PATHS_MAX: Final = 1000
"""As many paths go into one request."""


class RemoteBackend:
    """The lake of one server, as one user. Threads may share it."""

    def __init__(self, url: str | None, key: str | None, secret: str | None) -> None:
        """Prepare to ask a server; nothing is sent yet.

        Raises:
            Invalid: A setting is missing or wrong.
        """
        with _explained():
            if key is None or secret is None:
                self._settings = load_settings(environ=os.environ, config_file=None, endpoint=url)
            elif url is None:
                raise Invalid("a key without a url: say which server it is for")
            else:
                self._settings = ClientSettings(normal_endpoint(url), key, secret)
        self.options = {
            "endpoint": self._settings.endpoint,
            "key": self._settings.access_key_id,
            "secret": self._settings.secret_access_key,
        }
        self._client = Client(self._settings)

    def close(self) -> None:
        self._client.close()

    def _get(self, *path: str, query: Mapping[str, Any] | None = None) -> Any:
        return self._call("GET", *path, query=query)

    def _call(
        self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        with _explained():
            return self._client.call(method, "repositories", *path, query=query, body=body)

    def _list(self, *path: str, **query: str) -> Iterator[dict[str, Any]]:
        with _explained():
            yield from list_items(self._client, "repositories", *path, query=query)

    # Repositories

    def list_repositories(self, prefix: str) -> Iterator[RepositoryInfo]:
        return map(_repository_info, self._list(prefix=prefix))

    def get_repository(self, name: str) -> RepositoryInfo:
        return _repository_info(self._get(name))

    def create_repository(
        self, name: str, storage_namespace: str | None, default_branch: str
    ) -> None:
        if storage_namespace is None:
            with _explained():
                found = self._client.get("config")["storage_config"]
            prefix = found.get("default_namespace_prefix")
            if not prefix:
                raise Invalid(
                    "the server does not say where repositories go: name a storage_namespace,"
                    f" such as {found['blockstore_namespace_example']}"
                )
            slash = "" if prefix.endswith("/") else "/"
            storage_namespace = f"{prefix}{slash}{name}"
        body = {
            "name": name,
            "storage_namespace": storage_namespace,
            "default_branch": default_branch,
        }
        self._call("POST", body=body)

    def delete_repository(self, name: str) -> None:
        self._call("DELETE", name)

    def collect_garbage(self, repository: str, options: "Options") -> "Summary":
        # It loads the engine's files, which a client of a server can do without.
        from lakebed.gc.job import Job  # noqa: PLC0415 - see above
        from lakebed.gc.on_arrow import ArrowExecutor  # noqa: PLC0415 - see above
        from lakebed.gc.server import Server  # noqa: PLC0415 - see above
        from lakebed.gc.storage import open_storage  # noqa: PLC0415 - see above
        from lakebed.runtime import ThreadRuntime  # noqa: PLC0415 - see above

        with _explained():
            server = Server(
                self._settings.endpoint,
                repository,
                access_key_id=self._settings.access_key_id,
                secret_access_key=self._settings.secret_access_key,
            )
            with closing(server):
                storage = open_storage(server)
                return Job(ArrowExecutor(storage, ThreadRuntime()), server, storage).run(options)

    # Branches and tags

    def list_branches(self, repository: str, prefix: str) -> Iterator[str]:
        return (str(each["id"]) for each in self._list(repository, "branches", prefix=prefix))

    def get_branch(self, repository: str, branch: str) -> str:
        return str(self._get(repository, "branches", branch)["commit_id"])

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        body = {"name": branch, "source": source}
        with _explained():
            self._client.exchange("POST", "repositories", repository, "branches", body=body)

    def delete_branch(self, repository: str, branch: str) -> None:
        self._call("DELETE", repository, "branches", branch)

    def list_tags(self, repository: str, prefix: str) -> Iterator[str]:
        return (str(each["id"]) for each in self._list(repository, "tags", prefix=prefix))

    def get_tag(self, repository: str, tag: str) -> str:
        return str(self._get(repository, "tags", tag)["commit_id"])

    def create_tag(self, repository: str, tag: str, source: str) -> None:
        self._call("POST", repository, "tags", body={"id": tag, "ref": source})

    def delete_tag(self, repository: str, tag: str) -> None:
        self._call("DELETE", repository, "tags", tag)

    # History

    def get_commit(self, repository: str, ref: str) -> Commit:
        return _commit(self._get(repository, "commits", ref))

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        return map(_commit, self._list(repository, "refs", ref, "commits"))

    def diff(self, repository: str, left: str, right: str, prefix: str) -> Iterator[Change]:
        found = self._list(repository, "refs", left, "diff", right, prefix=prefix)
        return map(_change, found)

    def uncommitted(self, repository: str, branch: str, prefix: str) -> Iterator[Change]:
        return map(_change, self._list(repository, "branches", branch, "diff", prefix=prefix))

    def commit(self, repository: str, branch: str, words: CommitWords) -> Commit:
        return _commit(
            self._call("POST", repository, "branches", branch, "commits", body=_body(words))
        )

    def merge(
        self, repository: str, source: str, branch: str, words: CommitWords, strategy: str
    ) -> Commit:
        body = _body(words) | {"strategy": strategy}
        merged = self._call("POST", repository, "refs", source, "merge", branch, body=body)
        return self.get_commit(repository, merged["reference"])

    def revert(self, repository: str, branch: str, ref: str, parent_number: int | None) -> Commit:
        body = {"ref": ref, "parent_number": parent_number or 0}
        self._call("POST", repository, "branches", branch, "revert", body=body)
        return self.get_commit(repository, branch)

    def cherry_pick(
        self, repository: str, branch: str, ref: str, parent_number: int | None
    ) -> Commit:
        body: dict[str, Any] = {"ref": ref}
        if parent_number is not None:
            body["parent_number"] = parent_number
        return _commit(self._call("POST", repository, "branches", branch, "cherry-pick", body=body))

    def reset(self, repository: str, branch: str, what: Reset, path: str) -> None:
        body = {"type": what} if what == "reset" else {"type": what, "path": path}
        self._call("PUT", repository, "branches", branch, body=body)

    # Objects

    def list_objects(
        self, repository: str, ref: str, prefix: str, delimiter: str
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        path = (repository, "refs", ref, "objects", "ls")
        return map(_item, self._list(*path, prefix=prefix, delimiter=delimiter))

    def stat(self, repository: str, ref: str, path: str) -> ObjectInfo:
        return _object_info(
            self._get(repository, "refs", ref, "objects", "stat", query={"path": path})
        )

    def open_object(self, repository: str, ref: str, path: str) -> "RemoteObject":
        return RemoteObject(self._client, repository, ref, self.stat(repository, ref, path))

    def upload(
        self,
        repository: str,
        branch: str,
        path: str,
        data: BinaryIO,
        *,
        content_type: str,
        metadata: Mapping[str, str],
        only_new: bool,
    ) -> ObjectInfo:
        size, md5 = data.seek(0, os.SEEK_END), hashlib.md5(usedforsecurity=False)
        data.seek(0)

        def chunks() -> Iterator[bytes]:
            while chunk := data.read(_CHUNK_BYTES):
                md5.update(chunk)
                yield chunk

        with (
            _explained(),
            self._client.stream(
                "POST",
                *("repositories", repository, "branches", branch, "objects"),
                query={"path": path},
                content=chunks(),
                headers={
                    "Content-Length": str(size),
                    "Content-Type": content_type,
                    **{f"X-Lakefs-Meta-{name}": value for name, value in metadata.items()},
                    **({"If-None-Match": "*"} if only_new else {}),
                },
                transfer=True,
            ) as response,
        ):
            response.read()
            stored = _object_info(decoded(response))
        # Of some storages it is not an MD5, and says nothing about the bytes.
        if len(stored.checksum) == _MD5_DIGITS and stored.checksum != md5.hexdigest():
            raise LakeError(f"{path} arrived damaged: upload it again", "damaged")
        return stored

    def copy(
        self, repository: str, branch: str, path: str, source_ref: str, source_path: str
    ) -> ObjectInfo:
        body = {"src_ref": source_ref, "src_path": source_path}
        where = (repository, "branches", branch, "objects", "copy")
        return _object_info(self._call("POST", *where, query={"dest_path": path}, body=body))

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> None:
        where = (repository, "branches", branch, "objects", "delete")
        for first in range(0, len(paths), _PATHS_MAX):
            body = {"paths": list(paths[first : first + _PATHS_MAX])}
            for failed in self._call("POST", *where, body=body)["errors"]:
                raise error_of(failed["status_code"], f"{failed['path']}: {failed['message']}", "")

    def import_objects(
        self,
        repository: str,
        branch: str,
        prefixes: Mapping[str, str],
        objects: Mapping[str, str],
        words: CommitWords,
    ) -> Commit:
        where = (repository, "branches", branch, "import")
        paths = [
            {"type": kind, "path": place, "destination": destination}
            for kind, places in (("common_prefix", prefixes), ("object", objects))
            for place, destination in places.items()
        ]
        commit = {"message": words.message, "metadata": dict(words.metadata)}
        started = self._call("POST", *where, body={"paths": paths, "commit": commit})
        while True:
            status = self._get(*where, query={"id": started["id"]})
            if status["completed"]:
                return _commit(status["commit"])
            if status.get("error"):
                raise Invalid(f"the import failed: {status['error']['message']}", "import_failed")
            time.sleep(_POLL_SECONDS)


class RemoteObject:
    """An object of a server."""

    def __init__(self, client: Client, repository: str, ref: str, info: ObjectInfo) -> None:
        self.info = info
        self._client = client
        self._path = ("repositories", repository, "refs", ref, "objects")

    def read(self, begin: int, end: int) -> bytes:
        headers = {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
        with (
            _explained(),
            self._client.stream(
                "GET",
                *self._path,
                query={"path": self.info.path},
                headers=headers,
                transfer=True,
            ) as response,
        ):
            # A branch may have got another object of this path since it was opened.
            if response.headers.get("ETag", "").strip('"') != self.info.checksum:
                raise LakeError(
                    f"{self.info.path} was replaced while it was read: open it again, or read it"
                    " at a commit",
                    "object_replaced",
                )
            return response.read()


@contextmanager
def _explained() -> Iterator[None]:
    """Raise the errors of the library."""
    try:
        yield
    except LakeError:
        raise
    except Refused as error:
        if error.said.conflicts:
            raise MergeConflict(error.said.conflicts, error.said.conflicts_total) from None
        raise error_of(error.status, error.message, error.said.kind) from None
    except Unreachable as error:
        raise Unavailable(str(error), error.kind) from None
    except ClientError as error:
        raise Invalid(str(error), error.kind) from None
    except LakebedError as error:
        raise LakeError(str(error), error.kind) from error


def _body(words: CommitWords) -> dict[str, Any]:
    return {
        "message": words.message,
        "metadata": dict(words.metadata),
        "allow_empty": words.allow_empty,
    }


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _repository_info(found: Mapping[str, Any]) -> RepositoryInfo:
    return RepositoryInfo(
        id=found["id"],
        storage_namespace=found["storage_namespace"],
        default_branch=found["default_branch"],
        creation_date=_moment(found["creation_date"]),
        read_only=found.get("read_only", False),
    )


def _commit(found: Mapping[str, Any]) -> Commit:
    return Commit(
        id=found["id"],
        message=found["message"],
        committer=found["committer"],
        creation_date=_moment(found["creation_date"]),
        parents=tuple(found["parents"]),
        metadata=dict(found.get("metadata") or {}),
    )


def _object_info(found: Mapping[str, Any]) -> ObjectInfo:
    return ObjectInfo(
        path=found["path"],
        size_bytes=found.get("size_bytes") or 0,
        checksum=found["checksum"],
        mtime=_moment(found["mtime"]),
        content_type=found.get("content_type") or "",
        physical_address=found["physical_address"],
        metadata=dict(found.get("metadata") or {}),
    )


def _item(found: Mapping[str, Any]) -> ObjectInfo | CommonPrefix:
    if found["path_type"] == "common_prefix":
        return CommonPrefix(found["path"])
    return _object_info(found)


def _change(found: Mapping[str, Any]) -> Change:
    return Change(
        type=found["type"],
        path=found["path"],
        path_type=found["path_type"],
        size_bytes=found.get("size_bytes") or 0,
    )
