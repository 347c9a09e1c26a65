"""Messages between the server and the process of a Lua script.

Each message is MessagePack, preceded by its length in four bytes. The server sends `Start`, then a
`CallReply` to each `Call` and `HTTPCall`; all others come from the process.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

MESSAGE_BYTES_MAX: Final = 48 << 20
"""Maximum size of a message: the largest object, with a margin."""
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
"""The functions of ``lakefs`` and their arguments in order; ? marks optional arguments."""

Argument = str | int | bool | dict[str, str]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A script, its arguments and its limits."""

    script: bytes
    action: dict[str, object]
    args: object
    username: str
    seconds: float
    memory_mib: int
    net_http_enabled: bool


class CallReply(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a call or a request; with an error, the other fields are unset."""

    status: int = 0
    body: object = None
    headers: dict[str, str] = {}
    error: str | None = None


class Print(msgspec.Struct, frozen=True, tag=True):
    """Output of the script."""

    text: bytes


class Call(msgspec.Struct, frozen=True, tag=True):
    """A call of a function of the ``lakefs`` package."""

    name: str
    arguments: dict[str, Argument]


class HTTPCall(msgspec.Struct, frozen=True, tag=True):
    """An HTTP request of the script."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes


class End(msgspec.Struct, frozen=True, tag=True):
    """End of the script, with its error if it failed."""

    error: str | None = None


FromChild = Print | Call | HTTPCall | End


def frame(message: msgspec.Struct) -> bytes:
    """Encode a message for the pipe."""
    content = msgspec.msgpack.encode(message)
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


class Frames:
    """Reassembles messages from chunks of the pipe."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, piece: bytes) -> Iterator[bytes]:
        """Add a chunk; yield the complete messages. Raise `ValueError` if a message is too long."""
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
