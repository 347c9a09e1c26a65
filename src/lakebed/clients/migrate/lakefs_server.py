"""A repository of a running lakeFS, read through its API, without access to its storage."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final, TypeVar

from google.protobuf.message import Message

from lakebed.base.runtime import Runtime
from lakebed.clients.http.errors import or_none
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items
from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.errors import SourceRefused
from lakebed.clients.migrate.lakefs_source import (
    SourceBranch,
    SourceChange,
    SourceCommit,
    SourceTag,
)
from lakebed.clients.migrate.values import read_messages, read_ranges
from lakebed.formats import AddressType, Entry
from lakebed.lake.model import new_entry
from lakebed.wire.garbage import GarbageAPI
from lakebed.wire.metadata import MetadataAPI
from lakebed.wire.objects import StatQuery
from lakebed.wire.repositories import RefsDump, Repository, TaskQuery

MessageT = TypeVar("MessageT", bound=Message)
FoundT = TypeVar("FoundT")

_PAUSE_SECONDS: Final = 1.0
_DUMP_SECONDS_MAX: Final = 6 * 3600.0
_MICROSECONDS: Final = 1_000_000
_NANOSECONDS: Final = 1_000
_FIRST_VERSION: Final = 0
"""Commits of this version list the replaced head as the last parent."""


class LakeFSServer:
    """Reader of one repository. The refs are a snapshot of the first access.

    All methods raise `lakebed.clients.http.errors.ClientError`.
    """

    def __init__(self, client: Client, repository: str, runtime: Runtime) -> None:
        self._client = client
        self._repository = repository
        self._runtime = runtime

    # Settings

    @property
    def namespace(self) -> str:
        """The base of relative addresses."""
        return self._info.storage_namespace

    @property
    def default_branch(self) -> str:
        return self._info.default_branch

    @cached_property
    def _info(self) -> Repository:
        return self._client.repositories.get(self._repository)

    def metadata(self) -> dict[str, str]:
        """Return the metadata of the repository; empty for old servers."""
        return self._find(self._client.repositories.metadata) or {}

    def protected(self) -> list[str]:
        """Return the patterns of protected branches."""
        rules = self._find(self._client.repositories.protection) or ()
        return [rule.pattern for rule in rules]

    def collects_garbage(self) -> bool:
        """Whether the repository has garbage collection rules."""
        return self._find(self._has_rules) is not None

    def _has_rules(self, repository: str) -> bool:
        with self._client.open(GarbageAPI.rules.request(repository)):
            return True

    def _find(self, ask: Callable[[str], FoundT]) -> FoundT | None:
        return or_none(lambda: ask(self._repository))

    # Refs

    def commits(self) -> Iterator[SourceCommit]:
        for message in self._messages(self._dump.commits_meta_range_id, pb.CommitData):
            yield commit_of(message)

    def branches(self) -> Iterator[SourceBranch]:
        """Iterate over all branches. A dump does not mark hidden ones: listings omit them."""
        listed = list_items(self._client.branches.list, self._repository)
        visible = {branch.id for branch in listed}
        for message in self._messages(self._dump.branches_meta_range_id, pb.BranchData):
            yield SourceBranch(message.id, message.commit_id, message.id not in visible)

    def tags(self) -> Iterator[SourceTag]:
        for message in self._messages(self._dump.tags_meta_range_id, pb.TagData):
            yield SourceTag(message.id, message.commit_id)

    def changes(self, branch: SourceBranch) -> Iterator[SourceChange]:
        """Iterate over the uncommitted changes of a branch, as currently listed."""
        for change in list_items(self._client.branches.diff, self._repository, branch.name):
            removed = change.type == "removed"
            entry = None if removed else self._stat(branch.name, change.path)
            yield SourceChange(change.path.encode(), entry)

    def _stat(self, branch: str, path: str) -> Entry:
        stats = self._client.objects.stat(self._repository, branch, StatQuery(path=path))
        return new_entry(
            path.encode(),
            stats.physical_address,
            address_type=AddressType.FULL,
            size=stats.size_bytes or 0,
            checksum=stats.checksum,
            modified=stats.mtime,
            content_type=stats.content_type or "",
            metadata=stats.metadata or {},
        )

    def _messages(self, metarange_id: str, kind: type[MessageT]) -> Iterator[MessageT]:
        for each in read_ranges(self.metarange(metarange_id), f"metarange {metarange_id}"):
            yield from read_messages(self.range(each.id), f"range {each.id}", kind)

    @cached_property
    def _dump(self) -> RefsDump:
        """The ids of the three metaranges with all refs."""
        repositories = self._client.repositories
        query = TaskQuery(task_id=repositories.start_dump(self._repository).id)
        until = self._runtime.monotonic() + _DUMP_SECONDS_MAX
        while True:
            status = repositories.dump_status(self._repository, query)
            if status.error:
                raise SourceRefused(f"the dump of {self._repository} failed: {status.error}")
            if status.done and status.refs is not None:
                return status.refs
            if self._runtime.monotonic() > until:
                raise SourceRefused(f"the dump of {self._repository} did not complete in time")
            self._runtime.sleep(_PAUSE_SECONDS)

    # Files

    def metarange(self, metarange_id: str) -> bytes:
        return self._file("meta_range", metarange_id)

    def range(self, range_id: str) -> bytes:
        return self._file("range", range_id)

    def _file(self, kind: str, name: str) -> bytes:
        request = MetadataAPI.file.request(self._repository, kind, name)
        return self._client.ask(request, headers={"Accept": "application/octet-stream"}).value


def commit_of(message: pb.CommitData) -> SourceCommit:
    """Convert the commit of a dump."""
    created = message.creation_date
    parents = tuple(message.parents)
    swapped = message.version == _FIRST_VERSION and len(parents) > 1
    return SourceCommit(
        id=message.id,
        committer=message.committer,
        message=message.message,
        created_us=created.seconds * _MICROSECONDS + created.nanos // _NANOSECONDS,
        metarange_id=message.meta_range_id,
        metadata=dict(message.metadata),
        parents=parents[::-1] if swapped else parents,
        swapped=swapped,
    )
