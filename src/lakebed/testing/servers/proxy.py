"""A network that fails on demand: a TCP proxy between a client and a real server.

Faults are set for the connections that are open now, for those to come, or both, so that a test can
break one connection and leave the way open for the next.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, Self

CHUNK: Final = 1 << 16
# The head of a frame of HTTP/2: its length in three bytes, kind, flags, and from here its stream.
_FRAME_STREAM: Final = 5
_FRAME_HEAD: Final = 9
PATIENCE_SECONDS: Final = 20.0


class Fault(Enum):
    """What happens to a connection."""

    NONE = auto()
    CUT = auto()
    """It is cut at once; a new one is cut when it is made."""
    CUT_ON_REQUEST = auto()
    """It is cut when the client sends, and what it sent is lost."""
    CUT_ON_REPLY = auto()
    """It is cut when the server answers, and the answer is lost."""
    SWALLOW_REPLIES = auto()
    """The server's answers are lost, and the connection stays open."""
    HOLD_REQUESTS = auto()
    """What the client sends is kept, and reaches the server when the fault is lifted; even if the
    client has gone meanwhile."""


Forge = Callable[[bytes], bytes]
"""Changes what the server answers, a piece at a time."""


class _Wire:
    """One connection through the proxy: two sockets, and a thread for each direction."""

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
        self.held = False
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
            # Wakes the threads that read from it; the other side sees the end of the stream.
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Wait until both directions have come to their end, and free the sockets."""
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
                if self.held and self._forgetful:
                    break
        if self._lingering:
            self._answered.wait(PATIENCE_SECONDS)
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)
        return None

    def _let_through(self) -> bool:
        """Wait while requests are held; return whether the next one may pass."""
        with self._changed:
            self._awaits_request = False
            self.held = self._fault is Fault.HOLD_REQUESTS
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
                    # If the client is gone, the server must not notice it from us.
                    with suppress(OSError):
                        self._client.sendall(self._forge(data))
        self._server_left = True
        self._answered.set()
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)
        return None


def _is_about_the_connection(data: bytes) -> bool:
    """Whether data of HTTP/2 are frames about the connection alone, as the reply to a ping is.

    They may come right after a request was answered, and are not a request.
    """
    at = 0
    while at + _FRAME_HEAD <= len(data):
        if any(data[at + _FRAME_STREAM : at + _FRAME_HEAD]):
            return False
        at += _FRAME_HEAD + int.from_bytes(data[at : at + 3], "big")
    return at == len(data) > 0


class Proxy:
    """Listens on a port of 127.0.0.1 and passes all on to a server, unless told otherwise."""

    def __init__(
        self, server: Path | tuple[str, int], *, lingering: bool = False, forgetful: bool = False
    ) -> None:
        """Start to listen; `server` is a socket in the file system, or a host and a port.

        `lingering`: a server does not hear that a client has gone before it has answered what the
        client sent. (Some drop what they do for a client that has gone, if they notice in time.)

        `forgetful`: what a client sends behind something that was held is lost, as when it takes
        back a request that it gave up.
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
        """The port on which the proxy listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def break_open(self, fault: Fault) -> None:
        """Set the fault of the connections that are open now, from their next request on."""
        with self._lock:
            for wire in self._wires:
                wire.set_fault(fault)

    def break_new(self, fault: Fault) -> None:
        """Set the fault of the connections to come."""
        with self._lock:
            self._fault_of_new = fault

    def forge_replies(self, forge: Forge) -> None:
        """Change the server's answers on the connections to come."""
        with self._lock:
            self._forge = forge

    @property
    def holds(self) -> bool:
        """Whether something that a client sent is held, or was."""
        with self._lock:
            return any(wire.held for wire in self._wires)

    def release_and_finish(self) -> None:
        """Let pass what is held, on connections that clients have left; wait until all ended."""
        self.break_new(Fault.CUT)
        self.break_open(Fault.NONE)
        self._finish()

    def close(self) -> None:
        """Cut all connections and stop to listen."""
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
