"""A lake in this process: the catalog of a directory, without server, users or permissions."""

import getpass
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from lakebed.base.actor import Actor, EntryPoint, acting_as
from lakebed.base.errors import LakebedError
from lakebed.block import Between
from lakebed.clients.library.backend import CommitDetails, Reset, UploadDetails
from lakebed.clients.library.embedded_values import (
    change_value,
    commit_value,
    import_sources,
    listed_item,
    object_info,
    repository_info,
    text_of,
)
from lakebed.clients.library.errors import (
    CONFLICTS_SHOWN,
    Invalid,
    LakeError,
    MergeConflict,
    error_of,
)
from lakebed.clients.library.hook_calls import LocalHookCalls
from lakebed.clients.library.values import Change, Commit, CommonPrefix, ObjectInfo, RepositoryInfo
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryPage, EntryQuery
from lakebed.engine.model import BranchID, RepositoryID, TagID, check_repository_name
from lakebed.installation.folder import (
    NAMESPACE_PREFIX,
    SHORT_TIMES,
    database_url,
    storage_settings,
)
from lakebed.installation.opening import InstallationSettings, open_installation
from lakebed.installation.statuses import UNEXPECTED, status_of
from lakebed.lake import model
from lakebed.lake.commits import STRATEGY_KEY, merge_request
from lakebed.lake.errors import MergeConflict as EngineConflict
from lakebed.lake.hooks.settings import HookLimits
from lakebed.lake.imports.imports import ImportID
from lakebed.lake.places import parse_namespace
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.tasks import run_inline
from lakebed.reclaim.cleaner import Cleaner
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.report import RunSummary
from lakebed.reclaim.collector.storage import Storage
from lakebed.reclaim.expired_records import ExpiredRecords
from lakebed.reclaim.service import CollectionParts, OwnServer

ItemT = TypeVar("ItemT")

_PAGE: Final = 1000
_CHUNK_BYTES: Final = 1 << 20
_POLL_SECONDS: Final = 0.2


class EmbeddedBackend:
    """The lake of one directory. Threads may share it; after ``fork``, open it again."""

    def __init__(self, folder: Path, committer: str | None) -> None:
        """Open a directory, creating it if it does not exist.

        Raises:
            LakeError: The directory cannot be used.
        """
        self._committer = committer or _user_of_process()
        self.options = {"folder": str(folder.absolute()), "committer": self._committer}
        calls = LocalHookCalls()
        with self._work():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._installation = open_installation(
                InstallationSettings(
                    database_url=database_url(folder),
                    storage=storage_settings(folder),
                    gc=SHORT_TIMES,
                    # As on a server for this machine alone, hooks may call local services.
                    hooks=HookLimits(allow_private_networks=True),
                ),
                # The process may end right after a call returns.
                run_in_background=run_inline,
                new_caller=calls.caller,
                runs_everything=True,
            )
        self._catalog = self._installation.catalog
        calls.attach(self._catalog)
        self._cleaner = Cleaner(
            self._installation.foundation.store,
            self._installation.runtime,
            grace_seconds=self._installation.settings.engine.grace_seconds,
        )

    def close(self) -> None:
        self._installation.close()

    @contextmanager
    def _work(self) -> Iterator[None]:
        """Act as the committer, and raise the errors of the library."""
        with acting_as(Actor(user=self._committer, entry_point=EntryPoint.LIBRARY)):
            try:
                yield
            except LakeError:
                raise
            except EngineConflict as error:
                keys = error.conflicts.column("key").slice(0, CONFLICTS_SHOWN).to_pylist()
                paths = [text_of(key) for key in keys]
                raise MergeConflict(str(error), paths) from None
            except LakebedError as error:
                status = status_of(error)
                cause = error if status == UNEXPECTED else None
                raise error_of(status, str(error), error.kind) from cause
            except OSError as error:
                raise LakeError(f"cannot use the folder of the lake: {error}") from error

    # Repositories

    def list_repositories(self, prefix: str) -> Iterator[RepositoryInfo]:
        yield from self._listed(
            repository_info(each) for each in self._catalog.repositories.list(prefix=prefix)
        )

    def _listed(self, found: Iterable[ItemT]) -> Iterator[ItemT]:
        """Iterate inside `_work`, so that each step runs as the committer."""
        items = iter(found)
        while True:
            with self._work():
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def get_repository(self, name: str) -> RepositoryInfo:
        with self._work():
            return repository_info(self._catalog.repositories.get(RepositoryID(name)))

    def create_repository(
        self, name: str, storage_namespace: str | None, default_branch: str
    ) -> None:
        with self._work():
            self._catalog.repositories.create(
                name,
                parse_namespace(
                    storage_namespace or NAMESPACE_PREFIX + check_repository_name(name)
                ),
                committer=self._committer,
                default_branch=default_branch,
            )

    def delete_repository(self, name: str) -> None:
        with self._work():
            self._catalog.repositories.delete(RepositoryID(name))

    def collect_garbage(self, repository: str, options: CollectorOptions) -> RunSummary:
        with self._work():
            parts = self._installation
            store, block, engine = (
                parts.foundation.store,
                parts.foundation.block,
                parts.foundation.engine,
            )
            found = self._catalog.repositories.get(RepositoryID(repository))
            storage = Storage(
                parts.settings.storage, found.namespace, found.unique_id, opened=block
            )
            # A server on this directory may use longer times: use the defaults.
            times = CatalogSettings()
            collection = CollectionParts(engine, store, block, parts.runtime, times)
            job = CollectorJob(
                ArrowExecutor(storage, parts.runtime),
                OwnServer(collection, found),
                storage,
                runtime=parts.runtime,
            )
            summary = job.run(options)
            if not options.dry_run:
                # Without a server, this process has to delete expired records.
                self._cleaner.run_once()
                ExpiredRecords(self._catalog, store, block, parts.runtime, times).run_once()
            return summary

    # Branches and tags

    def list_branches(self, repository: str, prefix: str) -> Iterator[str]:
        refs = self._catalog.refs
        with self._work():
            found = refs.list_branches(RepositoryID(repository), prefix=prefix)
        yield from self._listed(str(each.id) for each in found)

    def get_branch(self, repository: str, branch: str) -> str:
        with self._work():
            found = self._catalog.refs.get_branch(RepositoryID(repository), BranchID(branch))
            return str(found.commit_id)

    def create_branch(self, repository: str, branch: str, source: str) -> None:
        with self._work():
            self._catalog.ref_changes.create_branch(RepositoryID(repository), branch, source)

    def delete_branch(self, repository: str, branch: str) -> None:
        with self._work():
            self._catalog.ref_changes.delete_branch(RepositoryID(repository), BranchID(branch))

    def list_tags(self, repository: str, prefix: str) -> Iterator[str]:
        with self._work():
            found = self._catalog.refs.list_tags(RepositoryID(repository), prefix=prefix)
        yield from self._listed(str(each.id) for each in found)

    def get_tag(self, repository: str, tag: str) -> str:
        with self._work():
            return str(self._catalog.refs.get_tag(RepositoryID(repository), TagID(tag)).commit_id)

    def create_tag(self, repository: str, tag: str, source: str) -> None:
        with self._work():
            self._catalog.ref_changes.create_tag(RepositoryID(repository), tag, source)

    def delete_tag(self, repository: str, tag: str) -> None:
        with self._work():
            self._catalog.ref_changes.delete_tag(RepositoryID(repository), TagID(tag))

    # History

    def get_commit(self, repository: str, ref: str) -> Commit:
        with self._work():
            return commit_value(
                *self._catalog.refs.get_commit_and_refusal(RepositoryID(repository), ref)
            )

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        after: str | None = None
        while True:
            with self._work():
                page = self._catalog.refs.log(
                    RepositoryID(repository), ref, amount=_PAGE, after=after
                )
            for commit in page.commits:
                yield commit_value(commit, page.refused.get(commit.id))
            if not page.has_more:
                return
            after = page.commits[-1].id

    def diff(self, repository: str, left: str, right: str, prefix: str) -> Iterator[Change]:
        between = self._catalog.diff.list_between
        page = partial(between, RepositoryID(repository), left, right, since_merge_base=True)
        return map(change_value, self._pages(page, prefix))

    def uncommitted(self, repository: str, branch: str, prefix: str) -> Iterator[Change]:
        where = RepositoryID(repository), BranchID(branch)
        page = partial(self._catalog.diff.list_uncommitted, *where)
        return map(partial(change_value, uncommitted=True), self._pages(page, prefix))

    def _pages(
        self, list_page: Callable[[EntryQuery], EntryPage[Any]], prefix: str, delimiter: str = ""
    ) -> Iterator[Any]:
        after = b""
        while True:
            query = EntryQuery(prefix.encode(), after, delimiter.encode(), _PAGE)
            with self._work():
                page = list_page(query)
                items = list(page.items)
            yield from items
            if not page.has_more:
                return
            after = page.last

    def commit(self, repository: str, branch: str, details: CommitDetails) -> Commit:
        with self._work():
            done = self._catalog.commits.commit(
                RepositoryID(repository), BranchID(branch), self._request(details)
            )
            return commit_value(done.commit)

    def _request(self, details: CommitDetails) -> CommitRequest:
        return CommitRequest(
            committer=self._committer,
            message=details.message,
            metadata=dict(details.metadata),
            allow_empty=details.allow_empty,
        )

    def merge(
        self, repository: str, source: str, branch: str, details: CommitDetails, strategy: str
    ) -> Commit:
        with self._work():
            wanted = merge_request(
                source,
                branch,
                committer=self._committer,
                message=details.message,
                metadata=details.metadata,
                strategy=strategy,
                squash=False,
                allow_empty=details.allow_empty,
            )
            merged = self._catalog.commits.merge(
                RepositoryID(repository), source, BranchID(branch), wanted
            )
            return commit_value(merged)

    def revert(self, repository: str, branch: str, ref: str, parent_number: int | None) -> Commit:
        wanted = CommitRequest(committer=self._committer, message=f"Revert {ref}")
        with self._work():
            return commit_value(
                self._catalog.commits.revert(
                    RepositoryID(repository),
                    BranchID(branch),
                    ref,
                    wanted,
                    parent_number=parent_number,
                )
            )

    def cherry_pick(
        self, repository: str, branch: str, ref: str, parent_number: int | None
    ) -> Commit:
        with self._work():
            return commit_value(
                self._catalog.commits.cherry_pick(
                    RepositoryID(repository),
                    BranchID(branch),
                    ref,
                    committer=self._committer,
                    parent_number=parent_number,
                )
            )

    def reset(self, repository: str, branch: str, what: Reset, path: str) -> None:
        commits, where = self._catalog.commits, (RepositoryID(repository), BranchID(branch))
        with self._work():
            if what == "reset":
                commits.reset(*where)
            elif what == "object":
                commits.reset_object(*where, path.encode())
            else:
                commits.reset_prefix(*where, path.encode())

    # Objects

    def list_objects(
        self, repository: str, ref: str, prefix: str, delimiter: str
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        page = partial(self._catalog.objects.list_objects, RepositoryID(repository), ref)
        return map(listed_item, self._pages(page, prefix, delimiter))

    def stat(self, repository: str, ref: str, path: str) -> ObjectInfo:
        return self.open_object(repository, ref, path).info

    def open_object(self, repository: str, ref: str, path: str) -> "EmbeddedObject":
        with self._work():
            stats = self._catalog.objects.stat(RepositoryID(repository), ref, path.encode())
        return EmbeddedObject(self, stats)

    def read(self, stats: model.ObjectStats, begin: int, end: int) -> bytes:
        """Return a byte range of an object."""
        with (
            self._work(),
            self._catalog.objects.read(stats, byte_range=Between(begin, end)) as stream,
        ):
            return b"".join(stream)

    def upload(
        self, repository: str, branch: str, path: str, data: BinaryIO, details: UploadDetails
    ) -> ObjectInfo:
        with self._work():
            stored = self._catalog.uploads.upload(
                RepositoryID(repository),
                BranchID(branch),
                path.encode(),
                iter(lambda: data.read(_CHUNK_BYTES), b""),
                content_type=details.content_type,
                metadata=details.metadata,
                condition=(lambda found: found is None) if details.only_new else None,
            )
            return object_info(stored)

    def copy(
        self, repository: str, branch: str, path: str, source_ref: str, source_path: str
    ) -> ObjectInfo:
        with self._work():
            copied = self._catalog.copies.copy(
                RepositoryID(repository),
                BranchID(branch),
                path.encode(),
                source_ref=source_ref,
                source_path=source_path.encode(),
            )
            return object_info(copied)

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> None:
        with self._work():
            failed = self._catalog.objects.delete_many(
                RepositoryID(repository), BranchID(branch), [path.encode() for path in paths]
            )
            if failed:
                raise failed[0].error

    def import_objects(
        self,
        repository: str,
        branch: str,
        prefixes: Mapping[str, str],
        objects: Mapping[str, str],
        details: CommitDetails,
    ) -> Commit:
        imports, runtime = self._catalog.imports, self._installation.runtime
        where = RepositoryID(repository), BranchID(branch)
        with self._work():
            import_id = imports.start(
                *where,
                import_sources(prefixes, objects),
                committer=self._committer,
                message=details.message,
                metadata={**details.metadata, STRATEGY_KEY: "source-wins"},
            )
            # A server on this directory may run the import instead.
            while True:
                status = imports.status(*where, ImportID(import_id))
                if status.commit is not None:
                    return commit_value(status.commit)
                if status.error is not None:
                    raise Invalid(status.error, "import_failed")
                runtime.sleep(_POLL_SECONDS)


class EmbeddedObject:
    """An object version in a directory; its bytes do not change with the branch."""

    def __init__(self, backend: EmbeddedBackend, stats: model.ObjectStats) -> None:
        self.info = object_info(stats)
        self._backend = backend
        self._stats = stats

    def read(self, begin: int, end: int) -> bytes:
        return self._backend.read(self._stats, begin, end)


def _user_of_process() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have no name
        return f"uid-{os.getuid()}"
