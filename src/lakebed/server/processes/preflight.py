"""Checks before any process starts, so that a problem is reported in one line."""

import errno
import os
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.block import (
    BlockStore,
    InvalidAddress,
    LocalSettings,
    MemorySettings,
    Namespace,
    open_block,
)
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import Repository
from lakebed.httpd.listening import listen
from lakebed.httpd.tls import TLSContext
from lakebed.kv import check_url, open_store
from lakebed.kv.records import Records
from lakebed.kv.urls import unencrypted_hosts
from lakebed.server.settings import ListenSettings, ServerSettings, SettingsError, embedded_path

_REPOSITORIES_ASKED: Final = 100


class CannotStart(LakebedError):
    """The server did not start, or ended before it answered; the message is one line."""

    kind = "cannot_start"


def check_place(settings: ServerSettings) -> None:
    """Check that the certificate is readable and the folders are writable."""
    check_certificate(settings.listen)
    for folder in _folders(settings):
        _check_folder(folder)


def check_database(settings: ServerSettings) -> list[str]:
    """Open the database and close it again; return the problems found.

    A missing file is not created: the server will do so.
    """
    url = settings.database.url
    try:
        check_url(url)
    except LakebedError:
        return []  # reported by the check of the settings
    path = embedded_path(url)
    if url.startswith("memory:") or (path is not None and not path.exists()):
        return []
    try:
        open_store(url).close()
    except LakebedError as error:
        return [f"database.url: {error}"]
    return []


def warnings_of(settings: ServerSettings) -> list[str]:
    """Return warnings about settings that are valid but dangerous."""
    hosts = unencrypted_hosts(settings.database.url)
    if not hosts:
        return []
    is_postgresql = settings.database.url.startswith("postgresql:")
    option = "sslmode=verify-full" if is_postgresql else "tls=true"
    problem = (
        f"database.url: the connection to {', '.join(hosts)} may be unencrypted: passwords and data"
        f" could cross the network in clear text; add {option} to the URL"
    )
    return [problem]


def check_storage(settings: ServerSettings) -> list[str]:
    """Send one signed request to a cloud storage; return the problems of its settings.

    The request is for the namespace of new repositories or of an existing one, if known.
    """
    try:
        block_settings = settings.blockstore.block
    except SettingsError:
        return []  # reported by the check of the settings
    if isinstance(block_settings, LocalSettings | MemorySettings):
        return []
    try:
        with open_block(block_settings) as block:
            probe_storage(block, settings, lambda: _any_namespace(settings))
    except LakebedError as error:
        return [f"blockstore.{settings.blockstore.type}: {error}"]
    return []


def probe_storage(
    block: BlockStore, settings: ServerSettings, find_namespace: Callable[[], Namespace | None]
) -> None:
    """Send one signed request to a storage.

    Raises:
        BlockError: The storage does not answer, or denies access.
    """
    prefix = settings.blockstore.default_namespace_prefix
    namespace: Namespace | None = None
    if prefix is not None:
        with suppress(InvalidAddress):  # a prefix may end within the bucket name
            namespace = Namespace.parse(prefix)
    block.probe(namespace or find_namespace())


def check_same_storage(settings: ServerSettings, repositories: Iterable[Repository]) -> None:
    """Check that a local storage contains the repositories of the database.

    Raises:
        CannotStart: The folders of all of them are missing.
    """
    block = settings.blockstore.block
    if not isinstance(block, LocalSettings):
        return
    known = list(islice(repositories, _REPOSITORIES_ASKED))
    folders = [block.root / each.namespace.parts.bucket / each.namespace.prefix for each in known]
    if folders and not any(folder.is_dir() for folder in folders):
        raise CannotStart(
            f"the storage {block.root} (blockstore.local.root) does not belong to the database: it"
            f" has no folder of any repository, such as {known[0].id} at {known[0].namespace}. If"
            f" the files are lost, create the folder {folders[0]} to start anyway"
        )


def _any_namespace(settings: ServerSettings) -> Namespace | None:
    """Return the namespace of any repository, or None if the database has none or does not open."""
    url = settings.database.url
    path = embedded_path(url)
    if url.startswith("memory:") or (path is not None and not path.exists()):
        return None
    try:
        with open_store(url) as store:
            records = Records(store, REPOSITORIES, GRAVELER).scan()
            return next((Namespace.parse(each.message.storage_namespace) for each in records), None)
    except LakebedError:
        return None


def address_of(host: str) -> str:
    """Return the numeric address of a host name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotStart(f"cannot listen at {host}: unknown host") from error
    return str(found[0][4][0])


def open_port(settings: ListenSettings) -> socket.socket:
    """Return the listening socket shared by all workers.

    Raises:
        CannotStart: The port is in use or not permitted.
    """
    try:
        return listen(address_of(settings.host), settings.port)
    except OSError as error:
        raise CannotStart(port_message(settings.host, settings.port, error)) from error


def tls_context(listen: ListenSettings) -> TLSContext | None:
    """Return the TLS context of a server, or None if it has no certificate.

    Raises:
        OSError: A file is unreadable, or the certificate and key do not match (`ssl.SSLError`).
    """
    if listen.tls_certificate is None or listen.tls_key is None:
        return None
    return TLSContext(listen.tls_certificate, listen.tls_key)


def check_certificate(listen: ListenSettings) -> None:
    """Check that the TLS certificate, if configured, is usable."""
    try:
        tls_context(listen)
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, ssl.SSLError):
            reason = "a file is not PEM, or the key does not match the certificate"
        raise CannotStart(
            f"cannot use the certificate {listen.tls_certificate} with the key {listen.tls_key}:"
            f" {reason}"
        ) from error


def port_message(host: str, port: int, error: OSError) -> str:
    """Explain in one line why a port could not be opened."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: stop the other program, or use --port"
    if error.errno == errno.EACCES:
        return (
            f"port {port} of {host} is not permitted for this user: use --port with a port above"
            " 1023"
        )
    return f"cannot listen at port {port} of {host}: {error.strerror}"


def _folders(settings: ServerSettings) -> Iterator[Path]:
    path = embedded_path(settings.database.url)
    if path is not None:
        yield path.absolute().parent
    if settings.blockstore.type == "local" and settings.blockstore.local is not None:
        yield settings.blockstore.local.root
    if settings.cache.disk_folder is not None:
        yield settings.cache.disk_folder


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Write a file: permissions do not reveal a read-only disk.
        handle, name = tempfile.mkstemp(dir=folder, prefix=".lakebed-")
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise CannotStart(f"cannot write to {folder}: {error.strerror}") from error
