"""Leases in the record store: records of their own, and records of work that have an owner.

- `LeaseRecords` has leases of names: the Cleaner's, those of expiry runs and of garbage collection.
- `LeasedRecord` is a record of work (an import, a merge of a pull request, a run of hooks) whose
  owner and heartbeat are fields of it.

`lakebed.base.leases` states the invariant and what a failure at each step leads to. A
`LeasedRecord` is stricter: the owner's progress is written by the same compare-and-swap as its
heartbeat, so a former owner, if it lives after all, fails with its next change (`LeaseLostError`)
and stops.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar, cast

from google.protobuf.message import Message

from lakebed.base.leases import FORGOTTEN_SECONDS, LeaseState, with_heartbeat
from lakebed.base.runtime import ResultT, Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import LEASES
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.kv.schema import METADATA_PARTITION

_LOGGER: Final = logging.getLogger(__name__)
_TRIES: Final = 10
_MARK_BYTES: Final = 16


class LeaseLostError(Exception):
    """The work has ended, or another process does it by now."""


@dataclass(frozen=True, slots=True)
class LeaseRecords:
    """The record of one lease: a `lakebed.base.leases.LeaseTable`.

    Its mark is the version of the record.
    """

    store: Store
    runtime: Runtime
    name: bytes
    seconds: float

    def take_lease(self, holder: str, over: str = "") -> LeaseState:
        """Take the lease if it is free, or has the mark `over`; return it as it is now."""
        return self._change(lambda found: self._may_take(found, holder, over), holder)

    def renew_lease(self, holder: str) -> LeaseState:
        """Renew the lease if this holder has it; return it as it is now."""
        return self._change(
            lambda found: found is not None and found.message.holder == holder, holder
        )

    def release_lease(self, holder: str) -> None:
        """Delete the record if this holder has the lease."""
        # If it fails, another process took the lease over, or will in a while.
        with suppress(PredicateFailed, OutcomeUnknown):
            found = self._records.find(self.name)
            if found is not None and found.message.holder == holder:
                self._records.delete_if(self.name, found.predicate)

    @property
    def _records(self) -> Records[pb.Lease]:
        return Records(self.store, LEASES, METADATA_PARTITION)

    def _may_take(self, found: Record[pb.Lease] | None, holder: str, over: str) -> bool:
        if found is None or found.message.holder == holder:
            return True
        forgotten = self.runtime.now() - found.message.renewed_us / 1e6 > FORGOTTEN_SECONDS
        if forgotten or found.predicate.hex() == over:
            name = self.name.decode()
            _LOGGER.warning("taking over the lease %s, which was not renewed", name)
            return True
        return False

    def _change(self, may: Callable[[Record[pb.Lease] | None], bool], holder: str) -> LeaseState:
        for left in reversed(range(_TRIES)):
            found = self._records.find(self.name)
            if not may(found):
                break
            message = pb.Lease() if found is None else found.message
            message.holder, message.renewed_us = holder, now_us(self.runtime)
            try:
                version = self._records.set_if(
                    self.name, message, ABSENT if found is None else found.predicate
                )
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                if not left:
                    raise
            else:
                return LeaseState(holder, version.hex(), self.seconds)
        if found is None:
            return LeaseState("", "", self.seconds)
        return LeaseState(found.message.holder, found.predicate.hex(), self.seconds)


class _Owned(Protocol):
    """The fields of a leased record."""

    owner: bytes
    updated_us: int


LeasedT = TypeVar("LeasedT", bound=Message)


class LeasedRecord(Generic[LeasedT]):
    """A record whose work this process does; its message has the fields of `_Owned`."""

    def __init__(
        self,
        records: Records[LeasedT],
        record: Record[LeasedT],
        runtime: Runtime,
        *,
        mark: bytes = b"",
    ) -> None:
        """Prepare to take work up; nothing is written before `take`.

        Args:
            records: The kind of record.
            record: As it was read.
            runtime: Its clock stamps the record.
            mark: That of this process, if the record has it already.
        """
        self._records: Records[LeasedT] = records
        self._record: Record[LeasedT] = record
        self._runtime = runtime
        self._mark = mark
        self._lock = runtime.lock()

    @property
    def message(self) -> LeasedT:
        """The record as this process last wrote it; not to be changed."""
        return self._record.message

    def take(self, edit: Callable[[LeasedT], None]) -> bool:
        """Make this process the owner; return whether it is.

        Raises:
            OutcomeUnknown: The store does not answer; perhaps it is.
        """
        self._mark = new_mark(self._runtime)

        def take(message: LeasedT) -> None:
            edit(message)
            _owned(message).owner = self._mark

        try:
            self._write(take)
        except PredicateFailed:
            return False
        return True

    def has_mark_of(self, message: LeasedT) -> bool:
        """Whether a record, read again, was last taken up by this process."""
        return bool(self._mark) and _owned(message).owner == self._mark

    def change(self, edit: Callable[[LeasedT], None]) -> None:
        """Change the record, to which applying the edit twice must do no harm.

        It is written also if the edit changes nothing: that it could be is the proof that the work
        is still that of this process.

        Raises:
            LeaseLostError: The work has ended, or another process took it up.
            OutcomeUnknown: The store does not answer.
        """
        with self._lock:
            for left in reversed(range(_TRIES)):
                try:
                    self._write(edit)
                except StoreUnavailable:
                    raise
                except (PredicateFailed, OutcomeUnknown) as error:
                    if not left and isinstance(error, OutcomeUnknown):
                        raise
                    self._read_again()
                else:
                    return
            raise LeaseLostError

    def drop(self) -> None:
        """Delete the record; raises `LeaseLostError` if another process changed it."""
        with self._lock:
            try:
                self._records.delete_if(self._record.name, self._record.predicate)
            except PredicateFailed:
                raise LeaseLostError from None

    def beat(self) -> bool:
        """Write a heartbeat; return whether the work is still that of this process."""
        with suppress(OutcomeUnknown):  # the next heartbeat comes soon
            try:
                self.change(lambda _message: None)
            except LeaseLostError:
                return False
        return True

    def keep_alive(self, work: Callable[[], ResultT], *, beat_seconds: float) -> ResultT:
        """Do some work, with heartbeats in the record until it has ended.

        If the lease is lost, the next change that the work makes finds that out.
        """
        return with_heartbeat(self._runtime, work, self.beat, every_seconds=beat_seconds)

    def _write(self, edit: Callable[[LeasedT], None]) -> None:
        changed = type(self._record.message)()
        changed.CopyFrom(self._record.message)
        edit(changed)
        _owned(changed).updated_us = now_us(self._runtime)
        version = self._records.set_if(self._record.name, changed, self._record.predicate)
        self._record = Record(self._record.name, changed, version)

    def _read_again(self) -> None:
        """Read the record, which an earlier try may have written.

        Raises:
            LeaseLostError: Another process wrote it, and not only a detail.
        """
        found = self._records.find(self._record.name)
        if found is None or not self._is_ours(found.message):
            raise LeaseLostError
        self._record = found

    def _is_ours(self, message: LeasedT) -> bool:
        return self.has_mark_of(message) and self._goes_on(message)

    def _goes_on(self, _message: LeasedT) -> bool:
        """Whether the work that a record is about has not ended."""
        return True


def new_mark(runtime: Runtime) -> bytes:
    """Draw the mark of a new owner."""
    return runtime.random_bytes(_MARK_BYTES)


def _owned(message: Message) -> _Owned:
    return cast("_Owned", message)
