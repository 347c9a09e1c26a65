"""Group commit: writes of one process that come at the same time share a statement.

A statement that commits costs the database a wait for its disk, and both sides the most of what a
write costs, however little it carries. So a writer that finds another under way waits until that
one has ended, and then one writes for all who wait: the *leader* of a batch. If the last batch had
several writes, it waits a little for more. A writer that finds nobody goes at once, alone. One that
has waited for long goes as well: whatever holds up a batch, as a lock or a lost connection can,
does not hold up all others.

A batch is one statement, so it is applied whole or not at all, and what becomes of it is settled as
for any other (see `lakebed.kv.drivers.postgresql`): before its leader answers the others. Nobody
leaves while a batch holds its write, not even by Ctrl-C: the write might be applied afterwards.

A statement cannot write a key twice, so of several writes of a key each goes into another batch.

A write may name places to read behind it. Those of a batch are read together, once its statement is
committed.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lakebed.kv.errors import OutcomeUnknown, StoreUnavailable
from lakebed.kv.store import Item, Version
from lakebed.runtime import about_to_wait

AT_ONCE: Final = 2
"""How many batches may be under way; the second begins only if the first takes long."""
LONG_SECONDS: Final = 0.05
"""How long a write waits for the batch under way before another one may begin."""
BATCH_WRITES: Final = 64
BATCHED_BYTES: Final = 16 << 10
"""Values larger than this are written alone."""
QUEUE_SECONDS: Final = 10.0
"""How long a write waits until a batch takes it."""
_PAUSE_SECONDS: Final = 0.001
_COMPANY_SECONDS: Final = 0.0003
"""How long a leader waits for more, if others wrote in the last batch too."""


Place = tuple[bytes, bytes]
"""A partition and a key."""


class Write:
    """A value for a key, and what became of it.

    Args:
        partition: Where it goes.
        key: Its key.
        value: What is written.
        version: The mark of this write.
        predicate: The version that it replaces, if it replaces a certain one.
        places: What to read behind it.
    """

    __slots__ = (
        *("applied", "batch", "bell", "error", "found", "has_passed_on", "has_waited", "key"),
        *("leads", "outcome", "partition", "places", "predicate", "read_error", "value", "version"),
    )

    def __init__(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: Version,
        *,
        predicate: bytes = b"",
        places: Sequence[Place] = (),
    ) -> None:
        self.partition = partition
        self.key = key
        self.value = value
        self.version = version
        self.predicate = predicate
        self.places = places
        self.has_waited = False
        """Whether it has waited for long."""
        self.found: Mapping[Place, Item | None] = {}
        """What was read behind it, or behind another one of its batch."""
        self.read_error: Exception | None = None
        """Why nothing was read behind it, though it may have been applied."""
        self.leads = False
        """Whether this one writes for its batch; it is no longer in the queue."""
        self.batch: Sequence[Write] | None = None
        """Those that it is written with; the first leads them."""
        self.outcome: Sequence[bool] | OutcomeUnknown | None = None
        """Of a leader: what became of its batch, once that was run."""
        self.has_passed_on = False
        """Of a leader: whether it has let the next batch begin."""
        self.applied: bool | None = None
        self.error: OutcomeUnknown | None = None
        # The cheapest way to wait for another thread: a lock that the other one releases.
        self.bell = threading.Lock()
        self.bell.acquire()

    @property
    def row(self) -> tuple[bytes, ...]:
        """What a statement takes of it."""
        row = (self.partition, self.key, self.value, self.version)
        return (*row, self.predicate) if self.predicate else row

    @property
    def is_answered(self) -> bool:
        """Whether it has been applied, or not, or nobody knows."""
        return self.applied is not None or self.error is not None


class Batches:
    """Writes of one kind, put together as they come.

    Args:
        run: Runs a batch, and reads behind it; returns for each write whether it was applied. What
            it raises, all of them raise.
    """

    def __init__(self, run: Callable[[Sequence[Write]], Sequence[bool]]) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._queue: list[Write] = []
        self._under_way = 0
        self._has_company = False
        """Whether several wrote in the last batch."""

    def write(self, write: Write) -> bool:
        """Write; return whether that was applied.

        Raises:
            StoreUnavailable: It was not, and will not be.
            OutcomeUnknown: It may have been, but from now on will not be.
        """
        if len(write.value) > BATCHED_BYTES:
            return self._run([write])[0]
        try:
            with self._lock:
                self._queue.append(write)
                if not self._under_way:
                    self._under_way += 1
                    self._appoint()
            if not write.leads:
                self._wait(write)
            if write.leads:
                self._lead(write)
        except BaseException:  # Ctrl-C, or a signal handler that raises
            self._see_through(write)
            raise
        if write.error is not None:
            raise write.error
        assert write.applied is not None
        return write.applied

    def _appoint(self) -> Write:
        """Make the first in the queue the leader of a batch; the lock is held."""
        leader = self._queue.pop(0)
        leader.leads = True
        return leader

    def _collect(self, leader: Write) -> Sequence[Write]:
        """Return the batch of a leader that begins now, with those who came while it woke up."""
        with self._lock:
            places = {(leader.partition, leader.key)}
            batch = [leader]
            rest: list[Write] = []
            for write in self._queue:
                place = (write.partition, write.key)
                if place in places or len(batch) == BATCH_WRITES:
                    rest.append(write)
                else:
                    places.add(place)
                    batch.append(write)
            self._queue = rest
            for write in batch:
                write.batch = batch
        return batch

    def _wait(self, write: Write) -> None:
        """Return when a write is answered, or has a batch to lead."""
        about_to_wait()
        if not write.bell.acquire(timeout=LONG_SECONDS):
            self._begin_another(write)
        while not (write.is_answered or write.leads):
            if not write.bell.acquire(timeout=QUEUE_SECONDS):
                self._leave_queue(write)

    def _begin_another(self, write: Write) -> None:
        """Let another batch begin beside the one that a write has waited for."""
        with self._lock:
            write.has_waited = True
            if not self._queue or self._under_way >= AT_ONCE:
                return
            self._under_way += 1
            leader = self._appoint()
        leader.bell.release()

    def _leave_queue(self, write: Write) -> None:
        """Give up a write that no batch has taken yet.

        Raises:
            StoreUnavailable: That was so.
        """
        with self._lock:
            if write in self._queue:
                self._queue.remove(write)
                raise StoreUnavailable(
                    f"the writes before this one took longer than {QUEUE_SECONDS:g} seconds"
                )

    def _see_through(self, write: Write) -> None:
        """Return when a write that is to be given up can no longer be applied."""
        with self._lock:
            if write in self._queue:
                self._queue.remove(write)
                return
        while (write.leads or write.batch is not None) and not write.is_answered:
            if write.leads:
                self._lead(write)
            else:
                time.sleep(_PAUSE_SECONDS)

    def _lead(self, leader: Write) -> None:
        """Run the batch of a leader, let the next one begin, and answer all writes of this one.

        Ctrl-C may break it off anywhere. Then it is called again, goes on where it was, and does
        not run the batch a second time: what was applied would not be applied again, and so would
        be called refused.

        Raises:
            BaseException: What is no error of the store: Ctrl-C, or a signal handler that raises.
        """
        if self._has_company and leader.batch is None:
            about_to_wait()
            time.sleep(_COMPANY_SECONDS)
        batch = leader.batch or self._collect(leader)
        self._has_company = len(batch) > 1
        if leader.outcome is None:
            # What stays if the run is broken off: then nobody knows whether it was applied.
            leader.outcome = OutcomeUnknown("the call that wrote for others was broken off")
            try:
                leader.outcome = self._run(batch)
            except OutcomeUnknown as error:
                leader.outcome = error
        self._pass_on(leader)
        _answer(batch, leader.outcome)

    def _pass_on(self, leader: Write) -> None:
        """Let the next batch begin, if somebody waits and this leader has not let it begin yet.

        Beside another batch, only for a write that has waited for long: the others wait for that
        one to end, or until they have waited for long, too.
        """
        with self._lock:
            if leader.has_passed_on:
                return
            leader.has_passed_on = True
            if not self._queue or (self._under_way > 1 and not self._queue[0].has_waited):
                self._under_way -= 1
                return
            following = self._appoint()
        following.bell.release()


def _answer(batch: Sequence[Write], outcome: Sequence[bool] | OutcomeUnknown) -> None:
    """Tell all writes of a batch what became of them; those who wait first, and the leader last.

    While the leader has no answer, whoever breaks this off has it called again.
    """
    leader, *others = range(len(batch))
    for place in (*others, leader):
        write = batch[place]
        if write.is_answered:
            continue
        if isinstance(outcome, OutcomeUnknown):
            # One for each: raising the same exception in many threads would mix them up.
            error = type(outcome)(*outcome.args)
            error.__cause__ = outcome.__cause__
            write.error = error
        else:
            write.applied = outcome[place]
        if place != leader:
            write.bell.release()
