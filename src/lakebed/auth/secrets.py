"""Secrets: how they are drawn, encrypted for the store, and compared in constant time.

Each process derives two keys from the server's secret (by scrypt, in some 50 ms): one encrypts the
secrets of access keys, the other signs tokens. Secrets are encrypted and not hashed, because the
signature of an S3 request can only be checked by computing it again.

An encrypted secret is bound to its access key and its user: it cannot be decrypted in another
record.
"""

import hashlib
import hmac
import logging
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from lakebed.auth.errors import AuthenticationFailed, AuthInvalid
from lakebed.auth.model import AccessKeyID
from lakebed.base.ids import UniqueID
from lakebed.base.runtime import Runtime

_LOGGER: Final = logging.getLogger(__name__)
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
    """The keys of an installation. All its processes derive the same ones."""

    encryption: bytes = field(repr=False)
    signing: bytes = field(repr=False)

    @classmethod
    def derive(cls, server_secret: bytes) -> Self:
        """Derive the keys from the server's secret; slow on purpose, so do it once per process.

        Raises:
            AuthInvalid: The secret is too short.
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
            AuthenticationFailed: It was encrypted with another server's secret or for another
                access key or user, or it was damaged.
        """
        nonce, box = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, box, _bound(access_key_id, owner)).decode()
        except (InvalidTag, ValueError):
            _LOGGER.warning(
                "cannot decrypt the secret of the access key %s: the server's secret key is another"
                " one than when it was made, or the record is damaged",
                access_key_id,
            )
            raise AuthenticationFailed from None


def _bound(access_key_id: AccessKeyID, owner: UniqueID) -> bytes:
    return f"{access_key_id}\x00{owner}".encode()


def same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal; takes the same time wherever they differ."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )


def check_secret(secret: str) -> str:
    """Return the secret that a caller chose for an access key, if it is valid.

    Raises:
        AuthInvalid: It is too short or too long, or is not ASCII.
    """
    if not _SECRET_CHARACTERS_MIN <= len(secret) <= _SECRET_CHARACTERS_MAX or not secret.isascii():
        raise AuthInvalid(
            f"a secret access key must have {_SECRET_CHARACTERS_MIN} to {_SECRET_CHARACTERS_MAX}"
            " ASCII characters"
        )
    return secret


def new_access_key_id(runtime: Runtime) -> AccessKeyID:
    """Draw the public half of an access key."""
    drawn = runtime.random_bytes(_ACCESS_KEY_DRAWN)
    return AccessKeyID("AKIAJ" + "".join(_BASE32[byte % 32] for byte in drawn) + "Q")


def new_secret(runtime: Runtime) -> str:
    """Draw the secret half of an access key."""
    return b64encode(runtime.random_bytes(_SECRET_BYTES)).decode()
