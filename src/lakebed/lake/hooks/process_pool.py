"""Limit of the child processes of hooks: Lua scripts and commands of one server process.

A script waiting in `create_tag` for the tag's hooks occupies its process. To prevent deadlock,
nested hooks do not share processes with the hooks waiting for them: each nesting depth has a
process of its own.
"""

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed

PROCESSES_MAX: Final = 4
"""Maximum number of processes, besides nested ones."""
PER_USER_MAX: Final = 3
"""Maximum number of these per user: scripts of one user cannot block all."""
WAIT_SECONDS_MAX: Final = 60.0
"""How long a hook waits for a process if an operation waits for the hook."""

_LOGGER: Final = logging.getLogger(__name__)


class ProcessPool:
    """Counts the processes of hooks. Each server process has one instance, used by all threads."""

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
