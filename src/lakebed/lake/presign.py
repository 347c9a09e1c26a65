"""Presigned URLs: read or write one object, or upload one part, for a limited time.

Most storages sign such URLs themselves. For others (a local disk) the server passes the catalog a
signer, and serves the signed URLs.
"""

from datetime import UTC, datetime
from typing import Protocol

from lakebed.base.runtime import Runtime
from lakebed.block import Address, BlockStore, NotSupported, UploadId
from lakebed.lake.model import PresignedURL


class Signer(Protocol):
    """Signs URLs. Expiry times are in seconds since 1970."""

    def sign(self, method: str, address: Address, expires: int, size: int | None = None) -> str:
        """Sign a URL for a method (GET, PUT); `size` is the required size of an object to read."""

    def sign_part(
        self, address: Address, upload_id: UploadId, number: int, expires: int, life_seconds: int
    ) -> str:
        """Sign a URL to upload a part, valid for `life_seconds`."""


class Presigning:
    """Presigns URLs by storage or server; raises `NotSupported` if neither signs them."""

    def __init__(
        self, block: BlockStore, runtime: Runtime, *, life_seconds: float, signer: Signer | None
    ) -> None:
        self._block = block
        self._runtime = runtime
        self._life_seconds = max(1, int(life_seconds))
        self._signer = None if block.supports_presign else signer
        self.by_storage = block.supports_presign
        """Whether URLs lead to the storage directly, bypassing the server."""
        self.supported = block.supports_presign or signer is not None
        self.parts_supported = block.supports_uploads and (
            block.supports_presign_part or self._signer is not None
        )
        """Whether parts of uploads have URLs."""

    def to_read(self, address: Address, size: int | None = None) -> PresignedURL:
        """Return a URL to read an object by GET; only server-signed URLs enforce `size`."""
        expires = self._expires()
        if self._signer is not None:
            return PresignedURL(self._signer.sign("GET", address, expires, size), _moment(expires))
        url = self._block.presign_get(address, expires_seconds=self._life_seconds)
        return PresignedURL(url, _moment(expires))

    def to_create(self, address: Address) -> PresignedURL:
        expires = self._expires()
        if self._signer is not None:
            return PresignedURL(self._signer.sign("PUT", address, expires), _moment(expires))
        url = self._block.presign_put(address, expires_seconds=self._life_seconds)
        return PresignedURL(url, _moment(expires))

    def check_parts_supported(self) -> None:
        """Raise `NotSupported` if there are no URLs for parts of uploads."""
        if not self.parts_supported:
            raise NotSupported(
                f"presigned URLs for parts are not supported on {self._block.scheme}://: upload"
                " without presigned URLs"
            )

    def to_send_part(self, address: Address, upload_id: UploadId, number: int) -> PresignedURL:
        self.check_parts_supported()
        expires, life = self._expires(), self._life_seconds
        if self._signer is not None:
            url = self._signer.sign_part(address, upload_id, number, expires, life)
        else:
            url = self._block.presign_part(address, upload_id, number, expires_seconds=life)
        return PresignedURL(url, _moment(expires))

    def _expires(self) -> int:
        # Read before signing: the reported expiry must not be later than the actual one.
        return int(self._runtime.now()) + self._life_seconds


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
