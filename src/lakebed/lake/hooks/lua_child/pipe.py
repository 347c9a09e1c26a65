"""The pipe to the server, from the side of the script's process."""

import os
from typing import Self, TypeVar

import msgspec

from lakebed.lake.hooks.lua_child.messages import CallReply, Frames, frame

_MessageT = TypeVar("_MessageT")
_CHUNK_BYTES = 1 << 20


class Pipe:
    """Sends messages to the server and receives what it answers."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._frames = Frames()

    @classmethod
    def take_standard_streams(cls) -> Self:
        """Return the pipe behind the standard streams, which lead nowhere from now on."""
        pipe = cls(os.dup(0), os.dup(1))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        os.close(nowhere)
        return pipe

    def send(self, message: msgspec.Struct) -> None:
        """Send a message."""
        rest = memoryview(frame(message))
        while rest:
            rest = rest[os.write(self._target, rest) :]

    def receive(self, message_type: type[_MessageT]) -> _MessageT:
        """Return the next message; end the process if the server is gone."""
        while piece := os.read(self._source, _CHUNK_BYTES):
            for content in self._frames.add(piece):
                return msgspec.msgpack.decode(content, type=message_type)
        os._exit(1)

    def ask(self, message: msgspec.Struct) -> CallReply:
        """Send a message and return the reply."""
        self.send(message)
        return self.receive(CallReply)
