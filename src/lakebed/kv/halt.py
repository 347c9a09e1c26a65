"""A mark in a store that stops all who write to it: the store is being copied, or was.

The mark is one record beside the schema's version. A store that has it is not opened by servers
(`lakebed.kv.open_store`). Processes that have it open look at the mark before they write, unless
they did so less than `CHECK_SECONDS` ago (`managed: HaltCheck`). So all writing has ended
when the mark has been there for `SETTLE_SECONDS`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Final

import msgspec

from lakebed.kv.errors import KeyNotFound, StoreHalted
from lakebed.kv.fenced import FENCE_SECONDS
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.store import Item, Store

HALT_KEY: Final = b"halt"

CHECK_SECONDS: Final = 2.0
"""How long a process may write after it looked at the mark."""

SETTLE_SECONDS: Final = CHECK_SECONDS + FENCE_SECONDS + 15.0
"""How long after the mark was written a call may still change something: one that began just before
its process had to look again, and that then took as long as a driver lets a call take. (A bulk call
that writes keys one by one may take longer, if each of them has to be fenced. What it changed is
found when the stores are compared.)"""


class Role(Enum):
    """What a halted store is in a copy."""

    SOURCE = "source"
    TARGET = "target"


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """The mark."""

    role: Role
    copy_id: str
    """The same in both stores."""
    run_id: str = ""
    """Of a target: drawn by each process that works on the copy; only the last may write."""
    other: str
    """The URL of the other store, without its secrets."""
    since: float
    """When it was written, in seconds since 1970."""
    finished: bool = False
    """Whether the copy is complete."""

    @property
    def halts(self) -> bool:
        """Whether it stops writers.

        A complete copy is in use, and keeps its mark: so nobody takes it for an empty store, or
        for one that still has to be completed.
        """
        return self.role is Role.SOURCE or not self.finished

    def encode(self) -> bytes:
        """Return the mark as it is stored."""
        return msgspec.json.encode(self)

    def explain(self) -> str:
        """Say why nothing may be written, and what to do."""
        when = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if self.role is Role.TARGET and self.finished:
            return (
                f"this store is the complete copy of {self.other}, begun at {when}, and may be in"
                " use: copy into an empty database"
            )
        if self.role is Role.TARGET:
            return (
                f"this store is the unfinished copy of {self.other}, begun at {when}: run"
                " `lakebed kv copy` again to complete it"
            )
        if self.finished:
            return (
                f"this store was copied to {self.other} at {when}: set database.url to that one"
                " (`lakebed kv release` makes this one usable again)"
            )
        return (
            f"this store is being copied to {self.other} since {when}: wait for `lakebed kv copy`,"
            " or run it again if it was cut off (`lakebed kv release` gives the copy up)"
        )


@dataclass(slots=True)
class Permit:
    """When a process may write to a store."""

    mark: bytes | None = None
    """The mark that the store must have; None: none that stops writers."""
    reads_only: bool = False


def find_mark(store: Store, front: bytes = b"") -> Item | None:
    """Return the mark as it is stored, if there is one."""
    try:
        return store.get(front + METADATA_PARTITION, HALT_KEY)
    except KeyNotFound:
        return None


def read_mark(value: bytes) -> Halt:
    """Return what a mark says.

    Raises:
        StoreHalted: It cannot be read; then nobody knows what it says, and nobody may write.
    """
    try:
        return msgspec.json.decode(value, type=Halt)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreHalted(
            "this store has a mark that stops writers, and the mark is damaged: look at it with"
            " `lakebed kv inspect --partition kv_metadata`"
        ) from error


def check_not_halted(store: Store) -> None:
    """Refuse a store that has a mark which stops writers.

    Raises:
        StoreHalted: It has.
    """
    mark = find_mark(store)
    if mark is not None and (halt := read_mark(mark.value)).halts:
        raise StoreHalted(halt.explain())
