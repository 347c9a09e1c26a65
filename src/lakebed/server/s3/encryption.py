"""Headers of server-side encryption: the one configured for the storage, and no other."""

from collections.abc import Mapping
from typing import Final

from lakebed.block import Encryption
from lakebed.lake.entry_metadata import has_encryption
from lakebed.lake.model import ObjectStats

ENCRYPTION_HEADER: Final = "x-amz-server-side-encryption"


def encryption_headers(encryption: Encryption | None) -> dict[str, str]:
    """Return the headers of an encryption, the same in requests and answers."""
    if encryption is None:
        return {}
    headers: dict[str, str] = {ENCRYPTION_HEADER: encryption.algorithm}
    if encryption.kms_key_id is not None:
        headers[f"{ENCRYPTION_HEADER}-aws-kms-key-id"] = encryption.kms_key_id
    return headers


def shown_encryption(encryption: Encryption | None, stats: ObjectStats) -> Mapping[str, str]:
    """Return the headers of the configured encryption if the object was written with it."""
    if encryption is None or isinstance(stats.location, str):
        return {}
    is_shown = has_encryption(stats.reserved, stats.location, encryption)
    return encryption_headers(encryption) if is_shown else {}
