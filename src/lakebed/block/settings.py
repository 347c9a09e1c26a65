"""How to reach a storage: one frozen class for each kind; no secret shows in a ``repr``."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """A folder of this machine; ``local://name/path`` is the file ``name/path`` in it."""

    root: Path
    """The folder; made if it is not there."""
    sync: bool = True
    """Whether a write waits until the disk has it. Without that, objects that were acknowledged
    may be lost or empty after a power failure: right only for data that can be made again."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The memory of this process; each store that is opened begins empty."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Amazon S3 or a server that speaks its protocol.

    Without keys, credentials are found as the vendor's tools find them: in the environment, in its
    files, from the machine's role.
    """

    region: str = "us-east-1"
    """The region of the buckets."""
    endpoint: str | None = None
    """``http://127.0.0.1:8333``; None for Amazon's own."""
    access_key_id: str | None = None
    """The key to sign requests with, if the vendor's tools shall not find one."""
    secret_access_key: str | None = field(default=None, repr=False)
    """Its secret."""
    session_token: str | None = field(default=None, repr=False)
    """The token that belongs to keys that end after a time."""
    path_style: bool | Literal["auto"] = "auto"
    """Whether the bucket goes into the path and not into the host name of a request. ``auto``: if
    the host of the endpoint is an address, or a name without dots."""

    @property
    def uses_path_style(self) -> bool:
        """Whether the bucket goes into the path, with ``auto`` decided."""
        if self.path_style != "auto":
            return self.path_style
        host = urlsplit(self.endpoint or "").hostname
        return host is not None and ("." not in host or _is_address(host))


@dataclass(frozen=True, slots=True)
class GCSSettings:
    """Google Cloud Storage; experimental."""

    service_account_file: Path | None = None
    """None: credentials are found as the vendor's tools find them."""


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """One storage account of Azure Blob Storage."""

    account: str
    """The name of the account."""
    account_key: str | None = field(default=None, repr=False)
    """None: credentials are found as the vendor's tools find them."""
    endpoint: str | None = None
    """``http://127.0.0.1:10000/account``; None for Azure's own. Addresses are the same with both:
    ``https://account.blob.core.windows.net/container/path``."""


BlockSettings = LocalSettings | MemorySettings | S3Settings | GCSSettings | AzureSettings


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
