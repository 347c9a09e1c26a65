"""URLs that let their holders read, or write, one object for a while.

Most storages sign such URLs themselves. For those that do not (a local disk) the server may: it
gives the catalog a function that signs, and serves what was signed.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from lakebed.block import Address, BlockStore
from lakebed.catalog.model import PresignedURL
from lakebed.runtime import Runtime

Sign = Callable[[str, Address, int, int | None], str]
"""From a method (GET, PUT), an address, the time it ends, in seconds since 1970, and the size that
an object to be read must have, if it is known, to a URL."""


class Presigning:
    """Signs, or has the storage sign."""

    def __init__(
        self, block: BlockStore, runtime: Runtime, *, life_seconds: float, sign: Sign | None
    ) -> None:
        self._block = block
        self._runtime = runtime
        self._life_seconds = max(1, int(life_seconds))
        self._sign = None if block.supports_presign else sign
        self.by_storage = block.supports_presign
        """Whether a URL leads to the storage, past the server."""
        self.supported = block.supports_presign or sign is not None

    def to_read(self, address: Address, size: int | None = None) -> PresignedURL:
        """Return a URL to read an object by GET; of what size it must be, only the server checks.

        Raises:
            NotSupported: Neither the storage nor the server signs URLs.
        """
        expires = self._expires()
        if self._sign is not None:
            return PresignedURL(self._sign("GET", address, expires, size), _moment(expires))
        url = self._block.presign_get(address, expires_seconds=self._life_seconds)
        return PresignedURL(url, _moment(expires))

    def to_create(self, address: Address) -> PresignedURL:
        """Return a URL to create an object by PUT.

        Raises:
            NotSupported: Neither the storage nor the server signs URLs.
        """
        expires = self._expires()
        if self._sign is not None:
            return PresignedURL(self._sign("PUT", address, expires, None), _moment(expires))
        url = self._block.presign_put(address, expires_seconds=self._life_seconds)
        return PresignedURL(url, _moment(expires))

    def _expires(self) -> int:
        # Taken before the URL is made: the time we name must not be later than the real end.
        return int(self._runtime.now()) + self._life_seconds


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
