"""Child processes of hooks, killed at the deadline with all their descendants; and their limit."""

import logging
import os
import select
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self

from lakebed.base.runtime import Runtime
from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed

_CHUNK_BYTES: Final = 64 << 10


class Child:
    """A process in its own process group, connected by pipes.

    No call lasts beyond the deadline, whatever the process does: all waits on the pipes have
    timeouts, and raise `HookFailed` at the deadline. At the end of the ``with`` block the process
    group is killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        deadline: Deadline,
        with_errors: bool,
    ) -> None:
        """Start the process in the root directory, with `environment` as its whole environment.

        `with_errors` merges standard error into the output instead of discarding it. Raises
        `HookFailed` if the process could not be started.
        """
        self._deadline = deadline
        self._outgoing = bytearray()
        self._closes_input = False
        self._end: os.waitid_result | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the operator chose the program
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if with_errors else subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise HookFailed(f"{command[0]} cannot be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The process was not reaped before this, so its id and group id cannot have been reused.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._input.close()
        self._output.close()
        self._process.wait()

    @property
    def is_sending(self) -> bool:
        """Whether data passed to `send` is still unwritten."""
        return bool(self._outgoing)

    def send(self, data: bytes, *, is_last: bool = False) -> None:
        """Queue bytes, written while waiting for output; after the last ones, close the input."""
        self._outgoing += data
        self._closes_input = is_last

    def receive(self) -> bytes:
        """Return the next output, or empty bytes at its end."""
        while True:
            self._write()
            poller = select.poll()
            poller.register(self._output, select.POLLIN)
            if self._outgoing:
                poller.register(self._input, select.POLLOUT)
            ready = dict(poller.poll(self._deadline.check() * 1000))
            if self._output.fileno() in ready:
                return os.read(self._output.fileno(), _CHUNK_BYTES)
            # A descendant may keep the pipe open.
            if not ready and self._has_ended():
                return b""

    def wait(self) -> int:
        """Wait for the end; return the exit code, or the negative number of a signal."""
        pause = 0.001
        while not self._has_ended():
            self._deadline.sleep(pause)
            pause = min(2 * pause, 0.1)
        assert self._end is not None
        is_exit = self._end.si_code == os.CLD_EXITED
        return self._end.si_status if is_exit else -self._end.si_status

    def _write(self) -> None:
        if self._outgoing:
            try:
                sent = os.write(self._input.fileno(), self._outgoing[:_CHUNK_BYTES])
                del self._outgoing[:sent]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self._outgoing.clear()  # the process closed its input
        if self._closes_input and not self._outgoing and not self._input.closed:
            self._input.close()

    def _has_ended(self) -> bool:
        if self._end is None:
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            self._end = os.waitid(os.P_PID, self._process.pid, how)
        return self._end is not None


PROCESSES_MAX: Final = 4
"""Maximum number of processes, besides nested ones."""
PER_USER_MAX: Final = 3
"""Maximum number of these per user: scripts of one user cannot block all."""
WAIT_SECONDS_MAX: Final = 60.0
"""How long a hook waits for a process if an operation waits for the hook."""

_LOGGER: Final = logging.getLogger(__name__)


class ProcessPool:
    """Counts the processes of hooks: Lua scripts and commands of one server process.

    Each server process has one instance, used by all threads. A script waiting in `create_tag` for
    the tag's hooks occupies its process. To prevent deadlock, nested hooks do not share processes
    with the hooks waiting for them: each nesting depth has a process of its own.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()
        """Number of processes by user, without nested ones."""
        self._nested: set[int] = set()
        """Nesting depths that have a process."""

    @contextmanager
    def one(self, user: str, *, depth: int, deadline: Deadline, is_awaited: bool) -> Iterator[None]:
        """Wait for a free process, and count it as used within the block.

        `depth` is the nesting depth: the number of hooks whose operations led to the event. If an
        operation waits for the hook (`is_awaited`), the wait is limited to `WAIT_SECONDS_MAX`.

        Raises `HookFailed` if no process became free in time, or the deadline passed.
        """
        ends = self._runtime.monotonic() + WAIT_SECONDS_MAX
        with self._changed:
            while not self._may_run(user, depth):
                if is_awaited and self._runtime.monotonic() >= ends:
                    _LOGGER.warning("a hook of %s found no free process", user)
                    raise HookFailed(
                        f"the server runs the maximum number of scripts and commands of hooks"
                        f" ({PROCESSES_MAX}; {PER_USER_MAX} per user), and none ended within"
                        f" {WAIT_SECONDS_MAX:g} seconds: retry later"
                    )
                self._changed.wait(deadline.check())
            self._count(user, depth)
        try:
            yield
        finally:
            with self._changed:
                self._discount(user, depth)
                self._changed.notify_all()

    def _may_run(self, user: str, depth: int) -> bool:
        if depth:
            return depth not in self._nested
        return self._running.total() < PROCESSES_MAX and self._running[user] < PER_USER_MAX

    def _count(self, user: str, depth: int) -> None:
        if depth:
            self._nested.add(depth)
        else:
            self._running[user] += 1

    def _discount(self, user: str, depth: int) -> None:
        if depth:
            self._nested.remove(depth)
        else:
            self._running -= Counter([user])  # subtraction removes zero counts
