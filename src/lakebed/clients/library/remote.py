"""A lake on a server, by its REST API."""

import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, ParamSpec, TypeVar, cast

import httpx

from lakebed.base.errors import LakebedError
from lakebed.clients.http.errors import ClientError, Refused, Unreachable
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items
from lakebed.clients.http.settings import ClientSettings, load_settings, normal_endpoint
from lakebed.clients.library.backend import CommitDetails, Reset, UploadDetails
from lakebed.clients.library.errors import Invalid, LakeError, MergeConflict, Unavailable, error_of
from lakebed.clients.library.values import (
    Change,
    ChangeKind,
    Commit,
    CommonPrefix,
    ObjectInfo,
    RepositoryInfo,
)
from lakebed.wire import refs
from lakebed.wire.base import KeysQuery, Page, PageQuery
from lakebed.wire.calls import BoundCall, WireRequest
from lakebed.wire.imports import ImportCreation, ImportLocation, ImportQuery
from lakebed.wire.objects import (
    CopyQuery,
    ForcePathQuery,
    ListQuery,
    ObjectCopyCreation,
    ObjectsAPI,
    ObjectStats,
    PathList,
    ReadQuery,
    StatQuery,
)
from lakebed.wire.repositories import RepositoriesQuery, Repository, RepositoryCreation

if TYPE_CHECKING:  # imports the engine, which a client of a server does not need
    from lakebed.reclaim.collector.job import CollectorOptions
    from lakebed.reclaim.collector.report import RunSummary

P = ParamSpec("P")
ItemT = TypeVar("ItemT")

_CHUNK_BYTES: Final = 1 << 20
_POLL_SECONDS: Final = 0.5
_MD5_DIGITS: Final = 32
_PATHS_MAX: Final = 1000
"""The most paths in one request."""


class RemoteBackend:
    """The lake of a server for a single user. Thread-safe."""

    def __init__(self, url: str | None, key: str | None, secret: str | None) -> None:
        """Load the settings; no request is made.

        Raises:
            Invalid: A setting is missing or wrong.
        """
        with _explained():
            if key is None or secret is None:
                self._settings = load_settings(environ=os.environ, config_file=None, endpoint=url)
            elif url is None:
                raise Invalid("a key needs a url: pass the URL of its server")
            else:
                self._settings = ClientSettings(normal_endpoint(url), key, secret)
        self.options = {
            "endpoint": self._settings.endpoint,
            "key": self._settings.access_key_id,
            "secret": self._settings.secret_access_key,
        }
        self._client = _Client(self._settings)

    def close(self) -> None:
        self._client.close()

    # Repositories

    def list_repositories(self, prefix: str) -> Iterator[RepositoryInfo]:
        query = RepositoriesQuery(prefix=prefix)
        return map(_repository_info, _listed(self._client.repositories.list, query))

    def get_repository(self, name: str) -> RepositoryInfo:
        return _repository_info(self._client.repositories.get(name))

    def create_repository(
        self, name: str, storage_namespace: str | None, default_branch: str
    ) -> None:
        if storage_namespace is None:
            found = self._client.config.get().storage_config
            prefix = found.default_namespace_prefix
            if not prefix:
                raise Invalid(
                    "the server has no default for storage namespaces: pass a storage_namespace,"
                    f" such as {found.blockstore_namespace_example}"
                )
            slash = "" if prefix.endswith("/") else "/"
            storage_namespace = f"{prefix}{slash}{name}"
        self._client.repositories.create(
            RepositoryCreation(
                name=name, storage_namespace=storage_namespace, default_branch=default_branch
            )
        )

    def delete_repository(self, name: str) -> None:
        self._client.repositories.delete(name)

    def collect_garbage(self, repository: str, options: "CollectorOptions") -> "RunSummary":
        # Imports the engine, which a client of a server does not need.
        from lakebed.base.runtime import ThreadRuntime
        from lakebed.clients.garbage.server import GarbageServer
        from lakebed.reclaim.collector.job import CollectorJob
        from lakebed.reclaim.collector.on_arrow import ArrowExecutor
        from lakebed.reclaim.collector.storage import open_storage

        with _explained(), closing(GarbageServer(self._settings, repository)) as server:
            storage = open_storage(server)
            return CollectorJob(ArrowExecutor(storage, ThreadRuntime()), server, storage).run(
                options
            )

    # Branches and tags

    def list_branches(self, repository: str, prefix: str) -> Iterator[str]:
        query = refs.BranchesQuery(prefix=prefix)
        return (each.id for each in _listed(self._client.branches.list, repository, query))

    def get_branch(self, repository: str, branch: str) -> str:
        return self._client.branches.get(repository, branch).commit_id

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        self._client.branches.create(repository, refs.BranchCreation(name=branch, source=source))

    def delete_branch(self, repository: str, branch: str) -> None:
        self._client.branches.delete(repository, branch)

    def list_tags(self, repository: str, prefix: str) -> Iterator[str]:
        query = PageQuery(prefix=prefix)
        return (each.id for each in _listed(self._client.tags.list, repository, query))

    def get_tag(self, repository: str, tag: str) -> str:
        return self._client.tags.get(repository, tag).commit_id

    def create_tag(self, repository: str, tag: str, source: str) -> None:
        self._client.tags.create(repository, refs.TagCreation(id=tag, ref=source))

    def delete_tag(self, repository: str, tag: str) -> None:
        self._client.tags.delete(repository, tag)

    # History

    def get_commit(self, repository: str, ref: str) -> Commit:
        return _commit(self._client.commits.get(repository, ref))

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        return map(_commit, _listed(self._client.refs.log, repository, ref))

    def diff(self, repository: str, left: str, right: str, prefix: str) -> Iterator[Change]:
        query = refs.DiffRefsQuery(prefix=prefix)
        return map(_change, _listed(self._client.refs.diff, repository, left, right, query))

    def uncommitted(self, repository: str, branch: str, prefix: str) -> Iterator[Change]:
        query = KeysQuery(prefix=prefix)
        return map(_change, _listed(self._client.branches.diff, repository, branch, query))

    def commit(self, repository: str, branch: str, details: CommitDetails) -> Commit:
        body = refs.CommitCreation(
            message=details.message,
            metadata=dict(details.metadata),
            allow_empty=details.allow_empty,
        )
        return _commit(self._client.commits.create(repository, branch, body))

    def merge(
        self, repository: str, source: str, branch: str, details: CommitDetails, strategy: str
    ) -> Commit:
        body = refs.Merge(
            message=details.message,
            metadata=dict(details.metadata),
            allow_empty=details.allow_empty,
            strategy=strategy,
        )
        merged = self._client.refs.merge(repository, source, branch, body=body)
        return self.get_commit(repository, merged.reference)

    def revert(self, repository: str, branch: str, ref: str, parent_number: int | None) -> Commit:
        body = refs.RevertCreation(ref=ref, parent_number=parent_number or 0)
        self._client.branches.revert(repository, branch, body)
        return self.get_commit(repository, branch)

    def cherry_pick(
        self, repository: str, branch: str, ref: str, parent_number: int | None
    ) -> Commit:
        body = refs.CherryPickCreation(ref=ref, parent_number=parent_number)
        return _commit(self._client.branches.cherry_pick(repository, branch, body))

    def reset(self, repository: str, branch: str, what: Reset, path: str) -> None:
        body = refs.ResetCreation(type=what, path=None if what == "reset" else path)
        self._client.branches.reset(repository, branch, body)

    # Objects

    def list_objects(
        self, repository: str, ref: str, prefix: str, delimiter: str
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        query = ListQuery(prefix=prefix, delimiter=delimiter)
        return map(_item, _listed(self._client.objects.list, repository, ref, query))

    def stat(self, repository: str, ref: str, path: str) -> ObjectInfo:
        return _object_info(self._client.objects.stat(repository, ref, StatQuery(path=path)))

    def open_object(self, repository: str, ref: str, path: str) -> "RemoteObject":
        return RemoteObject(self._client, repository, ref, self.stat(repository, ref, path))

    def upload(
        self, repository: str, branch: str, path: str, data: BinaryIO, details: UploadDetails
    ) -> ObjectInfo:
        size, md5 = data.seek(0, os.SEEK_END), hashlib.md5(usedforsecurity=False)
        data.seek(0)

        def chunks() -> Iterator[bytes]:
            while chunk := data.read(_CHUNK_BYTES):
                md5.update(chunk)
                yield chunk

        request = ObjectsAPI.upload.request(repository, branch, ForcePathQuery(path=path))
        headers = {
            "Content-Length": str(size),
            "Content-Type": details.content_type,
            **{f"X-Lakefs-Meta-{name}": value for name, value in details.metadata.items()},
            **({"If-None-Match": "*"} if details.only_new else {}),
        }
        with self._client.open(request, content=chunks(), headers=headers) as response:
            stored = _object_info(self._client.answer(request, response).value)
        # Some storages use checksums other than MD5, which cannot be compared.
        if len(stored.checksum) == _MD5_DIGITS and stored.checksum != md5.hexdigest():
            raise LakeError(f"{path} was corrupted in transit: upload it again", "damaged")
        return stored

    def copy(
        self, repository: str, branch: str, path: str, source_ref: str, source_path: str
    ) -> ObjectInfo:
        body = ObjectCopyCreation(src_ref=source_ref, src_path=source_path)
        query = CopyQuery(dest_path=path)
        return _object_info(self._client.objects.copy(repository, branch, query, body))

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> None:
        for first in range(0, len(paths), _PATHS_MAX):
            body = PathList(paths=list(paths[first : first + _PATHS_MAX]))
            for failed in self._client.objects.delete_many(repository, branch, body).errors:
                raise error_of(failed.status_code, failed.message, "")

    def import_objects(
        self,
        repository: str,
        branch: str,
        prefixes: Mapping[str, str],
        objects: Mapping[str, str],
        details: CommitDetails,
    ) -> Commit:
        paths = [
            *(
                ImportLocation(type="common_prefix", path=place, destination=destination)
                for place, destination in prefixes.items()
            ),
            *(
                ImportLocation(type="object", path=place, destination=destination)
                for place, destination in objects.items()
            ),
        ]
        commit = refs.CommitCreation(message=details.message, metadata=dict(details.metadata))
        imports, body = self._client.imports, ImportCreation(paths=paths, commit=commit)
        query = ImportQuery(id=imports.start(repository, branch, body).id)
        while True:
            status = imports.status(repository, branch, query)
            if status.completed and status.commit is not None:
                return _commit(status.commit)
            if status.error:
                raise Invalid(status.error.message, "import_failed")
            time.sleep(_POLL_SECONDS)


class RemoteObject:
    """An object version on a server."""

    def __init__(self, client: Client, repository: str, ref: str, info: ObjectInfo) -> None:
        self.info = info
        self._client = client
        self._request = ObjectsAPI.get.request(repository, ref, ReadQuery(path=info.path))

    def read(self, begin: int, end: int) -> bytes:
        headers = {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
        with self._client.open(self._request, headers=headers) as response:
            # The branch may have another object at this path by now.
            if response.headers.get("ETag", "").strip('"') != self.info.checksum:
                raise LakeError(
                    f"{self.info.path} was replaced while being read: open it again, or read it at"
                    " a commit",
                    "object_replaced",
                )
            return response.read()


class _Client(Client):
    """A client that raises the errors of the library."""

    @contextmanager
    def open(self, request: WireRequest[Any], **options: Any) -> Iterator[httpx.Response]:
        with _explained(), super().open(request, **options) as response:
            yield response


def _listed(call: BoundCall[P, Page[ItemT]], *args: P.args, **kwargs: P.kwargs) -> Iterator[ItemT]:
    with _explained():
        yield from list_items(call, *args, **kwargs)


@contextmanager
def _explained() -> Iterator[None]:
    """Translate errors to those of the library."""
    try:
        yield
    except LakeError:
        raise
    except Refused as error:
        if error.body.conflicts:
            raise MergeConflict(error.message, error.body.conflicts) from None
        raise error_of(error.status, error.message, error.body.kind) from None
    except Unreachable as error:
        raise Unavailable(str(error), error.kind) from None
    except ClientError as error:
        raise Invalid(str(error), error.kind) from None
    except LakebedError as error:
        raise LakeError(str(error), error.kind) from error


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _repository_info(found: Repository) -> RepositoryInfo:
    return RepositoryInfo(
        id=found.id,
        storage_namespace=found.storage_namespace,
        default_branch=found.default_branch,
        creation_date=_moment(found.creation_date),
        read_only=found.read_only,
    )


def _commit(found: refs.Commit) -> Commit:
    return Commit(
        id=found.id,
        message=found.message,
        committer=found.committer,
        creation_date=_moment(found.creation_date),
        parents=tuple(found.parents),
        metadata=found.metadata,
        refused_by=found.refused or None,
    )


def _object_info(found: ObjectStats) -> ObjectInfo:
    return ObjectInfo(
        path=found.path,
        size_bytes=found.size_bytes or 0,
        checksum=found.checksum,
        mtime=_moment(found.mtime),
        content_type=found.content_type or "",
        physical_address=found.physical_address,
        metadata=found.metadata or {},
    )


def _item(found: ObjectStats) -> ObjectInfo | CommonPrefix:
    return CommonPrefix(found.path) if found.path_type == "common_prefix" else _object_info(found)


def _change(found: refs.Diff) -> Change:
    return Change(
        type=cast(ChangeKind, found.type),
        path=found.path,
        path_type="common_prefix" if found.path_type == "common_prefix" else "object",
        size_bytes=found.size_bytes or 0,
    )
