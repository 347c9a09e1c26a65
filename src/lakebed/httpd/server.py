"""The server: accepts connections, and serves them with a leader/followers thread pool.

Several processes can share a listening socket and its queue of unaccepted connections. So a process
that hangs or dies has no queue of its own, and the others accept instead. A process with two
connections more than another process leaves new ones to it for `PAUSE_SECONDS`; otherwise it would
accept a whole burst before the other processes run.

The leader polls for all threads (see `leader`). A connection is in `_waiting` while no thread owns
it; the thread that removes it becomes the owner. Sockets stay registered at the selector while
owned, because most requests end before the next poll. If a poll reports an owned connection, the
leader unregisters it, and the owner registers it again. `_changing` guards both the selector and
`_waiting`, so a connection in `_waiting` is registered for the events of its stage.
"""

import logging
import selectors
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, MutableSequence
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import Final
from wsgiref.types import WSGIApplication

from lakebed.httpd.bodies import BodyOfLength, ChunkedBody, RequestBody, StallError
from lakebed.httpd.connection import (
    ClientConnection,
    ClientCut,
    Report,
    ResponseBrokenOffError,
    Stage,
)
from lakebed.httpd.heads import BadHeadError, Head, HeadReader
from lakebed.httpd.leader import LeaderPool
from lakebed.httpd.limits import HTTPLimits
from lakebed.httpd.listening import BACKLOG
from lakebed.httpd.responses import ResponseHead, refusal
from lakebed.httpd.tls import TLSContext

IDLE_SECONDS: Final = 75.0
"""Lifetime of an idle connection."""
LINGER_SECONDS: Final = 5.0
"""Time for a client to stop sending when its request was answered early."""
LINGER_BYTES: Final = 64 << 20
"""Bytes that such a client may still send."""
BUFFERED_BYTES_MAX: Final = 256 << 20
"""Memory for unsent responses and incomplete heads."""
_LARGE_BYTES: Final = 1 << 20
_CLOSED_AT_ONCE: Final = 64
"""Idle connections closed at once when the limit is reached."""
PAUSE_SECONDS: Final = 0.001
"""Time for which a process with more connections leaves new ones to others."""
_LEAD_MAX: Final = 1
"""Lead in connections over another process that needs no pause."""
_LEAST_MISSED: Final = (frozenset({Stage.IDLE}), frozenset({Stage.HEAD, Stage.LINGERING}))
_CHECKS_A_STALL: Final = 8
CHECK_SECONDS: Final = 1.0
"""Interval in which the leader calls `heartbeat` and accepts without an event, and maximum interval
of deadline checks."""
_DROP_BYTES: Final = 1 << 18
_WAKES_BYTES: Final = 1 << 12

_EVENTS: Final = {
    Stage.IDLE: selectors.EVENT_READ,
    Stage.HEAD: selectors.EVENT_READ,
    # Once earlier responses are sent, and after other ready connections.
    Stage.READY: selectors.EVENT_WRITE,
    Stage.SENDING: selectors.EVENT_WRITE,
    Stage.LINGERING: selectors.EVENT_READ,
}
_LIVE_SELECTORS: Final = ("EpollSelector", "KqueueSelector")
"""Selectors that notice sockets registered by another thread during a poll."""

_FAILED: Final = BadHeadError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the log")
_LOGGER: Final = logging.getLogger(__name__)


def _ignore(_kind: ClientCut, _reason: str, _client: str) -> None:
    """Report nothing."""


class WSGIServer:
    """Serves a WSGI application at a listening socket."""

    def __init__(
        self,
        app: WSGIApplication,
        listener: socket.socket,
        limits: HTTPLimits | None = None,
        *,
        tls: TLSContext | None = None,
        server_name: str | None = None,
        number: int = 0,
        counts: MutableSequence[int] | None = None,
        heartbeat: Callable[[], object] = lambda: None,
        report: Report = _ignore,
        begin_thread: Callable[[Callable[[], None]], object] = lambda _release: None,
        selector: Callable[[], selectors.BaseSelector] = selectors.DefaultSelector,
    ) -> None:
        """Prepare the server; `run` accepts connections.

        Args:
            app: The application.
            listener: A non-blocking listening socket; `run` closes it at its end.
            limits: Limits of this process.
            tls: The certificate, or None without TLS.
            server_name: ``SERVER_NAME`` of WSGI, if not the address of the listening socket.
            number: Number of this process among the processes that share the listening socket.
            counts: Number of connections of each of these processes, in shared memory.
            heartbeat: Called about once in `CHECK_SECONDS` or more often by the polling thread,
                or by the watcher if all threads are busy.
            report: Called for each client that is cut.
            begin_thread: Called in each serving thread with a function to call before waiting:
                another thread then becomes the leader.
            selector: Creates the selector.
        """
        self._app = app
        self._limits = limits or HTTPLimits()
        self._environ = _common_environ(
            listener, server_name, is_encrypted=tls is not None, processes=len(counts or (0,))
        )
        self._tls = tls
        self._listener = listener
        self._report = report
        self._heartbeat = heartbeat
        self._selector = selector()
        self._wakes: tuple[socket.socket, ...] = ()
        """Socket pair to interrupt a poll, if the selector does not notice new sockets."""
        if type(self._selector).__name__ not in _LIVE_SELECTORS:
            self._wakes = socket.socketpair()
            for each in self._wakes:
                each.setblocking(False)
            self._selector.register(self._wakes[0], selectors.EVENT_READ, self._wakes[0])
        self._changing = threading.Lock()
        self._polling = threading.Lock()
        self._is_listening = False
        self._is_closed = False
        self._listen(wanted=True)
        self._checks_from = 0.0
        self._connections: set[ClientConnection] = set()
        self._number = number
        self._counts = [0] if counts is None else counts
        self._counts[number] = 0  # an earlier process of this number may have been killed
        self._waiting: dict[ClientConnection, None] = {}
        """Connections without an owner, in order of their waiting time."""
        self._found: deque[ClientConnection | None] = deque()
        """Connections with unhandled events; None is the listening socket."""
        self._pool = LeaderPool(
            self._find_event,
            self._handle,
            threads_max=self._limits.threads,
            heartbeat=heartbeat,
            begin_thread=begin_thread,
        )
        self._stops, self._tells_to_stop = socket.socketpair()
        self._is_stopping = False

    def run(self) -> None:
        """Serve until `stop` is called and running requests have finished, or time is up."""
        self._pool.start()
        threading.Thread(target=self._check_forever, name="httpd-deadlines", daemon=True).start()
        self._stops.recv(1)
        self._begin_to_stop()
        until = time.monotonic() + self._limits.shutdown_seconds
        while self._has_work() and time.monotonic() < until:
            time.sleep(0.02)

    def stop(self, *_signal: object) -> None:
        """Stop the server; usable as a signal handler."""
        self._tells_to_stop.send(b"x")

    def _begin_to_stop(self) -> None:
        """Accept the queued connections, then close the listening socket and idle connections."""
        self._is_stopping = True
        # The system would reset them.
        for _ in range(BACKLOG):
            if not self._accept_next():
                break
        self._listen(wanted=False)
        self._is_closed = True
        self._listener.close()
        for connection in list(self._waiting):
            if connection.stage is Stage.IDLE and not connection.has_input:
                self._take_and_close(connection)

    def _has_work(self) -> bool:
        """Return whether a client still waits for its response."""
        answered = [each for each in list(self._waiting) if each.stage is Stage.LINGERING]
        return len(self._connections) > len(answered)

    # Events

    def _find_event(self) -> ClientConnection | None:
        """Return a connection with an event, or None for the listening socket."""
        while True:
            try:
                return self._found.popleft()
            except IndexError:
                self._poll()

    def _poll(self) -> None:
        """Wait for events, or until the next check is due."""
        with self._polling:  # a replaced leader may still be polling
            if self._found:
                return
            now = time.monotonic()
            if now >= self._checks_from:
                self._checks_from = now + CHECK_SECONDS
                self._heartbeat()
                self._found.append(None)
                return
            try:
                ready = self._selector.select(self._checks_from - now)
            except OSError:  # another thread closed a socket that `select` was about to wait for
                if not self._wakes:
                    raise
                return
            for key, _ in ready:
                if isinstance(key.data, socket.socket):
                    key.data.recv(_WAKES_BYTES)
                else:
                    self._found.append(key.data)

    def _handle(self, connection: ClientConnection | None) -> None:
        """Handle an event; the thread survives any failure."""
        if connection is None:
            self._accept()
            return
        with self._changing:
            if connection not in self._waiting:
                if connection.events:  # otherwise the event would be reported again and again
                    self._register(connection, 0)
                return
            del self._waiting[connection]
        try:
            self._go_on(connection)
        except (
            OSError,
            StallError,
            ResponseBrokenOffError,
        ):  # the client disconnected, or must see the end
            self._close(connection)
        except BaseException:  # some libraries raise others than `Exception`
            _LOGGER.exception("a connection failed")
            self._close(connection)

    def _register(self, connection: ClientConnection, events: int) -> None:
        """Register a connection for other events, or none; the caller holds `_changing`."""
        before, connection.events = connection.events, 0
        if not before:
            self._selector.register(connection.handle, events, connection)
        elif events:
            self._selector.modify(connection.handle, events, connection)
        else:
            self._selector.unregister(connection.handle)
        connection.events = events
        self._wake()

    def _listen(self, *, wanted: bool) -> None:
        """Wait for connections, or leave them to other processes."""
        with self._changing:
            if wanted == self._is_listening or self._is_closed:
                return
            if wanted:
                self._selector.register(self._listener, selectors.EVENT_READ)
            else:
                self._selector.unregister(self._listener)
            self._is_listening = wanted
            self._wake()

    def _wake(self) -> None:
        if self._wakes:
            with suppress(BlockingIOError):
                self._wakes[1].send(b"x")

    # Connections

    def _accept(self) -> None:
        """Accept the next connection; pause if other processes have fewer connections.

        Errors are only logged: the next check retries.
        """
        if self._is_closed:
            return
        try:
            is_taken = self._accept_next()
            leads = is_taken and len(self._connections) > min(self._counts) + _LEAD_MAX
            if leads:
                self._checks_from = time.monotonic() + PAUSE_SECONDS
            self._listen(wanted=not leads)
        except (OSError, MemoryError) as error:
            _LOGGER.warning("cannot accept a connection: %s", error)
            self._listen(wanted=False)  # the other processes may have room
            self._close_idlest()

    def _accept_next(self) -> bool:
        """Accept the next queued connection; return whether the queue had one."""
        try:
            connected, address = self._listener.accept()
        except BlockingIOError:
            return False
        except ConnectionError:  # the client disconnected
            return True
        with suppress(ConnectionError):
            self._add_connection(connected, *address[:2])
        return True

    def _add_connection(self, connected: socket.socket, host: str, port: int) -> None:
        if len(self._connections) >= self._limits.connections and not self._close_idlest():
            self._report(ClientCut.OVERLOADED, "too many connections", host)
            connected.close()
            return
        connected.setblocking(False)
        if self._tls is not None:
            try:
                connected = self._tls.wrap(connected)
            except (OSError, ValueError):  # disconnected, or no handshake
                connected.close()
                return
        environ = {**self._environ, "REMOTE_ADDR": host, "REMOTE_PORT": str(port)}
        try:
            connection = ClientConnection(
                connected,
                environ,
                self._limits,
                report=self._report,
                release=self._pool.release,
            )
        except BaseException:
            connected.close()
            raise
        self._connections.add(connection)
        self._counts[self._number] = len(self._connections)
        try:
            self._wait_at(connection, Stage.IDLE, IDLE_SECONDS)
        except OSError:
            self._close(connection)
            raise

    def _close_idlest(self) -> int:
        """Close the longest idle connections, or else the slowest; return their number."""
        for stages in _LEAST_MISSED:
            waiting = [each for each in list(self._waiting) if each.stage in stages]
            silent = (each for each in waiting if not each.has_input)
            if closed := sum(map(self._take_and_close, islice(silent, _CLOSED_AT_ONCE))):
                return closed
        return 0

    def _wait_at(self, connection: ClientConnection, stage: Stage, seconds: float) -> None:
        """Let a connection wait for its client; this thread no longer owns it."""
        connection.stage = stage
        connection.deadline = time.monotonic() + seconds
        # The selector does not report bytes that TLS has already decrypted.
        is_ready = self._tls is not None and connection.has_decrypted
        events = _EVENTS[Stage.READY if is_ready else stage]
        with self._changing:
            if connection.events != events:
                self._register(connection, events)
            self._waiting[connection] = None
        if self._is_stopping and stage is Stage.IDLE and not connection.has_input:
            self._take_and_close(connection)

    def _take_and_close(self, connection: ClientConnection) -> bool:
        """Close a connection if it is waiting; return whether it was."""
        is_taken = self._take(connection)
        if is_taken:
            self._close(connection)
        return is_taken

    def _take(self, connection: ClientConnection) -> bool:
        """Become the owner of a connection if it is waiting; return whether it was."""
        with self._changing:
            waits = connection in self._waiting
            if waits:
                del self._waiting[connection]
        return waits

    def _close(self, connection: ClientConnection) -> None:
        with self._changing:
            if connection.events:
                self._register(connection, 0)
            self._connections.discard(connection)
            self._counts[self._number] = len(self._connections)
        connection.socket.close()

    def _check_forever(self) -> None:
        shortest = min(self._limits.stall_seconds, self._limits.head_seconds)
        pause = min(CHECK_SECONDS, shortest / _CHECKS_A_STALL)
        while True:
            time.sleep(pause)
            try:
                self._check_deadlines()
            except Exception:
                _LOGGER.exception("cannot check the deadlines of connections")

    def _check_deadlines(self) -> None:
        """Close the connections past their deadline."""
        now = time.monotonic()
        for connection in list(self._waiting):
            if connection.deadline > now or not self._take(connection):
                continue
            try:
                if connection.deadline > now:  # served meanwhile, and waiting again
                    left = connection.deadline - time.monotonic()
                    self._wait_at(connection, connection.stage, left)
                else:
                    self._end_wait(connection)
            except OSError:
                self._close(connection)
        self._bound_memory()
        if self._tls is not None:
            self._tls.renew()

    def _end_wait(self, connection: ClientConnection) -> None:
        """Close a connection past its deadline, unless its client accepts a response."""
        is_sending = connection.stage in {Stage.SENDING, Stage.READY}
        if is_sending and connection.has_acked_some():
            self._wait_at(connection, connection.stage, self._limits.stall_seconds)
            return
        if connection.stage is not Stage.LINGERING and connection.count_unacked():
            connection.cut()
        self._close(connection)

    def _bound_memory(self) -> None:
        """Close waiting connections if they use too much memory in total.

        Connections of the address that uses most memory go first, the longest waiting before
        others.
        """
        waiting = list(self._waiting)
        over = sum(each.buffered_bytes for each in waiting) - BUFFERED_BYTES_MAX
        if over <= 0:
            return
        used: Counter[str] = Counter()
        for each in waiting:
            used[each.peer] += each.buffered_bytes
        for each in sorted(waiting, key=lambda each: -used[each.peer]):
            size = each.buffered_bytes
            if over > 0 and size and self._take(each):
                over -= size
                each.reset_at_close()
                self._close(each)
                self._report(
                    ClientCut.OVERLOADED,
                    "client cut: too much memory for unread responses and incomplete requests",
                    each.peer,
                )

    # Requests

    def _go_on(self, connection: ClientConnection) -> None:
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

    def _read_head(self, connection: ClientConnection, data: bytes) -> None:
        reader = connection.reader
        if reader is None:
            environ = connection.environ.copy()
            reader = connection.reader = HeadReader(environ, self._limits.head_bytes)
            connection.head_until = time.monotonic() + self._limits.head_seconds
        try:
            rest = reader.feed(data)
            if rest is None:
                left = connection.head_until - time.monotonic()
                self._wait_at(connection, Stage.HEAD, left)
                return
            head = reader.finish()
        except BadHeadError as error:
            connection.keeps_alive = connection.is_read = False
            connection.reader = None
            connection.unsent = memoryview(refusal(error))
            self._send_rest(connection)
            return
        connection.reader = None
        self._respond(connection, head, rest)

    def _respond(self, connection: ClientConnection, head: Head, rest: bytes) -> None:
        body = _body_of(connection, head, rest)
        head.environ["wsgi.input"] = body
        response = ResponseHead(head.method, is_old=head.is_old)
        chunks = self._app(head.environ, response.start)
        try:
            connection.is_read = body.is_at_end
            connection.keeps_alive = head.keeps_alive and body.is_at_end and not self._is_stopping
            pieces = chunks if response.has_body and isinstance(chunks, list) else []
            is_streamed = response.has_body and not isinstance(chunks, list)
            length = None if is_streamed else sum(map(len, pieces))
            first = _encode(connection, response, length)
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

    def _send_rest(self, connection: ClientConnection) -> None:
        """Send the rest of a finished response; then wait for the next request."""
        if not connection.send_now():
            connection.note_unacked()
            is_large = connection.buffered_bytes > _LARGE_BYTES
            self._wait_at(connection, Stage.SENDING, self._limits.stall_seconds)
            if is_large:  # many large responses could precede the next check
                self._bound_memory()
        elif not connection.keeps_alive:
            self._end(connection)
        elif connection.buffer:
            connection.note_unacked()
            self._wait_at(connection, Stage.READY, self._limits.stall_seconds)
        else:
            self._wait_at(connection, Stage.IDLE, IDLE_SECONDS)

    def _end(self, connection: ClientConnection) -> None:
        """Close a connection, lingering if the client may still send unread bytes."""
        if connection.is_read and not connection.buffer:
            self._close(connection)
            return
        connection.socket.shutdown(socket.SHUT_WR)
        self._wait_at(connection, Stage.LINGERING, LINGER_SECONDS)

    def _drop(self, connection: ClientConnection) -> None:
        received = connection.receive_now(_DROP_BYTES)
        if received is not None:
            connection.dropped += len(received)
            if not received or connection.dropped > LINGER_BYTES:
                self._close(connection)
                return
        left = connection.deadline - time.monotonic()
        self._wait_at(connection, Stage.LINGERING, left)


def _body_of(connection: ClientConnection, head: Head, rest: bytes) -> RequestBody:
    if head.length is None:
        return ChunkedBody(connection, rest, expects_continue=head.expects_continue)
    return BodyOfLength(connection, rest, head.length, expects_continue=head.expects_continue)


def _encode(
    connection: ClientConnection, response: ResponseHead, length: int | None
) -> bytes | None:
    """Return the head of a response, or None if it is invalid, for example a header."""
    try:
        return response.encode(length=length, keeps_alive=connection.keeps_alive)
    except ValueError:
        _LOGGER.exception("the application returned an invalid response")
        return None


def _common_environ(
    listener: socket.socket, server_name: str | None, *, is_encrypted: bool, processes: int
) -> dict[str, object]:
    """Return the environment common to all requests."""
    host, port = listener.getsockname()[:2]
    return {
        "SCRIPT_NAME": "",
        "SERVER_NAME": server_name or host,
        "SERVER_PORT": str(port),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if is_encrypted else "http",
        "wsgi.errors": sys.stderr,
        "wsgi.input_terminated": True,
        "wsgi.multithread": True,
        "wsgi.multiprocess": processes > 1,
        "wsgi.run_once": False,
    }
