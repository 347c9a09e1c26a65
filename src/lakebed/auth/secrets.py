"""Secrets: drawn, encrypted at rest, compared in constant time.

The server's secret is stretched once per process (scrypt, some 50 ms) into two keys, one that
encrypts the secrets of access keys and one that signs tokens. A secret has to be kept readable,
not hashed: signatures of S3 requests can only be checked by making them again.

An encrypted secret is bound to its access key and its user: moved to another record it does not
open.
"""

import hashlib
import hmac
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from lakebed.auth.errors import AuthenticationFailed, AuthInvalid
from lakebed.auth.model import AccessKeyID
from lakebed.ids import UniqueID
from lakebed.runtime import Runtime

_SALT: Final = b"lakebed.auth.keys.1"
_ENCRYPTION_KEY_BYTES: Final = 32
_SIGNING_KEY_BYTES: Final = 64  # as long as the longest digest that tokens are signed with
_NONCE_BYTES: Final = 12
_SERVER_SECRET_BYTES_MIN: Final = 16

_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_ACCESS_KEY_DRAWN: Final = 14
_SECRET_BYTES: Final = 30
_SECRET_CHARACTERS_MIN: Final = 8
_SECRET_CHARACTERS_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys of an installation; all its processes derive the same ones."""

    encryption: bytes = field(repr=False)
    signing: bytes = field(repr=False)

    @classmethod
    def derive(cls, server_secret: bytes) -> Self:
        """Stretch the server's secret into keys: slow on purpose, so once per process.

        Raises:
            AuthInvalid: The secret is too short to be one.
        """
        if len(server_secret) < _SERVER_SECRET_BYTES_MIN:
            raise AuthInvalid(
                f"the server's secret needs at least {_SERVER_SECRET_BYTES_MIN} bytes"
            )
        length = _ENCRYPTION_KEY_BYTES + _SIGNING_KEY_BYTES
        keys = hashlib.scrypt(server_secret, salt=_SALT, n=1 << 14, r=8, p=1, dklen=length)
        return cls(keys[:_ENCRYPTION_KEY_BYTES], keys[_ENCRYPTION_KEY_BYTES:])


class SecretBox:
    """Encrypts the secrets of access keys."""

    def __init__(self, keys: ServerKeys, runtime: Runtime) -> None:
        self._cipher = ChaCha20Poly1305(keys.encryption)
        self._runtime = runtime

    def seal(self, secret: str, access_key_id: AccessKeyID, owner: UniqueID) -> bytes:
        """Encrypt the secret of an access key of a user."""
        nonce = self._runtime.random_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), _bound(access_key_id, owner))

    def open(self, sealed: bytes, access_key_id: AccessKeyID, owner: UniqueID) -> str:
        """Decrypt a secret.

        Raises:
            AuthenticationFailed: It was sealed with another server's secret, for another access
                key or user, or was tampered with.
        """
        nonce, box = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, box, _bound(access_key_id, owner)).decode()
        except (InvalidTag, ValueError):
            raise AuthenticationFailed from None


def _bound(access_key_id: AccessKeyID, owner: UniqueID) -> bytes:
    return f"{access_key_id}\x00{owner}".encode()


def same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )


def check_secret(secret: str) -> str:
    """Return the secret of an access key that a caller chose, if it can be one.

    Raises:
        AuthInvalid: It cannot.
    """
    if not _SECRET_CHARACTERS_MIN <= len(secret) <= _SECRET_CHARACTERS_MAX or not secret.isascii():
        raise AuthInvalid(
            f"a secret access key has {_SECRET_CHARACTERS_MIN} to {_SECRET_CHARACTERS_MAX}"
            " characters of ASCII"
        )
    return secret


def new_access_key_id(runtime: Runtime) -> AccessKeyID:
    """Draw the public half of a credential."""
    drawn = runtime.random_bytes(_ACCESS_KEY_DRAWN)
    return AccessKeyID("AKIAJ" + "".join(_BASE32[byte % 32] for byte in drawn) + "Q")


def new_secret(runtime: Runtime) -> str:
    """Draw the secret half of a credential."""
    return b64encode(runtime.random_bytes(_SECRET_BYTES)).decode()
