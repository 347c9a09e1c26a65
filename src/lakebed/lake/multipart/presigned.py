"""Uploads whose parts go to the storage by presigned URLs, past the server.

They are multipart uploads like others: one record, decided once (see `complete`). A URL writes one
part of one upload, and nothing else. It outlives the upload: then the storage refuses what comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.base.tracing import traced
from lakebed.block import PART_NUMBER_MAX, Address
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.errors import InvalidParts
from lakebed.lake.model import PresignedURL
from lakebed.lake.multipart.records import MultipartID, Target
from lakebed.lake.multipart.uploads import MultipartUploads, check_part
from lakebed.lake.presign import Presigning


@dataclass(frozen=True, slots=True)
class PresignedUpload:
    """An upload that was just begun, and where to send its first parts."""

    id: MultipartID
    address: Address
    urls: Sequence[PresignedURL]


class PresignedUploads:
    """Begins uploads, and gives out URLs for their parts."""

    def __init__(self, multiparts: MultipartUploads, presigning: Presigning) -> None:
        self._multiparts = multiparts
        self._presigning = presigning

    @traced("catalog.create_presigned_multipart")
    def create(
        self, repository_id: RepositoryID, branch: BranchID, path: bytes, *, parts: int
    ) -> PresignedUpload:
        """Begin an upload; return URLs for the parts from 1 to `parts`.

        Raises:
            InvalidPath: No object can have this path.
            InvalidParts: An upload cannot have so many parts.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            NotSupported: Nobody signs URLs for parts.
            OutcomeUnknown, BlockError: Nothing was begun that a client could go on with.
        """
        if not 0 <= parts <= PART_NUMBER_MAX:
            raise InvalidParts(f"an upload has up to {PART_NUMBER_MAX} parts, not {parts}")
        self._presigning.check_parts_supported()
        begun = self._multiparts.create(repository_id, branch, path, presigned=True)
        urls = [
            self._presigning.to_send_part(begun.address, begun.storage_id, number)
            for number in range(1, parts + 1)
        ]
        return PresignedUpload(begun.id, begun.address, urls)

    @traced("catalog.presign_part")
    def presign_part(self, target: Target, number: int) -> PresignedURL:
        """Return a URL to send one part to; the part replaces an earlier one of the same number.

        Raises:
            RepositoryNotFound, MultipartNotFound, WrongAddress: There is no such upload.
            InvalidParts: There is no part of this number.
            NotSupported: Nobody signs URLs for parts.
        """
        check_part(number)
        upload = self._multiparts.find_open(target)
        return self._presigning.to_send_part(upload.address, upload.storage_id, number)
