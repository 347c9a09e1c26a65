"""Settings of an installation and their defaults.

Each section is a frozen class. A field excluded from the ``repr`` is a secret: `masked` hides it,
and no error quotes it. `config_files` reads settings from a file, the environment and flags; this
module checks them against each other.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from math import inf
from pathlib import Path
from typing import Final, Literal

from lakebed.base.errors import LakebedError
from lakebed.block.settings import (
    AzureSettings,
    BlockSettings,
    GCSSettings,
    LocalSettings,
    MemorySettings,
    S3Settings,
    URLSettings,
)
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.kv import check_url, serves_one_process
from lakebed.lake.errors import InvalidSettings
from lakebed.lake.hooks.settings import HookLimits
from lakebed.lake.settings import CatalogSettings, LinkSettings

WELL_KNOWN_KEY_ID: Final = "AKIAIOSFOLQUICKSTART"
"""The access key id of the pair published in tutorials; accepted only on loopback."""

_EMBEDDED: Final = ("sqlite:///", "rocksdb:///")
"""URL prefixes of databases in a file, followed by its path."""

MASK: Final = "********"
SECRET_KEY_LENGTH_MIN: Final = 16
_PORT_MAX: Final = 65535
_SPARE_THREADS: Final = 16
_UMASK: Final = re.compile(r"[0-7]{1,4}")
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]+)?")


class SettingsError(LakebedError, ValueError):
    """Settings that are unknown, of the wrong type, or contradictory: one problem per line."""

    kind = "settings"

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenSettings:
    """Network address of the server."""

    host: str = "127.0.0.1"
    """The address to listen at; ``0.0.0.0`` means all addresses of the machine."""
    port: int = 8000
    """The port to listen at."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of reverse proxies, trusted to report client addresses in
    ``X-Forwarded-For``. They must append to it or replace it, and drop ``X_Forwarded_For``."""
    tls_certificate: Path | None = None
    """A file with the server's certificate and its chain (PEM). The server then speaks HTTPS only.
    The file is read again when it changes."""
    tls_key: Path | None = None
    """A file with the private key of the certificate (PEM, without a password)."""
    objects_origin: str | None = None
    """A second origin of this server, like ``https://objects.example.com``, with its own host name.
    It serves only objects, by URLs that the server signs, and signed S3 requests. An object opened
    there cannot act as a page of the server."""

    cors_origins: tuple[str, ...] = ()
    """Origins of other sites, like ``https://app.example.com``, whose pages may use the REST API
    and S3 with keys or tokens that they send themselves (CORS)."""

    @property
    def scheme(self) -> str:
        """The scheme of the server's URLs."""
        return "http" if self.tls_certificate is None else "https"

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        try:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
        except OSError:
            return False
        return all(ipaddress.ip_address(str(each[4][0])).is_loopback for each in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """Processes of a server."""

    workers: int = 2
    """Processes that answer requests; about one for each core of the machine."""
    builders: int = 1
    """Processes of each worker that build large commits and merges (`engine.large_commit_keys`)."""
    shutdown_seconds: int = 30
    """The time for requests in progress to finish when the server stops."""
    umask: str = "077"
    """The umask of the server, in octal digits. By default only its user can read its files; with
    ``"027"`` its group can too."""
    hang_seconds: int = 30
    """A worker that has not polled for requests for this long is killed and replaced; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """The key-value store; see `lakebed.kv.open_store`."""

    url: str = field(default="sqlite:///data/lakebed.db", repr=False)
    """The URL of the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockstoreSettings:
    """The object storage. Only the section named by `type` is used."""

    type: Literal["local", "memory", "s3", "azure", "gcs", "url"] = "local"
    """The kind of storage; ``url``: the driver of another package."""
    default_namespace_prefix: str | None = None
    """Prefix of storage namespaces for repositories created without one."""
    local: LocalSettings | None = field(default_factory=lambda: LocalSettings(Path("data/objects")))
    s3: S3Settings | None = None
    azure: AzureSettings | None = None
    gcs: GCSSettings | None = None
    url: str | None = field(default=None, repr=False)
    """The URL of the storage, whose scheme selects the driver of an installed package."""

    @property
    def block(self) -> BlockSettings:
        """The settings to open the storage with; see `lakebed.block.open_block`.

        Raises:
            SettingsError: The section named by `type` is missing.
        """
        sections: dict[str, BlockSettings | None] = {
            "local": self.local,
            "memory": MemorySettings(),
            "s3": self.s3 or S3Settings(),
            "azure": self.azure,
            "gcs": self.gcs or GCSSettings(),
            "url": None if self.url is None else URLSettings(self.url),
        }
        section = sections[self.type]
        if section is None:
            raise SettingsError([f"blockstore.type is {self.type}: set blockstore.{self.type} too"])
        return section


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """The key that encrypts the secrets of users; it must not change or be lost."""

    secret_key: str | None = field(default=None, repr=False)
    """The key itself: 16 characters or more."""
    secret_key_file: Path | None = None
    """A file with the key, instead."""

    def key(self) -> bytes:
        """Return the key."""
        if self.secret_key_file is None:
            if self.secret_key is None:
                raise SettingsError(["auth.secret_key is missing: set it, or auth.secret_key_file"])
            key = self.secret_key.encode()
        else:
            try:
                key = self.secret_key_file.read_bytes().strip()
            except OSError as error:
                raise SettingsError(
                    [f"auth.secret_key_file: cannot read {self.secret_key_file}: {error.strerror}"]
                ) from error
        if len(key) < SECRET_KEY_LENGTH_MIN:
            raise SettingsError(
                [f"auth: the secret key needs {SECRET_KEY_LENGTH_MIN} characters or more"]
            )
        return key


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """Logging; see `lakebed.server.http.logs`."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""
    format: Literal["auto", "json", "text"] = "auto"
    """``auto``: text on a terminal, else one JSON object a line."""
    file: Path | None = None
    """A file for all lines; the standard error then gets only warnings and errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Access to ``/metrics``: restricted to `networks` and `key`; open if neither is set."""

    networks: tuple[str, ...] = ()
    """Addresses and networks that may read the metrics."""
    key: str | None = field(default=None, repr=False)
    """The bearer token that gives access (``Authorization: Bearer <key>``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingSettings:
    """OpenTelemetry traces (extra ``otel``)."""

    endpoint: str | None = field(default=None, repr=False)
    """The OTLP/HTTP endpoint for spans: ``http://collector:4318/v1/traces``. None: off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Limits of one worker."""

    work_slots: int = 64
    """Concurrent requests for metadata; further requests wait."""
    transfer_slots: int = 48
    """Concurrent requests that transfer the bytes of objects; further requests wait."""
    body_slots: int = 64
    """Concurrent requests for metadata that wait for their body; further requests wait."""
    hook_slots: int = 64
    """Concurrent requests that wait for hooks; further requests wait."""
    queue_length: int = 512
    """Requests waiting for a slot; further requests are answered 503."""
    queue_seconds: float = 10.0
    """The longest wait for a slot before a 503; 0: no waiting."""
    json_bytes_max: int = 8 << 20
    """The largest JSON body."""
    header_bytes_max: int = 64 << 10
    """The largest request head."""
    header_seconds: float = 20.0
    """The time limit of a request head."""
    stall_seconds: float = 60.0
    """A connection without progress for this long is closed."""
    body_bytes_per_second: int = 1024
    """The minimum average rate of a body or a download, enforced after the first minute."""
    request_seconds: float = 600.0
    """The longest request, without its body."""
    transfer_seconds: float = 6 * 3600.0
    """The longest transfer of a body, in either direction."""

    @property
    def threads(self) -> int:
        """The maximum number of threads of a worker.

        One for each active or waiting request, and a reserve to refuse excess requests and to
        answer health checks.
        """
        slots = self.work_slots + self.transfer_slots + self.body_slots + self.hook_slots
        return slots + self.sign_in_slots + self.queue_length + _SPARE_THREADS

    @property
    def sign_in_slots(self) -> int:
        """The number of requests that read credentials from the store concurrently."""
        return max(1, self.work_slots // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The job that deletes stale internal records."""

    interval_seconds: float = 60.0
    """The pause after each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimSettings:
    """Garbage collection by the server itself, in its background process."""

    enabled: bool = False
    """Whether the server collects garbage; if not, run ``lakebed gc run``."""
    interval_seconds: float = 300.0
    """The minimum pause between two runs for a repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3GatewaySettings:
    """The S3 gateway."""

    domain_name: str = "s3.local.lakefs.io"
    """The gateway's host name; the first label of a subdomain is the bucket."""
    region: str = "us-east-1"
    """The region reported for all buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Further protocols beside the REST API."""

    s3: S3GatewaySettings = S3GatewaySettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """All settings of a server."""

    listen: ListenSettings = ListenSettings()
    processes: ProcessSettings = ProcessSettings()
    database: DatabaseSettings = DatabaseSettings()
    blockstore: BlockstoreSettings = BlockstoreSettings()
    auth: AuthSettings = AuthSettings()
    logging: LoggingSettings = LoggingSettings()
    metrics: MetricsSettings = MetricsSettings()
    tracing: TracingSettings = TracingSettings()
    gc: CatalogSettings = field(default_factory=CatalogSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    limits: LimitSettings = LimitSettings()
    cleaner: CleanerSettings = CleanerSettings()
    reclaim: ReclaimSettings = ReclaimSettings()
    gateways: GatewaySettings = GatewaySettings()
    hooks: HookLimits = field(default_factory=HookLimits)

    @property
    def in_memory(self) -> bool:
        """Whether data is in the memory of one process."""
        return self.database.url.startswith("memory:") or self.blockstore.type == "memory"

    @property
    def one_process(self) -> bool:
        """Whether the database allows only one process: one worker then does all work."""
        return self.in_memory or serves_one_process(self.database.url)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return 1 if self.one_process else self.processes.workers

    def check(self, file: Path | None = None) -> None:
        """Check that the settings, and the file they come from, are consistent.

        Raises:
            SettingsError: They are not; the message lists every problem.
        """
        if problems := [*_problems(self), *_layout_problems(self, file)]:
            raise SettingsError(problems)


def embedded_path(url: str) -> Path | None:
    """Return the file or folder of an embedded database, or None for other databases."""
    for prefix in _EMBEDDED:
        if url.startswith(prefix):
            return Path(url.removeprefix(prefix).partition("?")[0])
    return None


def masked(settings: object) -> dict[str, object]:
    """Return the settings as plain data for people, with every secret masked."""
    assert is_dataclass(settings)
    shown: dict[str, object] = {}
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value):
            shown[each.name] = masked(value)
        elif not each.repr and value is not None:
            shown[each.name] = mask(value)
        else:
            shown[each.name] = str(value) if isinstance(value, Path) else value
    return shown


def mask(secret: str) -> str:
    """Return a secret for display: a URL without its password, anything else entirely masked."""
    if "://" not in secret:
        return MASK
    # The last @ ends the user info: a password may contain another.
    shown = re.sub(r"(?<=://)([^/?#:]*):.*@", rf"\1:{MASK}@", secret)
    return re.sub(r"(?i)((?:password|secret|token|key)[a-z_]*=)[^&#]*", rf"\1{MASK}", shown)


def _problems(settings: ServerSettings) -> Iterator[str]:
    yield from _impossible_numbers(settings)
    yield from _umask_problems(settings)
    yield from _listen_problems(settings.listen)
    yield from _network_problems("listen.trusted_proxies", settings.listen.trusted_proxies)
    yield from _network_problems("metrics.networks", settings.metrics.networks)
    yield from _network_problems("hooks.allowed_networks", settings.hooks.allowed_networks)
    for name, command in settings.hooks.commands.items():
        if not command:
            yield f"hooks.commands.{name} is empty: give a program and its first arguments"
    if settings.metrics.key is not None and len(settings.metrics.key) < SECRET_KEY_LENGTH_MIN:
        yield f"metrics.key is too short: use at least {SECRET_KEY_LENGTH_MIN} characters"
    try:
        check_url(settings.database.url)
    except LakebedError as error:
        yield f"database.url: {error}"
    for check in (lambda: settings.blockstore.block, settings.auth.key):
        try:
            check()
        except SettingsError as error:
            yield from error.problems
    if settings.auth.secret_key and settings.auth.secret_key_file:
        yield "auth: set secret_key or secret_key_file, not both"
    yield from _storage_problems(settings)
    yield from _time_problems(settings)


def _storage_problems(settings: ServerSettings) -> Iterator[str]:
    if settings.gc.versions == "delete" and settings.blockstore.type in {"azure", "gcs", "url"}:
        yield (
            "gc.versions is delete, which needs S3 (blockstore.type is"
            f" {settings.blockstore.type}): set it to keep, and delete versions by a lifecycle rule"
        )
    try:
        _ = settings.blockstore.s3 and settings.blockstore.s3.encryption
    except LakebedError as error:
        yield f"blockstore.s3: {error}"


def _listen_problems(listen: ListenSettings) -> Iterator[str]:
    if listen.port > _PORT_MAX:  # `_impossible_numbers` finds ports below 1
        yield f"listen.port is {listen.port}: use 1 to {_PORT_MAX}"
    if (listen.tls_certificate is None) != (listen.tls_key is None):
        yield "listen: set both tls_certificate and tls_key, or neither"
    origins = [("objects_origin", listen.objects_origin or "https://unset")]
    origins += [("cors_origins", origin) for origin in listen.cors_origins]
    for name, origin in origins:
        if not _ORIGIN.fullmatch(origin):
            yield (
                f"listen.{name} is {origin!r}: write it as https://objects.example.com, in lower"
                " case and without a path"
            )


def _network_problems(key: str, networks: Iterable[str]) -> Iterator[str]:
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            yield (
                f"{key}: {network!r} is not an address or a network: write it as"
                " 10.1.2.3 or 10.0.0.0/8, without bits set beyond the mask"
            )


def _layout_problems(settings: ServerSettings, file: Path | None) -> Iterator[str]:
    """Find files of the server below the root of local storage, where they would be objects."""
    if settings.blockstore.type != "local" or settings.blockstore.local is None:
        return
    url, root = settings.database.url, settings.blockstore.local.root.resolve()
    own = {
        "the settings file": file,
        "database.url": embedded_path(url),
        "auth.secret_key_file": settings.auth.secret_key_file,
        "logging.file": settings.logging.file,
        "cache.disk_folder": settings.cache.disk_folder,
    }
    for key, path in own.items():
        if path is not None and path.resolve().is_relative_to(root):
            yield (
                f"blockstore.local.root: {root} contains {path} ({key}), which users could read and"
                " replace as an object: use a separate folder for objects"
            )


def _impossible_numbers(settings: ServerSettings) -> Iterator[str]:
    """Find numbers that are negative, infinite, or zero where zero is invalid."""
    may_be_zero = {
        "limits.queue_seconds",
        "processes.hang_seconds",
        "processes.shutdown_seconds",
    }
    for section in fields(settings):
        for name, value in masked(getattr(settings, section.name)).items():
            key = f"{section.name}.{name}"
            if isinstance(value, int | float) and not isinstance(value, bool):
                if key in may_be_zero and not 0 <= value < inf:  # also false for NaN
                    yield f"{key} is {value}: use 0 or a larger number"
                elif key not in may_be_zero and not 0 < value < inf:
                    yield f"{key} is {value}: use a number above 0"


def _umask_problems(settings: ServerSettings) -> Iterator[str]:
    umask = settings.processes.umask
    if not _UMASK.fullmatch(umask) or int(umask, 8) & 0o700:
        yield (
            f'processes.umask is "{umask}": use octal digits in quotes that keep all permissions of'
            ' the user, as in "077"'
        )


def _time_problems(settings: ServerSettings) -> Iterator[str]:
    try:
        settings.gc.check(settings.engine)
    except InvalidSettings as error:
        yield f"gc: {error}"
    longest = settings.gc.longest_request_seconds
    if longest < settings.limits.request_seconds:
        yield (
            f"gc.longest_request_seconds ({longest:g}) must not be less than"
            f" limits.request_seconds ({settings.limits.request_seconds:g})"
        )
    transfer, min_age = settings.limits.transfer_seconds, settings.gc.min_age_seconds
    if min_age < 2 * transfer:
        yield (
            f"gc.min_age_seconds ({min_age:g}) must be at least twice limits.transfer_seconds"
            f" ({transfer:g})"
        )
