"""URLs that let their holders read, or write, one object for a while, or send one part of it.

Most storages sign such URLs themselves. For those that do not (a local disk) the server may: it
gives the catalog a signer, and serves what was signed.
"""

from datetime import UTC, datetime
from typing import Protocol

from lakebed.base.runtime import Runtime
from lakebed.block import Address, BlockStore, NotSupported, UploadId
from lakebed.lake.model import PresignedURL


class Signer(Protocol):
    """Signs URLs. The time at which one ends is given in seconds since 1970."""

    def sign(self, method: str, address: Address, expires: int, size: int | None = None) -> str:
        """Return a URL for a method (GET, PUT); `size`: that an object to be read must have."""

    def sign_part(
        self, address: Address, upload_id: UploadId, number: int, expires: int, life_seconds: int
    ) -> str:
        """Return a URL to send a part of an upload to, which lives for so long."""


class Presigning:
    """Signs, or has the storage sign."""

    def __init__(
        self, block: BlockStore, runtime: Runtime, *, life_seconds: float, signer: Signer | None
    ) -> None:
        self._block = block
        self._runtime = runtime
        self._life_seconds = max(1, int(life_seconds))
        self._signer = None if block.supports_presign else signer
        self.by_storage = block.supports_presign
        """Whether a URL leads to the storage, past the server."""
        self.supported = block.supports_presign or signer is not None
        self.parts_supported = block.supports_uploads and (
            block.supports_presign_part or self._signer is not None
        )
        """Whether there are URLs for the parts of uploads."""

    def to_read(self, address: Address, size: int | None = None) -> PresignedURL:
        """Return a URL to read an object by GET; of what size it must be, only the server checks.

        Raises:
            NotSupported: Neither the storage nor the server signs URLs.
        """
        expires = self._expires()
        if self._signer is not None:
            return PresignedURL(self._signer.sign("GET", address, expires, size), _moment(expires))
        url = self._block.presign_get(address, expires_seconds=self._life_seconds)
        return PresignedURL(url, _moment(expires))

    def to_create(self, address: Address) -> PresignedURL:
        """Return a URL to create an object by PUT.

        Raises:
            NotSupported: Neither the storage nor the server signs URLs.
        """
        expires = self._expires()
        if self._signer is not None:
            return PresignedURL(self._signer.sign("PUT", address, expires), _moment(expires))
        url = self._block.presign_put(address, expires_seconds=self._life_seconds)
        return PresignedURL(url, _moment(expires))

    def check_parts_supported(self) -> None:
        """Return if there are URLs for the parts of uploads.

        Raises:
            NotSupported: There are none.
        """
        if not self.parts_supported:
            raise NotSupported(f"there are no presigned URLs for parts on {self._block.scheme}")

    def to_send_part(self, address: Address, upload_id: UploadId, number: int) -> PresignedURL:
        """Return a URL to send one part of an upload by PUT.

        Raises:
            NotSupported: Neither the storage nor the server signs URLs for parts.
        """
        self.check_parts_supported()
        expires, life = self._expires(), self._life_seconds
        if self._signer is not None:
            url = self._signer.sign_part(address, upload_id, number, expires, life)
        else:
            url = self._block.presign_part(address, upload_id, number, expires_seconds=life)
        return PresignedURL(url, _moment(expires))

    def _expires(self) -> int:
        # Taken before the URL is made: the time we name must not be later than the real end.
        return int(self._runtime.now()) + self._life_seconds


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
