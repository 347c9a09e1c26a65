"""Presigned URLs of a server whose storage signs none.

A URL holds what it opens: a method, an address and the time it ends, with a signature over them.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from lakebed.auth import AuthenticationFailed
from lakebed.block import Address

PATH: Final = "/presigned/"
_PURPOSE: Final = b"presigned URLs"


class URLSigner:
    """Signs addresses, and reads what it signed."""

    def __init__(self, server_key: bytes) -> None:
        # A key of their own: what is signed for one purpose means nothing for another.
        self._key = hmac.digest(server_key, _PURPOSE, hashlib.sha256)

    def sign(self, method: str, address: Address, expires: int) -> str:
        """Return the path of a URL that opens an address until some time."""
        content = json.dumps([method, str(address), expires]).encode()
        return PATH + _text(content) + "." + _text(self._mac(content))

    def opened(self, method: str, token: str, now: float) -> Address:
        """Return the address that a token opens.

        Raises:
            AuthenticationFailed: It opens nothing: not by this method, not any more, never did.
        """
        content_text, _, mac_text = token.partition(".")
        try:
            content, mac = urlsafe_b64decode(content_text), urlsafe_b64decode(mac_text)
        except ValueError:
            raise AuthenticationFailed from None
        if not hmac.compare_digest(mac, self._mac(content)):
            raise AuthenticationFailed
        allowed, address, expires = json.loads(content)
        if method != allowed or now >= expires:
            raise AuthenticationFailed
        return Address.parse(address)

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, hashlib.sha256)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()
