"""Settings of a storage: a frozen class for each kind; no ``repr`` shows a secret."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit


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


BlockSettings = LocalSettings | MemorySettings | S3Settings | GCSSettings | AzureSettings


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
