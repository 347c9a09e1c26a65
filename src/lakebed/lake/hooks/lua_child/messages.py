"""What the server and the process of a Lua script say to each other.

Each message is MessagePack behind its length in four bytes. The server says `Start`, then a
`CallReply` to each `Call` and `HTTPCall`; the process says the rest.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

MESSAGE_BYTES_MAX: Final = 48 << 20
"""The longest message: an object that is read whole, and some room."""
_LENGTH_BYTES: Final = 4

CALLS: Final = {
    "create_tag": ("repository", "reference", "tag"),
    "diff_branch": ("repository", "branch", "after?", "amount?", "prefix?", "delimiter?"),
    "diff_refs": ("repository", "left", "right", "after?", "prefix?", "delimiter?", "amount?"),
    "get_object": ("repository", "reference", "path"),
    "list_objects": (
        *("repository", "reference", "after?", "prefix?", "delimiter?", "amount?"),
        "user_metadata?",
    ),
    "stat_object": ("repository", "reference", "path", "user_metadata?"),
    "update_object_user_metadata": ("repository", "branch", "path", "metadata"),
}
"""The functions of ``lakefs`` and their arguments in order; those with a ? may be left out."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The script and what it may know."""

    script: bytes
    action: dict[str, Any]
    args: dict[str, Any]
    username: str
    seconds: float
    memory_mib: int
    net_http_enabled: bool


class CallReply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call or a request; with an error, nothing did."""

    status: int = 0
    body: Any = None
    headers: dict[str, str] = {}
    error: str | None = None


class Print(msgspec.Struct, frozen=True, tag=True):
    """The script printed something."""

    text: bytes


class Call(msgspec.Struct, frozen=True, tag=True):
    """The script calls a function of its ``lakefs`` package."""

    name: str
    arguments: dict[str, str | int | bool | dict[str, str]]


class HTTPCall(msgspec.Struct, frozen=True, tag=True):
    """The script sends an HTTP request."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


class End(msgspec.Struct, frozen=True, tag=True):
    """The script ended; the error is why it failed."""

    error: str | None = None


FromChild = Print | Call | HTTPCall | End


def frame(message: msgspec.Struct) -> bytes:
    """Return a message as it goes over the pipe."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


class Frames:
    """Puts messages together from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, piece: bytes) -> Iterator[bytes]:
        """Return the contents of the messages that are whole now.

        Raises:
            ValueError: A message is too long.
        """
        self._buffer += piece
        while len(self._buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if end > MESSAGE_BYTES_MAX:
                raise ValueError(f"a message of {end} bytes")
            if len(self._buffer) < end:
                return
            content = bytes(self._buffer[_LENGTH_BYTES:end])
            del self._buffer[:end]
            yield content
