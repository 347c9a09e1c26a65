"""The HTTP server of a worker: takes connections in, and serves them in threads.

One thread waits at the poll object for all; which one, see `turns`. An event is off until the
thread that got it turns it on again, so a connection is held by one thread at a time, also when two
threads poll. Whichever thread takes a connection out of `_waiting` holds it: the one that got its
event, or the one that looks for connections that have waited for too long.
"""

import logging
import select
import socket
import sys
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import Any, Final
from wsgiref.types import WSGIApplication

from lakebed.server.connections.answers import Answer, refusal
from lakebed.server.connections.connection import BrokenOff, Connection, Stage
from lakebed.server.connections.dealing import Dealer
from lakebed.server.connections.heads import BadHead, Head, HeadReader
from lakebed.server.connections.request_bodies import (
    BodyOfLength,
    ChunkedBody,
    RequestBody,
    Stalled,
)
from lakebed.server.connections.tls import Tls
from lakebed.server.connections.turns import Turns
from lakebed.server.http import refusals
from lakebed.server.http.refusals import Refusal
from lakebed.server.settings import ServerSettings

IDLE_SECONDS: Final = 75.0
"""How long a connection is kept without a request."""
LINGER_SECONDS: Final = 5.0
"""How long a client may go on to send when its request was answered before that."""
LINGER_BYTES: Final = 64 << 20
"""How much a client may go on to send."""
HELD_BYTES_MAX: Final = 256 << 20
"""How much memory a worker keeps for answers that are not taken and requests that do not end."""
_LARGE_BYTES: Final = 1 << 20
_CONNECTIONS_MAX: Final = 10_000
_OTHER_FILES: Final = 200
"""Files that a worker has open beside its connections."""
_BACKLOG: Final = 1024
_ACCEPT_AT_ONCE: Final = 64
_ROOM: Final = 64
"""How many idle connections are closed when there are too many."""
_LEAST_MISSED: Final = (frozenset({Stage.IDLE}), frozenset({Stage.HEAD, Stage.LINGERING}))
_FIND_AT_ONCE: Final = 32
_LOOKS_A_STALL: Final = 8
_LOOK_SECONDS_MAX: Final = 1.0
_DROP_BYTES: Final = 1 << 18

_ONCE: Final = select.EPOLLONESHOT
_EVENTS: Final = {
    Stage.IDLE: select.EPOLLIN | _ONCE,
    Stage.HEAD: select.EPOLLIN | _ONCE,
    # As soon as the client takes what was sent before; and behind connections that are ready too.
    Stage.READY: select.EPOLLOUT | _ONCE,
    Stage.SENDING: select.EPOLLOUT | _ONCE,
    Stage.LINGERING: select.EPOLLIN | _ONCE,
}

_FAILED: Final = BadHead(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the log says more")
_LOGGER: Final = logging.getLogger(__name__)


class ConnectionServer:
    """Serves an application at an address."""

    def __init__(
        self,
        app: WSGIApplication,
        settings: ServerSettings,
        address: str,
        *,
        files_max: int = _CONNECTIONS_MAX + _OTHER_FILES,
        dealer: Dealer | None = None,
        processor: int | None = None,
    ) -> None:
        """Open the port; connections are taken in by `run`.

        Args:
            app: The application.
            settings: Checked ones.
            address: The numeric address to listen at.
            files_max: How many files this process may open.
            dealer: Deals connections out, if there are other workers.
            processor: The one that answers requests; None: any.

        Raises:
            OSError: The port cannot be opened, or the certificate cannot be read.
        """
        self._app = app
        self._limits = settings.limits
        self._shutdown_seconds = settings.processes.shutdown_seconds
        self._connections_max = max(1, min(_CONNECTIONS_MAX, files_max - _OTHER_FILES))
        self._environ = _common_environ(settings)
        self._tls = Tls.of(settings.listen)
        self._listener = _listen(address, settings.listen.port)
        self._dealer = dealer
        sources: list[socket.socket | Dealer] = [self._listener]
        if dealer is not None:
            sources.append(dealer)
        self._sources = {each.fileno(): each for each in sources}
        """Where connections come from, by handle."""
        self._poll = select.epoll()
        for handle in self._sources:
            self._poll.register(handle, select.EPOLLIN | _ONCE)
        self._connections: set[Connection] = set()
        self._waiting: dict[int, Connection] = {}
        """Those that no thread holds, by their handles; the one that waits longest is first."""
        self._found: deque[int] = deque()
        """Handles with events that nobody has looked at yet."""
        self._turns = Turns(
            self._find_event, self._handle, most=settings.limits.threads, processor=processor
        )
        self._is_full = False
        self._stops, self._tells_to_stop = socket.socketpair()
        self._is_stopping = False

    def run(self) -> None:
        """Serve until `stop` is called and the requests under way are finished, for a while."""
        self._turns.start()
        threading.Thread(target=self._look_again, name="lakebed-looks", daemon=True).start()
        self._stops.recv(1)
        self._begin_to_stop()
        until = time.monotonic() + self._shutdown_seconds
        while self._has_work() and time.monotonic() < until:
            time.sleep(0.02)

    def _begin_to_stop(self) -> None:
        """Take no more connections in, and close those that want nothing."""
        self._is_stopping = True
        if self._dealer is not None:
            self._dealer.leave()
        # What came before the end is served: the system would reset it.
        sources, self._sources = list(self._sources.values()), {}  # handles may be used again
        for source in sources:
            for _ in range(_BACKLOG // _ACCEPT_AT_ONCE):
                self._accept(source)
            source.close()
        for connection in list(self._waiting.values()):
            if connection.stage is Stage.IDLE and not connection.has_something:
                self._take_and_close(connection)

    def _has_work(self) -> bool:
        """Whether a client has not got its answer yet."""
        answered = [each for each in list(self._waiting.values()) if each.stage is Stage.LINGERING]
        return len(self._connections) > len(answered)

    def stop(self, *_signal: object) -> None:
        """Tell the server to stop; also a handler of signals."""
        self._tells_to_stop.send(b"x")

    def _find_event(self) -> int:
        """Return the handle of something that has an event."""
        while True:
            try:
                return self._found.popleft()
            except IndexError:
                self._found.extend(handle for handle, _ in self._poll.poll(None, _FIND_AT_ONCE))

    def _handle(self, handle: int) -> None:
        """Do what an event asks for; whatever fails, the thread goes on."""
        source = self._sources.get(handle)
        if source is not None:
            self._accept(source)
            return
        connection = self._waiting.pop(handle, None)
        if connection is None:  # it was closed just now
            return
        try:
            self._go_on(connection)
        except (OSError, Stalled, BrokenOff):  # the client is gone, or has to see this
            self._close(connection)
        except BaseException:  # some libraries raise others than `Exception`
            _LOGGER.exception("a connection failed")
            self._close(connection)

    # Connections

    def _accept(self, source: socket.socket | Dealer) -> None:
        """Take in what waits at a source, or give it to another worker."""
        try:
            for _ in range(_ACCEPT_AT_ONCE):
                with suppress(ConnectionError):
                    connected, address = source.accept()
                    if source is not self._listener or not self._gives(connected):
                        self._take_in(connected, address)
        except BlockingIOError:
            pass
        except (OSError, MemoryError) as error:
            if not self._is_stopping:
                _LOGGER.warning("cannot take a connection: %s", error)
                self._is_full = True  # the next look goes on
                self._make_room()
            return
        self._listen_again(source)

    def _gives(self, connected: socket.socket) -> bool:
        """Whether a connection that was accepted is another worker's now."""
        return self._dealer is not None and not self._is_stopping and self._dealer.give(connected)

    def _listen_again(self, source: socket.socket | Dealer) -> None:
        with suppress(ValueError, OSError):  # it is closed: the server stops
            self._poll.modify(source.fileno(), select.EPOLLIN | _ONCE)

    def _take_in(self, connected: socket.socket, address: tuple[Any, ...]) -> None:
        host, port = address[:2]
        if len(self._connections) >= self._connections_max and not self._make_room():
            refusals.count(Refusal.OVERLOADED, "there are too many connections", client=host)
            connected.close()
            return
        connected.setblocking(False)
        if self._tls is not None:
            try:
                connected = self._tls.wrap(connected)
            except (OSError, ValueError):  # the client is gone, or did not wait for the handshake
                connected.close()
                return
        environ = {**self._environ, "REMOTE_ADDR": host, "REMOTE_PORT": str(port)}
        try:
            connection = Connection(connected, environ, stall_seconds=self._limits.stall_seconds)
        except BaseException:
            connected.close()
            raise
        self._connections.add(connection)
        try:
            # Without events first: a thread that got a late one of an earlier connection with this
            # handle may take this one as soon as it waits, and turns its events on itself.
            self._poll.register(connection.handle, _ONCE)
            self._wait_at(connection, Stage.IDLE, IDLE_SECONDS)
        except OSError:
            self._close(connection)
            raise

    def _make_room(self) -> int:
        """Close those that were idle for longest, or else are slowest; return how many."""
        for stages in _LEAST_MISSED:
            waiting = [each for each in list(self._waiting.values()) if each.stage in stages]
            silent = (each for each in waiting if not each.has_something)
            if closed := sum(map(self._take_and_close, islice(silent, _ROOM))):
                return closed
        return 0

    def _wait_at(self, connection: Connection, stage: Stage, seconds: float) -> None:
        """Let a connection wait for its client; this thread holds it no more."""
        connection.stage = stage
        connection.deadline = time.monotonic() + seconds
        self._waiting[connection.handle] = connection
        # What TLS has decrypted already makes no event.
        event = Stage.READY if self._tls is not None and connection.has_decrypted else stage
        self._poll.modify(connection.handle, _EVENTS[event])
        if self._is_stopping and stage is Stage.IDLE and not connection.has_something:
            self._take_and_close(connection)

    def _take_and_close(self, connection: Connection) -> bool:
        """Close a connection that waits; return whether it did wait."""
        is_taken = self._take(connection)
        if is_taken:
            self._close(connection)
        return is_taken

    def _take(self, connection: Connection) -> bool:
        """Take a connection that waits, for this thread to hold; return whether it did wait."""
        taken = self._waiting.pop(connection.handle, None)
        if taken is not None and taken is not connection:
            # That one was closed, and a new one got its handle.
            self._let_wait_on(taken)
            return False
        return taken is not None

    def _let_wait_on(self, connection: Connection) -> None:
        """Put back a connection that was taken for nothing; an event may have found it gone."""
        try:
            self._wait_at(connection, connection.stage, connection.deadline - time.monotonic())
        except OSError:
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        connection.socket.close()

    def _look_again(self) -> None:
        shortest = min(self._limits.stall_seconds, self._limits.header_seconds)
        pause = min(_LOOK_SECONDS_MAX, shortest / _LOOKS_A_STALL)
        while True:
            time.sleep(pause)
            try:
                self._look()
            except Exception:
                _LOGGER.exception("cannot look for connections that have waited for too long")

    def _look(self) -> None:
        """Close the connections that have waited for too long."""
        now = time.monotonic()
        for connection in list(self._waiting.values()):
            if connection.deadline > now or not self._take(connection):
                continue
            if connection.deadline > now:  # it was served meanwhile, and waits for something new
                self._let_wait_on(connection)
                continue
            try:
                self._end_wait(connection)
            except OSError:
                self._close(connection)
        self._bound_memory()
        if self._tls is not None:
            self._tls.renew()
        if self._is_full and not self._is_stopping:
            self._is_full = False
            for source in list(self._sources.values()):
                self._listen_again(source)

    def _end_wait(self, connection: Connection) -> None:
        """Close a connection that has waited for too long, unless its client takes an answer."""
        is_sending = connection.stage in {Stage.SENDING, Stage.READY}
        if is_sending and connection.has_taken_some():
            self._wait_at(connection, connection.stage, self._limits.stall_seconds)
            return
        if connection.stage is not Stage.LINGERING and connection.count_untaken():
            connection.cut()
        self._close(connection)

    def _bound_memory(self) -> None:
        """Close connections that wait if all together hold too much memory.

        Those of the address that holds most go first, and of these the one that waits longest.
        """
        waiting = list(self._waiting.values())
        over = sum(each.bytes_held for each in waiting) - HELD_BYTES_MAX
        if over <= 0:
            return
        held: Counter[str] = Counter()
        for each in waiting:
            held[each.peer] += each.bytes_held
        for each in sorted(waiting, key=lambda each: -held[each.peer]):
            size = each.bytes_held
            if over > 0 and size and self._take(each):
                over -= size
                each.reset_at_close()
                self._close(each)
                refusals.count(
                    Refusal.OVERLOADED,
                    "cut off a client: too much is kept for those that do not take their answers"
                    " or do not end their requests",
                    client=each.peer,
                )

    # Requests

    def _go_on(self, connection: Connection) -> None:
        if connection.stage is Stage.SENDING:
            self._send_rest(connection)
        elif connection.stage is Stage.LINGERING:
            self._drop(connection)
        elif connection.stage is Stage.READY:
            data, connection.buffer = connection.buffer, b""
            self._read_head(connection, data)
        else:
            received = connection.receive_now()
            if received:
                self._read_head(connection, received)
            elif received is None:
                left = connection.deadline - time.monotonic()
                self._wait_at(connection, connection.stage, left)
            else:
                self._close(connection)

    def _read_head(self, connection: Connection, data: bytes) -> None:
        reader = connection.reader
        if reader is None:
            environ = connection.environ.copy()
            reader = connection.reader = HeadReader(environ, self._limits.header_bytes_max)
            connection.head_until = time.monotonic() + self._limits.header_seconds
        try:
            rest = reader.feed(data)
            if rest is None:
                left = connection.head_until - time.monotonic()
                self._wait_at(connection, Stage.HEAD, left)
                return
            head = reader.finish()
        except BadHead as error:
            connection.keeps_alive = connection.is_read = False
            connection.reader = None
            connection.unsent = memoryview(refusal(error))
            self._send_rest(connection)
            return
        connection.reader = None
        self._answer(connection, head, rest)

    def _answer(self, connection: Connection, head: Head, rest: bytes) -> None:
        body = _body_of(connection, head, rest)
        head.environ["wsgi.input"] = body
        answer = Answer(head.method, is_old=head.is_old)
        chunks = self._app(head.environ, answer.start)
        try:
            connection.is_read = body.is_at_end
            connection.keeps_alive = head.keeps_alive and body.is_at_end and not self._is_stopping
            pieces = chunks if answer.has_body and isinstance(chunks, list) else []
            is_streamed = answer.has_body and not isinstance(chunks, list)
            length = None if is_streamed else sum(map(len, pieces))
            first = _head_of(connection, answer, length)
            if first is None:
                connection.keeps_alive = False
                connection.unsent = memoryview(refusal(_FAILED))
            elif is_streamed:
                connection.stream(first, chunks)
            else:
                connection.unsent = memoryview(b"".join([first, *pieces]))
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        connection.buffer = body.buffer
        self._send_rest(connection)

    def _send_rest(self, connection: Connection) -> None:
        """Send what is left of an answer that is finished; then wait for the next request."""
        if not connection.send_now():
            connection.note_untaken()
            is_large = connection.bytes_held > _LARGE_BYTES
            self._wait_at(connection, Stage.SENDING, self._limits.stall_seconds)
            if is_large:  # many of these could come before the next look
                self._bound_memory()
        elif not connection.keeps_alive:
            self._end(connection)
        elif connection.buffer:
            connection.note_untaken()
            self._wait_at(connection, Stage.READY, self._limits.stall_seconds)
        else:
            self._wait_at(connection, Stage.IDLE, IDLE_SECONDS)

    def _end(self, connection: Connection) -> None:
        """Close a connection; if there is something of the client's that was not read, not yet."""
        if connection.is_read and not connection.buffer:
            self._close(connection)
            return
        connection.socket.shutdown(socket.SHUT_WR)
        self._wait_at(connection, Stage.LINGERING, LINGER_SECONDS)

    def _drop(self, connection: Connection) -> None:
        received = connection.receive_now(_DROP_BYTES)
        if received is not None:
            connection.dropped += len(received)
            if not received or connection.dropped > LINGER_BYTES:
                self._close(connection)
                return
        left = connection.deadline - time.monotonic()
        self._wait_at(connection, Stage.LINGERING, left)


def _body_of(connection: Connection, head: Head, rest: bytes) -> RequestBody:
    if head.length is None:
        return ChunkedBody(connection, rest, expects_continue=head.expects_continue)
    return BodyOfLength(connection, rest, head.length, expects_continue=head.expects_continue)


def _head_of(connection: Connection, answer: Answer, length: int | None) -> bytes | None:
    """Return the head of an answer; None if it cannot be sent, because of a header for example."""
    try:
        return answer.head(length=length, keeps_alive=connection.keeps_alive)
    except ValueError:
        _LOGGER.exception("the application gave an answer that cannot be sent")
        return None


def _listen(address: str, port: int) -> socket.socket:
    """Open the port, which other workers may have open too."""
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Connections take this over: an answer goes out at once.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((address, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _common_environ(settings: ServerSettings) -> dict[str, Any]:
    """Return what is in the environment of every request; nothing of that of the process."""
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": settings.listen.host,
        "SERVER_PORT": str(settings.listen.port),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": settings.listen.scheme,
        "wsgi.errors": sys.stderr,
        "wsgi.input_terminated": True,
        "wsgi.multithread": True,
        "wsgi.multiprocess": settings.workers > 1,
        "wsgi.run_once": False,
    }
