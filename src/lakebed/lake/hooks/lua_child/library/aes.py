"""``crypto/aes``: AES in CBC mode with PKCS #7 padding."""

import os
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from lakebed.lake.hooks.lua_child.values import CallFailed, text

_BLOCK_BYTES: Final = 16


def _cipher(key: object, vector: bytes) -> Cipher[CBC]:
    try:
        return Cipher(algorithms.AES(text(key)), CBC(vector))
    except ValueError as error:
        raise CallFailed("an AES key has 16, 24 or 32 bytes, and its data begin with 16") from error


def _encrypt(key: object, plain: object) -> bytes:
    """Return a random initialization vector and the encrypted, padded text."""
    vector, padder = os.urandom(_BLOCK_BYTES), PKCS7(_BLOCK_BYTES * 8).padder()
    encryptor = _cipher(key, vector).encryptor()
    padded = padder.update(text(plain, 2)) + padder.finalize()
    return vector + encryptor.update(padded) + encryptor.finalize()


def _decrypt(key: object, data: object) -> bytes:
    given, unpadder = text(data, 2), PKCS7(_BLOCK_BYTES * 8).unpadder()
    decryptor = _cipher(key, given[:_BLOCK_BYTES]).decryptor()
    try:
        padded = decryptor.update(given[_BLOCK_BYTES:]) + decryptor.finalize()
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError as error:
        raise CallFailed("the data are not of encryptCBC with this key") from error


AES: Final = {"encryptCBC": _encrypt, "decryptCBC": _decrypt}
