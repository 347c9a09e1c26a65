"""Checks before any process is started, so that a problem can be reported in one line."""

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
    """The server was not started, or ended before it answered; the message is one line."""

    kind = "cannot_start"


def check_place(settings: ServerSettings) -> None:
    """Make sure that the certificate can be read and folders written.

    Raises:
        CannotStart: One of them is not so.
    """
    check_certificate(settings.listen)
    for folder in _folders(settings):
        _check_folder(folder)


def check_database(settings: ServerSettings) -> list[str]:
    """Open the database and close it again; return what is wrong with it.

    A file that is not there yet is left so: the server will make it.
    """
    url = settings.database.url
    try:
        check_url(url)
    except LakebedError:
        return []  # the check of the settings says so
    path = embedded_path(url)
    if url.startswith("memory:") or (path is not None and not path.exists()):
        return []
    try:
        open_store(url).close()
    except LakebedError as error:
        return [f"database.url: {error}"]
    return []


def warnings_of(settings: ServerSettings) -> list[str]:
    """Return what is allowed and dangerous in the settings."""
    hosts = unencrypted_hosts(settings.database.url)
    if not hosts:
        return []
    is_postgresql = settings.database.url.startswith("postgresql:")
    option = "sslmode=verify-full" if is_postgresql else "tls=true"
    problem = (
        f"database.url: the connection to {', '.join(hosts)} need not be encrypted: passwords and"
        f" data may cross the network in clear text. Add {option} to the URL"
    )
    return [problem]


def check_storage(settings: ServerSettings) -> list[str]:
    """Send one signed request to a storage in a cloud; return what is wrong with its settings.

    It is about the place of new repositories or of one that is there, if any is known.
    """
    try:
        block_settings = settings.blockstore.block
    except SettingsError:
        return []  # the check of the settings says so
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
        BlockError: The storage does not answer, or refuses.
    """
    prefix = settings.blockstore.default_namespace_prefix
    namespace: Namespace | None = None
    if prefix is not None:
        with suppress(InvalidAddress):  # a prefix may end before the name of a bucket does
            namespace = Namespace.parse(prefix)
    block.probe(namespace or find_namespace())


def check_same_storage(settings: ServerSettings, repositories: Iterable[Repository]) -> None:
    """Make sure that a local storage is the one that the repositories of the database are in.

    Raises:
        CannotStart: It has the folder of none of them.
    """
    block = settings.blockstore.block
    if not isinstance(block, LocalSettings):
        return
    known = list(islice(repositories, _REPOSITORIES_ASKED))
    folders = [block.root / each.namespace.parts.bucket / each.namespace.prefix for each in known]
    if folders and not any(folder.is_dir() for folder in folders):
        raise CannotStart(
            f"the storage {block.root} (blockstore.local.root) has no folder of any repository in"
            f" the database, such as {known[0].id} at {known[0].namespace}: it is not the storage"
            f" that the database belongs to. If the files are lost, make the folder {folders[0]} to"
            " start all the same"
        )


def _any_namespace(settings: ServerSettings) -> Namespace | None:
    """Return the namespace of a repository, or None if the database has none, or does not open."""
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
    """Return the numeric address of a host to listen at.

    Raises:
        CannotStart: There is no such host.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CannotStart(f"cannot listen at {host}: there is no such host") from error
    return str(found[0][4][0])


def open_port(settings: ListenSettings) -> socket.socket:
    """Return the listening socket that all workers share.

    Raises:
        CannotStart: The port is taken, or may not be used.
    """
    try:
        return listen(address_of(settings.host), settings.port)
    except OSError as error:
        raise CannotStart(port_message(settings.host, settings.port, error)) from error


def tls_context(listen: ListenSettings) -> TLSContext | None:
    """Read the certificate of a server, or return None if it has none.

    Raises:
        OSError: A file cannot be read, or holds no certificate or not its key (`ssl.SSLError`).
    """
    if listen.tls_certificate is None or listen.tls_key is None:
        return None
    return TLSContext(listen.tls_certificate, listen.tls_key)


def check_certificate(listen: ListenSettings) -> None:
    """Make sure that the certificate of TLS, if there is one, can be used.

    Raises:
        CannotStart: It cannot be read, or its key does not belong to it.
    """
    try:
        tls_context(listen)
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, ssl.SSLError):
            reason = "one of them is not a PEM file, or the key is not that of the certificate"
        raise CannotStart(
            f"cannot use the certificate {listen.tls_certificate} with the key {listen.tls_key}:"
            f" {reason}"
        ) from error


def port_message(host: str, port: int, error: OSError) -> str:
    """Say in one line why a port could not be opened."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: stop what listens there, or use --port"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} may not be used by this user: use --port with one above 1023"
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
        # By trying: a read-only disk does not show in the permissions.
        handle, name = tempfile.mkstemp(dir=folder, prefix=".lakebed-")
        os.close(handle)
        Path(name).unlink()
    except OSError as error:
        raise CannotStart(f"cannot write to {folder}: {error.strerror}") from error
