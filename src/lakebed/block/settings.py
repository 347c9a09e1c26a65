"""Settings of a storage: a frozen class for each kind; no ``repr`` shows a secret."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from lakebed.block.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """A local folder; ``local://name/path`` is the file ``name/path`` in it."""

    root: Path
    """The folder; created if missing."""
    sync: bool = True
    """Whether writes wait for the disk. If not, acknowledged objects may be lost or empty after a
    power failure: only for data that can be reproduced."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The memory of this process; each opened store starts empty."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """Encryption of an object by its storage."""

    algorithm: Literal["AES256", "aws:kms"]
    kms_key_id: str | None = None
    """None: the default key of the account."""

    def __str__(self) -> str:
        return self.algorithm if self.kms_key_id is None else f"{self.algorithm}:{self.kms_key_id}"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Amazon S3 or a compatible server.

    Without keys, credentials are found as by the vendor's tools: in the environment, in the
    vendor's configuration files, from the machine's role.
    """

    region: str = "us-east-1"
    """Region of the buckets."""
    endpoint: str | None = None
    """Endpoint such as ``http://127.0.0.1:8333``; None for Amazon's."""
    access_key_id: str | None = None
    """Access key id, or None to use the credentials found."""
    secret_access_key: str | None = field(default=None, repr=False)
    """Secret of the access key."""
    session_token: str | None = field(default=None, repr=False)
    """Session token of temporary keys."""
    path_style: bool | Literal["auto"] = "auto"
    """Whether requests contain the bucket in the path instead of the host name. ``auto``: if the
    endpoint's host is an IP address or a name without dots."""
    server_side_encryption: Literal["AES256", "aws:kms"] | None = None
    """Encryption requested with every write. None, and presigned uploads of whole objects: the
    default of the bucket."""
    server_side_encryption_kms_key_id: str | None = None
    """Id or ARN of the key for ``aws:kms``, or None for the default key of the account."""

    @property
    def encryption(self) -> Encryption | None:
        """The encryption requested with every write, or None.

        Raises:
            InvalidArgument: The settings name an unknown algorithm, or a key without ``aws:kms``.
        """
        algorithm, key = self.server_side_encryption, self.server_side_encryption_kms_key_id
        if algorithm not in {None, "AES256", "aws:kms"}:
            raise InvalidArgument(
                f"server_side_encryption must be AES256 or aws:kms, not {algorithm!r}"
            )
        if key is None:
            return None if algorithm is None else Encryption(algorithm)
        if algorithm != "aws:kms":
            raise InvalidArgument(
                "server_side_encryption_kms_key_id needs server_side_encryption aws:kms, not"
                f" {algorithm or 'none'}"
            )
        if not (key and key.isascii() and key.isprintable() and " " not in key):
            raise InvalidArgument(
                f"server_side_encryption_kms_key_id must be the id or ARN of a key, not {key!r}"
            )
        return Encryption(algorithm, key)

    @property
    def uses_path_style(self) -> bool:
        """Whether the bucket is in the path, with ``auto`` resolved."""
        if self.path_style != "auto":
            return self.path_style
        host = urlsplit(self.endpoint or "").hostname
        return host is not None and ("." not in host or _is_address(host))


@dataclass(frozen=True, slots=True)
class GCSSettings:
    """Google Cloud Storage; experimental."""

    service_account_file: Path | None = None
    """None: credentials are found as by the vendor's tools."""


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """A storage account of Azure Blob Storage."""

    account: str
    """Name of the account."""
    account_key: str | None = field(default=None, repr=False)
    """None: credentials are found as by the vendor's tools."""
    endpoint: str | None = None
    """Endpoint such as ``http://127.0.0.1:10000/account``; None for Azure's. Addresses do not
    depend on it: ``https://account.blob.core.windows.net/container/path``."""


@dataclass(frozen=True, slots=True)
class URLSettings:
    """A storage with the driver of another package; see `lakebed.block.open_block`."""

    url: str = field(repr=False)
    """Its scheme selects the driver, and is the scheme of the storage's addresses."""


BlockSettings = (
    LocalSettings | MemorySettings | S3Settings | GCSSettings | AzureSettings | URLSettings
)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
