"""A TCP proxy between a client and a real server that injects network faults.

Faults apply to open connections, to new connections, or both, so a test can break a connection and
leave new ones intact.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, Self

CHUNK: Final = 1 << 16
# HTTP/2 frame header: length in three bytes, type, flags, and from here the stream id.
_FRAME_STREAM: Final = 5
_FRAME_HEAD: Final = 9
PATIENCE_SECONDS: Final = 20.0


class Fault(Enum):
    """Fault of a connection."""

    NONE = auto()
    CUT = auto()
    """Cut at once; new connections are cut when accepted."""
    CUT_ON_REQUEST = auto()
    """Cut when the client sends; the request is lost."""
    CUT_ON_REPLY = auto()
    """Cut when the server answers; the reply is lost."""
    SWALLOW_REPLIES = auto()
    """The server's replies are lost; the connection stays open."""
    HOLD_REQUESTS = auto()
    """Requests are delayed until the fault is lifted, even if the client has disconnected."""


Forge = Callable[[bytes], bytes]
"""Modifies a piece of the server's reply."""


class _Wire:
    """A connection through the proxy: two sockets, and a thread for each direction."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        fault: Fault,
        forge: Forge,
        *,
        lingering: bool,
        forgetful: bool,
    ) -> None:
        self._lingering = lingering
        self._forgetful = forgetful
        self._answered = threading.Event()
        self._answered.set()
        self._server_left = False
        self._client = client
        self._server = server
        self._changed = threading.Condition()
        self._fault = fault
        self._forge = forge
        self._awaits_request = False
        self.is_paused = False
        self._threads = [
            threading.Thread(target=self._carry_requests, daemon=True),
            threading.Thread(target=self._carry_replies, daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def set_fault(self, fault: Fault) -> None:
        with self._changed:
            self._fault = fault
            self._awaits_request = True
            self._changed.notify_all()
        if fault is Fault.CUT:
            self.cut()

    def cut(self) -> None:
        for end in (self._client, self._server):
            # Wakes the threads that read from the socket; the peer sees the end of the stream.
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Wait until both directions have ended, and close the sockets."""
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                raise TimeoutError("a connection through the proxy did not end")
        self._client.close()
        self._server.close()

    def _carry_requests(self) -> None:
        with suppress(OSError):
            while True:
                data = self._client.recv(CHUNK)
                if self._forgetful and _is_about_the_connection(data):
                    self._server.sendall(data)
                    continue
                if not self._let_through():
                    return self.cut()
                if not data:
                    break
                self._answered.clear()
                if self._server_left:
                    self._answered.set()
                self._server.sendall(data)
                if self.is_paused and self._forgetful:
                    break
        if self._lingering:
            self._answered.wait(PATIENCE_SECONDS)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)
        return None

    def _let_through(self) -> bool:
        """Wait while requests are delayed; return whether the next may pass."""
        with self._changed:
            self._awaits_request = False
            self.is_paused = self._fault is Fault.HOLD_REQUESTS
            self._changed.wait_for(lambda: self._fault is not Fault.HOLD_REQUESTS)
            return self._fault is not Fault.CUT_ON_REQUEST

    def _carry_replies(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(CHUNK):
                self._answered.set()
                fault = Fault.NONE if self._awaits_request else self._fault
                if fault is Fault.CUT_ON_REPLY:
                    return self.cut()
                if fault is not Fault.SWALLOW_REPLIES:
                    # Hide a disconnected client from the server.
                    with suppress(OSError):
                        self._client.sendall(self._forge(data))
        self._server_left = True
        self._answered.set()
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        return None


def _is_about_the_connection(data: bytes) -> bool:
    """Return whether HTTP/2 data contain only connection frames, such as the reply to a ping.

    These may follow the response to a request, and are not a request.
    """
    at = 0
    while at + _FRAME_HEAD <= len(data):
        if any(data[at + _FRAME_STREAM : at + _FRAME_HEAD]):
            return False
        at += _FRAME_HEAD + int.from_bytes(data[at : at + 3], "big")
    return at == len(data) > 0


class Proxy:
    """Listens on a port of 127.0.0.1 and forwards to a server, injecting faults."""

    def __init__(
        self, server: Path | tuple[str, int], *, lingering: bool = False, forgetful: bool = False
    ) -> None:
        """Start to listen; `server` is a Unix socket, or host and port.

        `lingering`: hide a client's disconnect from the server until its request is answered. (Some
        servers abandon requests of disconnected clients.) `forgetful`: data sent after a delayed
        request are lost, such as the cancellation of an abandoned request.
        """
        self._target = server
        self._lingering = lingering
        self._forgetful = forgetful
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._wires: list[_Wire] = []
        self._fault_of_new = Fault.NONE
        self._forge: Forge = bytes
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def break_open(self, fault: Fault) -> None:
        """Set the fault of all open connections, from their next request on."""
        with self._lock:
            for wire in self._wires:
                wire.set_fault(fault)

    def break_new(self, fault: Fault) -> None:
        """Set the fault of new connections."""
        with self._lock:
            self._fault_of_new = fault

    def forge_replies(self, forge: Forge) -> None:
        """Modify the server's replies on new connections."""
        with self._lock:
            self._forge = forge

    @property
    def holds(self) -> bool:
        """Whether any request is or was delayed."""
        with self._lock:
            return any(wire.is_paused for wire in self._wires)

    def release_and_finish(self) -> None:
        """Forward delayed requests, on connections left by clients; wait until all ended."""
        self.break_new(Fault.CUT)
        self.break_open(Fault.NONE)
        self._finish()

    def close(self) -> None:
        """Cut all connections and stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_SECONDS)
        self._listener.close()
        self.break_open(Fault.CUT)
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _finish(self) -> None:
        with self._lock:
            wires, self._wires = self._wires, []
        for wire in wires:
            wire.finish()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        if self._fault_of_new is Fault.CUT:
            return client.close()
        try:
            server = self._connect_to_server()
        except OSError:
            return client.close()
        wire = _Wire(
            client,
            server,
            self._fault_of_new,
            self._forge,
            lingering=self._lingering,
            forgetful=self._forgetful,
        )
        self._wires.append(wire)
        return wire.start()

    def _connect_to_server(self) -> socket.socket:
        if isinstance(self._target, Path):
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(str(self._target))
            except OSError:
                server.close()
                raise
            return server
        return socket.create_connection(self._target)
