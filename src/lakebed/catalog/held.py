"""Records of work that one process does at a time: taken up, kept alive, and lost to another.

Every change of such a record is a compare-and-swap on what its writer last read or wrote. So of all
who want to change it, each sees what the others did before it goes on. Whoever takes a record up
writes a mark of its own into it. Of two that want to, one fails. The one before, if it lives after
all, fails with its next change (`NotOurs`), and stops.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Final, Generic, TypeVar

from lakebed.catalog import records_pb2 as pb
from lakebed.catalog.keys import copy_of
from lakebed.kv import OutcomeUnknown, PredicateFailed, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.runtime import ResultT, Runtime
from lakebed.times import now_us

_TRIES: Final = 10
_MARK_BYTES: Final = 16

HeldT = TypeVar("HeldT", pb.Import, pb.PullRequest)


class NotOurs(Exception):
    """The work was ended by somebody else, or another process does it by now."""


class HeldRecord(Generic[HeldT]):
    """A record whose work this process does."""

    def __init__(self, records: Records[HeldT], record: Record[HeldT], runtime: Runtime) -> None:
        """Prepare to take work up; nothing is written before `take`."""
        self._records: Records[HeldT] = records
        self._record: Record[HeldT] = record
        self._runtime = runtime
        self._mark = b""
        self._lock = runtime.lock()

    @property
    def message(self) -> HeldT:
        """The record as this process last wrote it; not to be changed."""
        return self._record.message

    def take(self, edit: Callable[[HeldT], None]) -> bool:
        """Make this process the one that does the work; return whether it is.

        Raises:
            OutcomeUnknown: The store does not answer; perhaps it is.
        """
        self._mark = self._runtime.random_bytes(_MARK_BYTES)
        taken = copy_of(self._record.message)
        edit(taken)
        taken.owner = self._mark
        taken.updated_us = now_us(self._runtime)
        try:
            version = self._records.set_if(self._record.name, taken, self._record.predicate)
        except PredicateFailed:
            return False
        self._record = Record(self._record.name, taken, version)
        return True

    def has_mark_of(self, message: HeldT) -> bool:
        """Whether a record, read again, was last taken up by this process."""
        return bool(self._mark) and message.owner == self._mark

    def change(self, edit: Callable[[HeldT], None]) -> None:
        """Change the record, to which applying the edit twice must do no harm.

        It is written also if the edit changes nothing: that it could be is the proof that the work
        is still ours.

        Raises:
            NotOurs: Somebody else ended the work, or took it up.
            OutcomeUnknown: The store does not answer.
        """
        with self._lock:
            for left in reversed(range(_TRIES)):
                changed = copy_of(self._record.message)
                edit(changed)
                changed.updated_us = now_us(self._runtime)
                try:
                    version = self._records.set_if(
                        self._record.name, changed, self._record.predicate
                    )
                except StoreUnavailable:
                    raise
                except PredicateFailed:
                    self._read_again()
                except OutcomeUnknown:
                    if not left:
                        raise
                    self._read_again()
                else:
                    self._record = Record(self._record.name, changed, version)
                    return
            raise NotOurs

    def keep_alive(self, work: Callable[[], ResultT], *, beat_seconds: float) -> ResultT:
        """Do some work, with signs of life in the record until it has ended.

        If the record is not ours any more, the next change that the work makes finds that out.
        """
        over = self._runtime.event()
        results: list[ResultT] = []

        def do() -> None:
            try:
                results.append(work())
            finally:
                over.set()

        def beat() -> None:
            with suppress(NotOurs):
                while not over.wait(beat_seconds):
                    with suppress(OutcomeUnknown):
                        self.change(lambda _message: None)

        # What is known of the request at hand is known in the other thread too.
        tasks: list[Callable[[], None]] = [partial(copy_context().run, do), beat]
        self._runtime.map_parallel(lambda each: each(), tasks, limit=len(tasks))
        return results[0]

    def _read_again(self) -> None:
        """Read the record, which an earlier try may have written.

        Raises:
            NotOurs: Somebody else wrote it, and not only a detail.
        """
        found = self._records.find(self._record.name)
        if found is None or not self._is_ours(found.message):
            raise NotOurs
        self._record = found

    def _is_ours(self, message: HeldT) -> bool:
        return self.has_mark_of(message) and self._goes_on(message)

    def _goes_on(self, message: HeldT) -> bool:
        """Whether the work that a record is about has not ended."""
        raise NotImplementedError
