"""The HTTP server of a worker: takes connections in, and serves them in threads.

All workers of a server share one listening socket, whose queue holds the connections that no worker
has accepted. So a worker that hangs or dies has no queue of its own, and the others take what
comes. The system wakes one worker for a connection, the first in line of those that wait
(EPOLLEXCLUSIVE). A worker accepts one connection and goes to the end of the line; one that has two
connections more than another does so after `PAUSE_SECONDS`, or it would take many that come at once
before the others run. A worker that is woken and dies before it accepts leaves the connection in
the queue, and no other is woken for it: so each worker looks into the queue once in `LOOK_SECONDS`.

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
from collections.abc import Callable, MutableSequence
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import Any, Final
from wsgiref.types import WSGIApplication

from lakebed.server.connections.answers import Answer, refusal
from lakebed.server.connections.connection import BrokenOff, Connection, Stage
from lakebed.server.connections.heads import BadHead, Head, HeadReader
from lakebed.server.connections.listening import BACKLOG
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
_ROOM: Final = 64
"""How many idle connections are closed when there are too many."""
PAUSE_SECONDS: Final = 0.001
"""How long a worker with more connections than others leaves new ones to them."""
_LEAD_MAX: Final = 1
"""How many connections a worker may have more than another without a pause."""
_LEAST_MISSED: Final = (frozenset({Stage.IDLE}), frozenset({Stage.HEAD, Stage.LINGERING}))
_FIND_AT_ONCE: Final = 32
_LOOKS_A_STALL: Final = 8
LOOK_SECONDS: Final = 1.0
"""How often a worker looks into the queue of connections, and shows that it serves; at least, how
often it looks for connections that have waited for too long."""
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
    """Serves an application at a listening socket."""

    def __init__(
        self,
        app: WSGIApplication,
        settings: ServerSettings,
        listener: socket.socket,
        *,
        files_max: int = _CONNECTIONS_MAX + _OTHER_FILES,
        number: int = 0,
        counts: MutableSequence[int] | None = None,
        beat: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare; connections are taken in by `run`.

        Args:
            app: The application.
            settings: Checked ones.
            listener: A listening socket that does not block; `run` closes it at its end.
            files_max: How many files this process may open.
            number: Which of the workers this is, from 0 on.
            counts: How many connections each worker has, in memory that all share.
            beat: Called at least about once in `LOOK_SECONDS` by the thread that waits for
                requests, or by the one that watches it if no thread is left to wait.

        Raises:
            OSError: The certificate cannot be read.
        """
        self._app = app
        self._limits = settings.limits
        self._shutdown_seconds = settings.processes.shutdown_seconds
        self._connections_max = max(1, min(_CONNECTIONS_MAX, files_max - _OTHER_FILES))
        self._environ = _common_environ(settings)
        self._tls = Tls.of(settings.listen)
        self._listener = listener
        self._port = listener.fileno()
        """The handle of the listening socket; -1 once it is closed."""
        self._lining_up = threading.Lock()
        self._poll = select.epoll()
        self._line_up()
        self._beat = beat
        self._looks_from = 0.0
        self._connections: set[Connection] = set()
        self._number = number
        self._counts = [0] if counts is None else counts
        self._counts[number] = 0  # an earlier worker of this number may have been killed
        self._waiting: dict[int, Connection] = {}
        """Those that no thread holds, by their handles; the one that waits longest is first."""
        self._found: deque[int] = deque()
        """Handles with events that nobody has looked at yet."""
        most = settings.limits.threads
        self._turns = Turns(self._find_event, self._handle, most=most, beat=beat)
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
        # What came before the end is served: the system would reset it.
        for _ in range(BACKLOG):
            if not self._take_next():
                break
        with self._lining_up:
            self._port = -1  # the handle may be used again
            self._listener.close()
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
                now = time.monotonic()
                if now < self._looks_from:
                    events = self._poll.poll(self._looks_from - now, _FIND_AT_ONCE)
                    self._found.extend(handle for handle, _ in events)
                else:
                    self._looks_from = now + LOOK_SECONDS
                    self._beat()
                    self._found.append(self._port)

    def _handle(self, handle: int) -> None:
        """Do what an event asks for; whatever fails, the thread goes on."""
        if handle == self._port:
            self._accept()
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

    def _accept(self) -> None:
        """Take in the next connection, and go to the end of the line of workers that wait."""
        if self._port < 0:
            return
        with suppress(OSError, ValueError):  # another thread of this worker has done it
            self._poll.unregister(self._port)
        try:
            is_taken = self._take_next()
        except (OSError, MemoryError) as error:
            # In the line no more until the next look: the other workers may have room.
            _LOGGER.warning("cannot take a connection: %s", error)
            self._make_room()
            return
        if is_taken and len(self._connections) > min(self._counts) + _LEAD_MAX:
            self._looks_from = time.monotonic() + PAUSE_SECONDS
        else:
            self._line_up()

    def _take_next(self) -> bool:
        """Take in the next connection in the queue; return whether there was one."""
        try:
            connected, address = self._listener.accept()
        except BlockingIOError:
            return False
        except ConnectionError:  # the client is gone
            return True
        with suppress(ConnectionError):
            self._take_in(connected, address)
        return True

    def _line_up(self) -> None:
        """Wait for connections, behind the other workers that do."""
        with self._lining_up, suppress(OSError):  # another thread of this worker has done it
            if self._port >= 0:
                self._poll.register(self._port, select.EPOLLIN | select.EPOLLEXCLUSIVE)

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
            connection = Connection(
                connected,
                environ,
                stall_seconds=self._limits.stall_seconds,
                rate_min=self._limits.body_bytes_per_second,
            )
        except BaseException:
            connected.close()
            raise
        self._connections.add(connection)
        self._counts[self._number] = len(self._connections)
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
        self._counts[self._number] = len(self._connections)
        connection.socket.close()

    def _look_again(self) -> None:
        shortest = min(self._limits.stall_seconds, self._limits.header_seconds)
        pause = min(LOOK_SECONDS, shortest / _LOOKS_A_STALL)
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
