"""Group commit: concurrent writes of one process share a commit.

A durable commit waits for the disk of the database, whatever its size. Without a commit in
progress, a write commits at once, alone. Writes that arrive meanwhile queue up. When the commit
ends, the first write in the queue leads the next *batch*: its thread collects the writes behind it,
commits them, and sets their results. If the last batch had several writes, the leader waits for a
short window for more.

A slow commit does not delay all writes: with `batches_max` above one, a write waiting for
`LONG_SECONDS` starts another batch in parallel.

**No write is applied after its call has ended.** A call ends with a result, or by removing its
write from the queue, or before queueing it. A signal handler, such as that of Ctrl-C, raises only
in the main thread, but at any point. So the main thread never queues or leads: a helper thread acts
for it. An interrupted main thread withdraws its write; if the write is already queued, the main
thread waits for the result and then raises.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

from lakebed.base.runtime import about_to_wait
from lakebed.kv.errors import OutcomeUnknown, StoreClosed, StoreUnavailable

LONG_SECONDS: Final = 0.05
"""How long a write waits for the batch in progress before another batch may run in parallel."""
QUEUE_SECONDS: Final = 10.0
"""How long a write waits in the queue before it fails."""
_PAUSE_SECONDS: Final = 0.0005


class Write:
    """A write that may share a commit. Drivers add the statement and the result."""

    __slots__ = (
        *("_following", "_latch", "error", "has_waited", "is_answered", "is_queued"),
        *("is_withdrawn", "leads"),
    )

    def __init__(self) -> None:
        self.error: OutcomeUnknown | StoreClosed | None = None
        """The error of a failed write."""
        self.is_answered = False
        self.is_queued = False
        """Whether the write was ever in the queue."""
        self.is_withdrawn = False
        """Whether the write must not enter the queue."""
        self.has_waited = False
        """Whether the write has waited for `LONG_SECONDS`."""
        self.leads = False
        # The cheapest way to wait for another thread: a lock that the other thread releases.
        self._latch = threading.Lock()
        self._latch.acquire()
        self._following: Write | None = None

    def wait(self, seconds: float) -> bool:
        """Wait until the write is answered or leads; return False on timeout."""
        return self._latch.acquire(timeout=seconds)

    def wake(self) -> None:
        self._latch.release()

    def wake_following(self) -> None:
        """Wake the thread of the next answered write."""
        if self._following is not None:
            self._following.wake()

    def follow(self, following: "Write") -> None:
        """Let this write's thread wake another write's thread after its own wake-up."""
        self._following = following


WriteT = TypeVar("WriteT", bound=Write)


class Batch(Generic[WriteT]):
    """Writes that are committed together; the first of them leads."""

    def __init__(self, leader: WriteT, take: Callable[[WriteT], list[WriteT]]) -> None:
        self.writes = [leader]
        self._take = take

    def fill(self) -> list[WriteT]:
        """Collect the writes queued by now; return all writes of the batch."""
        self.writes = self._take(self.writes[0])
        return self.writes


class GroupCommit(Generic[WriteT]):
    """The queue in front of a database connection.

    Args:
        commit: Fills a batch when ready to write, commits it, and sets the result of each write, or
            its `error`. An error that it raises is the error of all writes.
        choose: Splits a leader and the queue into a batch, leader first, and the rest.
        window_seconds: How long a leader waits for more writes if the last batch had several.
        batches_max: Maximum number of batches in progress.
    """

    def __init__(
        self,
        commit: Callable[[Batch[WriteT]], None],
        choose: Callable[[WriteT, Sequence[WriteT]], tuple[list[WriteT], list[WriteT]]],
        *,
        window_seconds: float,
        batches_max: int = 1,
    ) -> None:
        self._commit = commit
        self._choose = choose
        self._window_seconds = window_seconds
        self._batches_max = batches_max
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._queue: list[WriteT] = []
        self._under_way = 0
        self._was_shared = False
        """Whether the last batch had several writes."""
        self._is_closed = False
        self._handed_over: SimpleQueue[tuple[WriteT, threading.Lock] | None] = SimpleQueue()
        # Start now, not with the first write, which Ctrl-C could interrupt. A daemon: a program
        # that does not close its store must be able to exit.
        self._helper = threading.Thread(target=self._help, name="lakebed-group-commit", daemon=True)
        self._helper.start()

    def run(self, write: WriteT) -> WriteT:
        """Run a write; return it after its commit.

        Raises:
            StoreUnavailable: The write was not applied.
            OutcomeUnknown: The write may have been applied, but will not be applied later.
            StoreClosed: The store was closed, or opened in another process.
        """
        if os.getpid() != self._process:
            # The leader stayed in the parent.
            raise StoreClosed("the store was opened in another process: open it again after a fork")
        if threading.get_ident() == threading.main_thread().ident:
            self._hand_over(write)
        else:
            self._run(write)
        if write.error is not None:
            raise write.error
        return write

    def close(self) -> bool:
        """Reject new writes and wait for the queued ones; return False in a forked child."""
        if os.getpid() != self._process:
            return False
        with self._lock:
            self._is_closed = True
            self._handed_over.put(None)  # nothing is handed over after this
            self._idle.wait_for(lambda: not self._under_way)
        self._helper.join()
        return True

    def _hand_over(self, write: WriteT) -> None:
        """Let the helper thread run a write of the main thread."""
        ended = threading.Lock()
        ended.acquire()
        try:
            about_to_wait()
            with self._lock:
                self._check_open()
                self._handed_over.put((write, ended))
            ended.acquire()
        except BaseException:  # Ctrl-C, or another signal handler that raises
            self._settle(write)
            raise

    def _settle(self, write: WriteT) -> None:
        """Withdraw a write, or wait for its result if it is queued.

        Further interrupts are ignored: the write must not be applied afterwards.
        """
        while True:
            try:
                with self._lock:
                    write.is_withdrawn = True
                while write.is_queued and not write.is_answered:
                    time.sleep(_PAUSE_SECONDS)
            except BaseException:  # noqa: BLE001, S112 - the first interrupt is raised
                continue
            return

    def _help(self) -> None:
        while (handed_over := self._handed_over.get()) is not None:
            write, ended = handed_over
            try:
                self._run(write)
            except (OutcomeUnknown, StoreClosed) as error:
                write.error = error
            ended.release()
            del handed_over, write  # free the value: it may be large

    def _run(self, write: WriteT) -> None:
        with self._lock:
            if write.is_withdrawn:
                return
            self._check_open()
            write.is_queued = True
            self._queue.append(write)
            if not self._under_way:
                self._under_way += 1
                self._choose_leader()
        about_to_wait()
        if not write.leads:
            self._wait(write)
        if write.leads:
            self._lead(write)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed

    def _choose_leader(self) -> WriteT:
        """Let the first write in the queue lead a batch; the lock must be held."""
        leader = self._queue.pop(0)
        leader.leads = True
        return leader

    def _wait(self, write: WriteT) -> None:
        """Return when a write is answered or leads."""
        if not write.wait(LONG_SECONDS):
            self._start_another_batch(write)
        while not (write.is_answered or write.leads):
            if not write.wait(QUEUE_SECONDS):
                self._leave_queue(write)
        write.wake_following()

    def _start_another_batch(self, write: WriteT) -> None:
        """Start another batch in parallel, if `batches_max` allows."""
        with self._lock:
            write.has_waited = True
            if not self._queue or self._under_way >= self._batches_max:
                return
            self._under_way += 1
            leader = self._choose_leader()
        leader.wake()

    def _leave_queue(self, write: WriteT) -> None:
        """Fail a write that is still in the queue.

        Raises:
            StoreUnavailable: The write was still in the queue.
        """
        with self._lock:
            if write in self._queue:
                self._queue.remove(write)
                write.is_answered = True
                raise StoreUnavailable(
                    f"the write waited longer than {QUEUE_SECONDS:g} seconds for earlier writes"
                )

    def _take(self, leader: WriteT) -> list[WriteT]:
        with self._lock:
            batch, self._queue = self._choose(leader, self._queue)
        return batch

    def _lead(self, leader: WriteT) -> None:
        """Commit a batch, release leadership, and answer the writes of the batch."""
        if self._was_shared:
            time.sleep(self._window_seconds)
        batch = Batch(leader, self._take)
        failure: OutcomeUnknown | None = None
        try:
            self._commit(batch)
        except OutcomeUnknown as error:
            failure = error
        except Exception as error:  # noqa: BLE001 - the other writes wait for a result
            failure = OutcomeUnknown(f"a commit failed: {error}")
            failure.__cause__ = error
        self._was_shared = len(batch.writes) > 1
        self._release()
        _answer(batch.writes, failure)

    def _release(self) -> None:
        """Start the next batch if a write is queued.

        In parallel to another batch, only after a wait of `LONG_SECONDS`.
        """
        with self._lock:
            if not self._queue or (self._under_way > 1 and not self._queue[0].has_waited):
                self._under_way -= 1
                self._idle.notify_all()
                return
            following = self._choose_leader()
        following.wake()


def _answer(batch: Sequence[Write], failure: OutcomeUnknown | None) -> None:
    """Mark the writes of a batch as answered, and wake the first waiting thread.

    Each thread wakes the next; waking all at once would make them contend for the interpreter. A
    thread may also wake by timeout, so its successor must be answered before: hence the reverse
    order.
    """
    asleep = batch[1:]
    for write, following in pairwise(asleep):
        write.follow(following)
    for write in reversed(batch):
        if failure is not None:
            write.error = copy_error(failure)
        write.is_answered = True
    if asleep:
        asleep[0].wake()


def copy_error(error: OutcomeUnknown) -> OutcomeUnknown:
    """Copy an error: two threads that raise the same exception would mix up its context."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
