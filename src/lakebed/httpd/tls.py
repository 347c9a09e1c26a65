"""TLS of the server: sockets that encrypt, and a certificate renewed at run time."""

import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_JOINED_BYTES: Final = 1 << 14
"""Buffers up to the size of a TLS record are joined."""
_LOGGER: Final = logging.getLogger(__name__)


class TLSSocket(ssl.SSLSocket):
    """TLS socket with the behaviour of a plain non-blocking socket.

    The first `recv` does the handshake. Waiting for the client works as without TLS, except for
    bytes already decrypted (`pending`), which the selector does not report.
    """

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        if flags & socket.MSG_PEEK:
            return b"?" if self.pending() else socket.socket.recv(self, buflen, flags)
        try:
            return super().recv(buflen)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def sendmsg(self, buffers: Sequence[memoryview]) -> int:  # type: ignore[override]
        """Send some of the buffers, as a socket without TLS does."""
        first = buffers[0]
        if len(buffers) > 1 and sum(map(len, buffers)) <= _JOINED_BYTES:
            return self.send(b"".join(buffers))
        return self.send(first) if first else 0

    def shutdown(self, how: int) -> None:
        # Tells the client that the data is complete; does not wait for the client's reply.
        with suppress(OSError, ValueError):
            self.unwrap()
        super().shutdown(how)


class TLSContext:
    """The certificate of a server."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the certificate.

        Raises:
            OSError: A file cannot be read, or contains no certificate or not its key
                (`ssl.SSLError`).
        """
        self._files = (certificate, key)
        self._times = self._read_times()
        self._context = self._read()

    def wrap(self, connected: socket.socket) -> socket.socket:
        """Return an encrypted connection, the replacement of `connected`.

        Raises:
            OSError: The client disconnected.
        """
        return self._context.wrap_socket(
            connected, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )

    def renew(self) -> None:
        """Reload the files if they have changed, for new connections."""
        try:
            times = self._read_times()
            if times != self._times:
                self._times = times
                self._context = self._read()
                _LOGGER.info("reloaded the certificate %s", self._files[0])
        except OSError as error:
            # Perhaps only one file is replaced so far: the times will change again.
            _LOGGER.warning("cannot reload the certificate %s: %s", self._files[0], error)

    def _read(self) -> ssl.SSLContext:
        # A new context: a half-replaced context would fail every handshake.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.sslsocket_class = TLSSocket
        context.load_cert_chain(*self._files)
        return context

    def _read_times(self) -> list[int]:
        return [file.stat().st_mtime_ns for file in self._files]
