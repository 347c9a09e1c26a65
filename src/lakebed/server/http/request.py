"""What is known of the request that a thread works on.

The `envelope` makes the record of a request and logs the access line at its end. Whoever learns who
the user is, which operation it is, or what went wrong, notes it in the record. Nothing else of a
request is kept or logged: not its headers, not its query, where signatures and tokens may be.
"""

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import getrandbits
from typing import Final, Protocol

_ID_BITS: Final = 64
_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

_record: ContextVar["RequestRecord | None"] = ContextVar("lakebed_request", default=None)


class Slot(Protocol):
    """What lets a request be worked on; see `admission`."""

    def end(self) -> None:
        """Give back all that the request holds."""
        ...

    def while_reading(self, size: int) -> AbstractContextManager[None]:
        """Leave the slot to others while a body of some size is waited for, to be kept whole."""
        ...

    def while_waiting(self) -> AbstractContextManager[None]:
        """Leave the slot to others while hooks are waited for."""
        ...


@dataclass(slots=True, eq=False)
class RequestRecord:
    """One request, from its arrival until the last byte of the answer."""

    request_id: str
    method: str
    path: str
    begun: float
    """By the monotonic clock."""
    operation: str = ""
    """The operation of the API, once it is known; metrics are kept by it."""
    user: str = ""
    """Who asks, once that is known."""
    status: int = 0
    kind: str = ""
    """The kind of the error that was answered; empty if all went well."""
    cause: str = ""
    """What led to an answer of 5xx or 410, without secrets."""
    bytes_sent: int = 0
    client: str = ""
    """The address of the client; see `client_address`."""
    slot: Slot | None = None
    """The slot that the request holds, if it does."""
    _on_end: list[Callable[[], None]] = field(default_factory=list)

    def at_end(self, action: Callable[[], None]) -> None:
        """Call something once when the answer is out, or the client is gone."""
        self._on_end.append(action)

    def end(self) -> None:
        """Give back the slot, and call what `at_end` was given; a second call does nothing."""
        if self.slot is not None:
            self.slot.end()
        while self._on_end:
            self._on_end.pop()()


def current_record() -> RequestRecord | None:
    """Return the record of the request that this thread works on; None outside of requests."""
    return _record.get()


def while_reading(size: int) -> AbstractContextManager[None]:
    """Leave the slot of the current request, if it has one, to others; see `Slot`."""
    record = current_record()
    if record is None or record.slot is None:
        return nullcontext()
    return record.slot.while_reading(size)


def while_waiting() -> AbstractContextManager[None]:
    """Leave the slot of the current request, if it has one, to others; see `Slot`."""
    record = current_record()
    return nullcontext() if record is None or record.slot is None else record.slot.while_waiting()


def begin_record(method: str, path: str, *, client: str, given_id: str | None) -> RequestRecord:
    """Make the record of a request that arrived, and bind it to this thread."""
    request_id = given_id
    if request_id is None or not _SANE_ID.fullmatch(request_id):
        # Ids tell requests apart, and need not be hard to guess.
        request_id = f"{getrandbits(_ID_BITS):016x}"
    record = RequestRecord(request_id, method, path, time.monotonic(), client=client)
    _record.set(record)
    return record


def leave_record() -> None:
    """Unbind the record of a request from this thread: the request has ended."""
    _record.set(None)
