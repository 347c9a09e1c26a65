"""Checks before any process is started, so that a problem can be reported in one line."""

import errno
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lakebed.errors import LakebedError
from lakebed.kv import check_url, open_store
from lakebed.server.connections.listening import listen
from lakebed.server.connections.tls import Tls
from lakebed.server.settings import ListenSettings, ServerSettings, embedded_path


class CannotStart(LakebedError):  # noqa: N818 - it says what happened
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


def check_certificate(listen: ListenSettings) -> None:
    """Make sure that the certificate of TLS, if there is one, can be used.

    Raises:
        CannotStart: It cannot be read, or its key does not belong to it.
    """
    try:
        Tls.of(listen)
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
