"""Unfinished uploads, which block a collection that assumes no concurrent writers.

They are of two kinds. *Multipart uploads* were not completed, or the completing request died.
*Links* are issued addresses that were not linked since, or whose linking request died. Clients of
S3 see multipart uploads only until the first attempt to complete them, and never see links. Both
expire, some after days. Here they are listed, and can be ended before.

The bytes of an ended upload are garbage. A concurrent request to finish the upload succeeds if its
entry exists already, and keeps the object; otherwise the request is undone (see `links`, and
`multipart.complete`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from operator import attrgetter
from typing import Literal

from lakebed.base.runtime import to_datetime
from lakebed.base.tracing import traced
from lakebed.block import Address
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.formats.object_paths import ObjectUID, issued_us
from lakebed.kv.records import Record
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import UploadNotUnfinished
from lakebed.lake.links import Links
from lakebed.lake.multipart.uploads import MultipartUploads


@dataclass(frozen=True, slots=True)
class IncompleteUpload:
    """An upload neither finished nor ended."""

    id: str
    kind: Literal["multipart", "link"]
    branch: BranchID
    path: bytes
    address: Address
    begun: datetime


class UnfinishedUploads:
    """The unfinished uploads of all repositories; methods raise `RepositoryNotFound`."""

    def __init__(self, engine: Engine, links: Links, multiparts: MultipartUploads) -> None:
        self._engine = engine
        self._links = links
        self._multiparts = multiparts

    def list(self, repository_id: RepositoryID, *, after: str = "") -> Iterator[IncompleteUpload]:
        """Yield the unfinished uploads of a repository by id, oldest first."""
        repository = self._engine.repositories.get(repository_id)
        start = after.encode() + b"\0" if after else b""
        links = (
            _unfinished(repository, "link", record)
            for record in self._links.unfinished(repository, start)
        )
        multiparts = (
            _unfinished(repository, "multipart", record)
            for record in self._multiparts.unfinished(repository, start)
        )
        return merge(links, multiparts, key=attrgetter("id"))

    @traced("catalog.end_upload")
    def end(self, repository_id: RepositoryID, upload_id: str) -> None:
        """End an upload: it can no longer be finished, and its bytes are garbage.

        Raises:
            RepositoryNotFound: The repository does not exist.
            UploadNotUnfinished: The upload does not exist, or was finished or ended meanwhile.
            OutcomeUnknown, BlockError: The upload may still exist.
        """
        repository = self._engine.repositories.get(repository_id)
        name = upload_id.encode()
        if not (self._links.end(repository, name) or self._multiparts.end(repository, name)):
            raise UploadNotUnfinished(upload_id)


def _unfinished(
    repository: Repository,
    kind: Literal["multipart", "link"],
    record: Record[pb.Link] | Record[pb.MultipartUpload],
) -> IncompleteUpload:
    upload_id, message = record.name.decode(), record.message
    return IncompleteUpload(
        id=upload_id,
        kind=kind,
        branch=BranchID(message.branch),
        path=message.path,
        address=repository.namespace.address(message.address),
        begun=to_datetime(issued_us(ObjectUID(upload_id))),
    )
