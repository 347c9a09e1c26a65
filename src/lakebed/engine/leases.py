"""Leases in the record store: separate lease records, and work records with an owner.

- `LeaseRecords`: leases by name, used by the Cleaner, expiry runs and garbage collection.
- `LeasedRecord`: a work record (an import, a merge of a pull request, a run of hooks) with owner
  and heartbeat as fields.

`lakebed.base.leases` states the invariant and the effect of a failure at each step. A
`LeasedRecord` is stricter: one compare-and-swap writes the owner's progress and heartbeat, so the
next change of a former owner fails (`LeaseLostError`) and stops it.
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
_TOKEN_BYTES: Final = 16


class LeaseLostError(Exception):
    """The work has ended or changed owners."""


@dataclass(frozen=True, slots=True)
class LeaseRecords:
    """The record of one lease: a `lakebed.base.leases.LeaseTable`.

    The version of the record is the version of the lease.
    """

    store: Store
    runtime: Runtime
    name: bytes
    seconds: float

    def take_lease(self, holder: str, over: str = "") -> LeaseState:
        """Take the lease if it is free or has the version `over`; return its current state."""
        return self._change(lambda found: self._may_take(found, holder, over), holder)

    def renew_lease(self, holder: str) -> LeaseState:
        """Renew the lease if `holder` has it; return its current state."""
        return self._change(
            lambda found: found is not None and found.message.holder == holder, holder
        )

    def release_lease(self, holder: str) -> None:
        # On failure, another process has taken the lease over or will after its expiry.
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
    """Fields of a leased record."""

    owner: bytes
    updated_us: int


LeasedT = TypeVar("LeasedT", bound=Message)


class LeasedRecord(Generic[LeasedT]):
    """A record of work owned by this process; its message has the fields of `_Owned`."""

    def __init__(
        self,
        records: Records[LeasedT],
        record: Record[LeasedT],
        runtime: Runtime,
        *,
        token: bytes = b"",
    ) -> None:
        """Prepare to take ownership; `take` is the first write.

        `token` is the lease token of this process, if already in the record.
        """
        self._records: Records[LeasedT] = records
        self._record: Record[LeasedT] = record
        self._runtime = runtime
        self._token = token
        self._lock = runtime.lock()

    @property
    def message(self) -> LeasedT:
        """The record as this process last wrote it; do not modify."""
        return self._record.message

    def take(self, edit: Callable[[LeasedT], None]) -> bool:
        """Make this process the owner; return whether it succeeded.

        Raises:
            OutcomeUnknown: The store does not answer; the process may be the owner.
        """
        self._token = new_lease_token(self._runtime)

        def take(message: LeasedT) -> None:
            edit(message)
            _owned(message).owner = self._token

        try:
            self._write(take)
        except PredicateFailed:
            return False
        return True

    def owns(self, message: LeasedT) -> bool:
        """Whether this process last took ownership of a record that was read again."""
        return bool(self._token) and _owned(message).owner == self._token

    def change(self, edit: Callable[[LeasedT], None]) -> None:
        """Change the record; `edit` must be idempotent.

        The record is written even if the edit changes nothing: a successful write proves ownership.

        Raises:
            LeaseLostError: The work has ended or changed owners.
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

    def heartbeat(self) -> bool:
        """Write a heartbeat; return whether this process still owns the work."""
        with suppress(OutcomeUnknown):  # the next heartbeat comes soon
            try:
                self.change(lambda _message: None)
            except LeaseLostError:
                return False
        return True

    def keep_alive(self, work: Callable[[], ResultT], *, heartbeat_seconds: float) -> ResultT:
        """Run `work` with heartbeats in the record until it ends.

        If the lease is lost, the next change made by `work` raises `LeaseLostError`.
        """
        return with_heartbeat(self._runtime, work, self.heartbeat, every_seconds=heartbeat_seconds)

    def _write(self, edit: Callable[[LeasedT], None]) -> None:
        changed = type(self._record.message)()
        changed.CopyFrom(self._record.message)
        edit(changed)
        _owned(changed).updated_us = now_us(self._runtime)
        version = self._records.set_if(self._record.name, changed, self._record.predicate)
        self._record = Record(self._record.name, changed, version)

    def _read_again(self) -> None:
        """Read the record, which an earlier attempt may have written; raises as `change`."""
        found = self._records.find(self._record.name)
        if found is None or not self._is_ours(found.message):
            raise LeaseLostError
        self._record = found

    def _is_ours(self, message: LeasedT) -> bool:
        return self.owns(message) and self._is_running(message)

    def _is_running(self, _message: LeasedT) -> bool:
        """Whether the record's work has not ended."""
        return True


def new_lease_token(runtime: Runtime) -> bytes:
    """Draw the lease token of a new owner."""
    return runtime.random_bytes(_TOKEN_BYTES)


def _owned(message: Message) -> _Owned:
    return cast("_Owned", message)
