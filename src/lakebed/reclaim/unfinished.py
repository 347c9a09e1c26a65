"""Unfinished uploads: what a collection that assumes a quiet repository has to wait for.

There are two kinds. *Multipart uploads* were not completed, or a request to complete them died on
the way. *Links* are addresses that were given out, and were not linked since or died in linking.
Clients of S3 see the first only as long as nobody began to complete them, and the second never. All
of them expire by themselves, some after days. Here they are listed, and can be ended before.

Whatever an upload has stored is garbage once the upload is ended. A request that is about to finish
it at that very moment succeeds if its entry is there already, and keeps the object; or it is taken
back (see `links`, and `multipart.complete`).
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
    """An upload that was neither finished nor ended."""

    id: str
    kind: Literal["multipart", "link"]
    branch: BranchID
    path: bytes
    address: Address
    """Where its bytes go."""
    begun: datetime


class UnfinishedUploads:
    """The unfinished uploads of all repositories."""

    def __init__(self, engine: Engine, links: Links, multiparts: MultipartUploads) -> None:
        self._engine = engine
        self._links = links
        self._multiparts = multiparts

    def list(self, repository_id: RepositoryID, *, after: str = "") -> Iterator[IncompleteUpload]:
        """Iterate over the unfinished uploads of a repository by their ids, the oldest first.

        Raises:
            RepositoryNotFound: There is no such repository.
        """
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
        """End an upload: it can no longer be finished, and what it has stored is garbage.

        Raises:
            RepositoryNotFound: There is no such repository.
            UploadNotUnfinished: There is no such upload, or it was finished or ended meanwhile.
            OutcomeUnknown, BlockError: It may still be there.
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
