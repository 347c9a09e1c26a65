"""What is known of the request that a thread works on.

The `envelope` makes the record of a request and logs the access line at its end. Whoever learns who
the user is, which operation it is, or what went wrong, notes it in the record. Nothing else of a
request is kept or logged: not its environment, which holds that of the process, not its headers,
not its query, where signatures and tokens may be.
"""

import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Protocol

_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

_record: ContextVar["RequestRecord | None"] = ContextVar("lakebed_request", default=None)
_under_way: set["RequestRecord"] = set()
_left: deque["RequestRecord"] = deque()
_SHORT_SECONDS: Final = 0.5


class Slot(Protocol):
    """What lets a request be worked on; see `admission`."""

    def while_reading(self, size: int) -> AbstractContextManager[None]:
        """Leave the slot to others while a body of some size is waited for, to be kept whole."""
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
    peer: str = ""
    """The address of the other end of the connection: the client's, or that of a proxy."""
    client: str = ""
    """The address of the client; see `client_address`."""
    received_at: float = 0.0
    """When something of the request last came."""
    is_receiving: bool = False
    """Whether a thread waits for more of the body right now."""
    bytes_received: int = 0
    """How much of the body was read."""
    has_whole_body: bool = True
    """Whether the body was read to its end, or there is none."""
    left_at: float = 0.0
    """When the answer was left to the HTTP server, if it was."""
    slot: Slot | None = None
    """The slot that the request holds, if it does."""
    _on_end: list[Callable[[], None]] = field(default_factory=list)

    def at_end(self, action: Callable[[], None]) -> None:
        """Call something once when the answer is out, or the client is gone."""
        self._on_end.append(action)

    def end(self) -> None:
        """Call what `at_end` was given; a second call does nothing."""
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


def records_under_way(*, left_since: float) -> list[RequestRecord]:
    """Return the records of all requests that this process works on.

    The HTTP server may not have sent an answer yet that was left to it: the records of requests
    that were left since some time are among them. (Of very short ones they are not.)
    """
    while _left and _left[0].left_at < left_since:
        _left.popleft()
    return [*_under_way, *_left]


def begin_record(
    method: str, path: str, *, peer: str, client: str, given_id: str | None, has_body: bool = False
) -> RequestRecord:
    """Make the record of a request that arrived, and bind it to this thread."""
    now = time.monotonic()
    record = RequestRecord(
        _request_id(given_id),
        method,
        path,
        now,
        peer=peer,
        client=client,
        received_at=now,
        has_whole_body=not has_body,
    )
    _record.set(record)
    _under_way.add(record)
    return record


def leave_record(record: RequestRecord) -> None:
    """Unbind a record from this thread: all that is left to do is the HTTP server's."""
    _record.set(None)
    record.left_at = time.monotonic()
    if record.left_at - record.begun > _SHORT_SECONDS:
        _left.append(record)
    _under_way.discard(record)


def _request_id(given: str | None) -> str:
    if given is not None and _SANE_ID.fullmatch(given):
        return given
    return secrets.token_hex(8)
