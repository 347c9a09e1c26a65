"""``crypto/hmac``, ``crypto/sha256``, ``uuid``, and the encodings of bytes."""

import base64
import binascii
import hashlib
import hmac
import uuid
from collections.abc import Callable
from typing import Final

from lakebed.lake.hooks.lua_child.values import CallFailed, text

_Z85: Final = (
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_UUID_CHARACTERS: Final = 20


def _sign(algorithm: str) -> Callable[[object, object], bytes]:
    def sign(message: object, key: object) -> bytes:
        return hmac.digest(text(key, 2), text(message), algorithm)

    return sign


def _decode_base64(data: object) -> bytes:
    try:
        return base64.b64decode(text(data), validate=True)
    except binascii.Error as error:
        raise CallFailed(f"invalid Base64: {error}") from error


def _encode_base64_url(data: object) -> bytes:
    return base64.urlsafe_b64encode(text(data)).rstrip(b"=")


def _decode_base64_url(data: object) -> bytes:
    given = text(data)
    try:
        return base64.b64decode(given + b"=" * (-len(given) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise CallFailed(f"invalid Base64: {error}") from error


def _decode_hex(data: object) -> bytes:
    try:
        return binascii.unhexlify(text(data))
    except binascii.Error as error:
        raise CallFailed(f"invalid hexadecimal: {error}") from error


def _decode_uuid(data: object) -> tuple[str, bytes]:
    """Return the UUID in the last 20 characters, and the prefix before them."""
    given = text(data)
    written = given[-_UUID_CHARACTERS:]
    try:
        digits = [_Z85.index(character) for character in written]
        words = [sum(digits[at + i] * 85 ** (4 - i) for i in range(5)) for at in range(0, 20, 5)]
        decoded = b"".join(word.to_bytes(4, "big") for word in words)
    except (ValueError, IndexError, OverflowError) as error:
        shown = written.decode(errors="replace")
        raise CallFailed(f"{shown!r} is not a UUID in 20 characters of Z85") from error
    return str(uuid.UUID(bytes=decoded)), given[:-_UUID_CHARACTERS]


# lakeFS changed the spelling of some names; scripts use both.
HMAC: Final = {
    "sign_sha256": _sign("sha256"),
    "signsha256": _sign("sha256"),
    "sign_sha1": _sign("sha1"),
    "signsha1": _sign("sha1"),
}
SHA256: Final = {"digest": lambda message: hashlib.sha256(text(message)).digest()}
BASE64: Final = {
    "encode": lambda data: base64.b64encode(text(data)),
    "decode": _decode_base64,
    "url_encode": _encode_base64_url,
    "urlEncode": _encode_base64_url,
    "url_decode": _decode_base64_url,
    "urlDecode": _decode_base64_url,
}
HEX: Final = {"encode": lambda data: binascii.hexlify(text(data)), "decode": _decode_hex}
Z85: Final = {"decode_uuid": _decode_uuid}
UUID: Final = {"new": lambda: str(uuid.uuid4())}
