"""The script process's end of the pipe to the server."""

import os
from typing import Self, TypeVar

import msgspec

from lakebed.lake.hooks.lua_child.messages import CallReply, Frames, frame

_MessageT = TypeVar("_MessageT")
_CHUNK_BYTES = 1 << 20


class Pipe:
    """Sends messages to the server and receives its replies."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._frames = Frames()

    @classmethod
    def take_standard_streams(cls) -> Self:
        """Take over the standard streams as the pipe, and redirect them to the null device."""
        pipe = cls(os.dup(0), os.dup(1))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os.close(nowhere)
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
