"""Uploads whose parts are sent directly to the storage by presigned URLs.

These are ordinary multipart uploads: one record, decided once (see `complete`). A URL writes one
part of one upload. A URL outlives its upload; then the storage refuses its requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.base.tracing import traced
from lakebed.block import Address
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.model import PresignedURL
from lakebed.lake.multipart.records import MultipartID, Target
from lakebed.lake.multipart.uploads import MultipartUploads, check_part
from lakebed.lake.presign import Presigning


@dataclass(frozen=True, slots=True)
class PresignedUpload:
    """A new upload, with URLs for its first parts."""

    id: MultipartID
    address: Address
    urls: Sequence[PresignedURL]


class PresignedUploads:
    """Creates uploads and issues URLs for their parts."""

    def __init__(self, multiparts: MultipartUploads, presigning: Presigning) -> None:
        self._multiparts = multiparts
        self._presigning = presigning

    @traced("catalog.create_presigned_multipart")
    def create(
        self, repository_id: RepositoryID, branch: BranchID, path: bytes, *, parts: int
    ) -> PresignedUpload:
        """Create an upload; return URLs for the parts from 1 to `parts`.

        Raises `NotSupported` if neither the storage nor the server signs URLs for parts; otherwise
        as `MultipartUploads.create`.
        """
        self._presigning.check_parts_supported()
        begun = self._multiparts.create(repository_id, branch, path, presigned_parts=parts)
        urls = [
            self._presigning.to_send_part(begun.address, begun.storage_id, number)
            for number in range(1, parts + 1)
        ]
        return PresignedUpload(begun.id, begun.address, urls)

    @traced("catalog.presign_part")
    def presign_part(self, target: Target, number: int) -> PresignedURL:
        """Return a URL for sending one part, which replaces an earlier one; raises as `create`."""
        check_part(number)
        upload = self._multiparts.find_open(target)
        return self._presigning.to_send_part(upload.address, upload.storage_id, number)
