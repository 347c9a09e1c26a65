"""Messages between the server and the process of a Lua script.

Each message is MessagePack, preceded by its length in four bytes. The server sends `Start`, then a
`CallReply` to each `Call` and `HTTPCall`; all others come from the process.
"""

import os
from collections.abc import Iterator
from typing import Final, Self, TypeVar

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


_MessageT = TypeVar("_MessageT")
_CHUNK_BYTES = 1 << 20


class Pipe:
    """The script process's end: sends messages to the server and receives its replies."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._frames = Frames()

    @classmethod
    def take_standard_streams(cls) -> Self:
        """Take over the standard streams as the pipe, and redirect them to the null device."""
        pipe = cls(os.dup(0), os.dup(1))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.close(null)
        return pipe

    def send(self, message: msgspec.Struct) -> None:
        rest = memoryview(frame(message))
        while rest:
            rest = rest[os.write(self._target, rest) :]

    def receive(self, message_type: type[_MessageT]) -> _MessageT:
        """Return the next message; exit the process if the server closed the pipe."""
        while piece := os.read(self._source, _CHUNK_BYTES):
            for content in self._frames.add(piece):
                return msgspec.msgpack.decode(content, type=message_type)
        os._exit(1)

    def ask(self, message: msgspec.Struct) -> CallReply:
        self.send(message)
        return self.receive(CallReply)
