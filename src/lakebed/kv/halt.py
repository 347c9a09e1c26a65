"""The halt flag, which stops all writes to a store that is being or was copied.

The flag is one record beside the schema version. Servers do not open a store with the flag
(`lakebed.kv.open_store`). Processes with an open store check the flag before a write, unless their
last check was less than `CHECK_SECONDS` ago (`managed: HaltCheck`). So all writes have ended
`SETTLE_SECONDS` after the flag was written.
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
"""How long a process may write after a check of the flag."""

SETTLE_SECONDS: Final = CHECK_SECONDS + FENCE_SECONDS + 15.0
"""How long calls may still change a halted store: a call may begin just before the next check, and
then take as long as the drivers allow. (A bulk call with a fence for each key may take longer. Its
changes are found by the comparison of the stores.)"""


class Role(Enum):
    """Role of a halted store in a copy."""

    SOURCE = "source"
    TARGET = "target"


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the halt flag."""

    role: Role
    copy_id: str
    """The same in both stores."""
    run_id: str = ""
    """Of a target: drawn by each process that runs the copy; only the last one may write."""
    other: str
    """URL of the other store, without secrets."""
    since: float
    """Time of writing, in seconds since 1970."""
    finished: bool = False
    """Whether the copy is complete."""

    @property
    def halts(self) -> bool:
        """Whether the flag stops writes.

        A complete copy is in use, and keeps its flag as a protection against another copy into the
        store.
        """
        return self.role is Role.SOURCE or not self.finished

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    def explain(self) -> str:
        """Explain why writes are halted, and how to continue."""
        when = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if self.role is Role.TARGET and self.finished:
            return (
                f"this store is a complete copy of {self.other}, begun at {when}, and may be in"
                " use: copy into an empty database"
            )
        if self.role is Role.TARGET:
            return (
                f"this store is an incomplete copy of {self.other}, begun at {when}: run `lakebed"
                " kv copy` again to complete it"
            )
        if self.finished:
            return (
                f"this store was copied to {self.other} at {when}: set database.url to the copy,"
                " or run `lakebed kv release` to use this store again"
            )
        return (
            f"this store is being copied to {self.other} since {when}: wait for `lakebed kv copy`,"
            " run it again if it was interrupted, or cancel it with `lakebed kv release`"
        )


@dataclass(slots=True)
class Permit:
    """Permission of a process to write to a store."""

    flag: bytes | None = None
    """The value that the halt flag must have; None: no flag that stops writes."""
    reads_only: bool = False


def find_halt(store: Store, prefix: bytes = b"") -> Item | None:
    """Return the item of the halt flag, or None if the store has none."""
    try:
        return store.get(prefix + METADATA_PARTITION, HALT_KEY)
    except KeyNotFound:
        return None


def decode_halt(value: bytes) -> Halt:
    """Decode a halt flag; a damaged flag raises `StoreHalted`, to be safe."""
    try:
        return msgspec.json.decode(value, type=Halt)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreHalted(
            "the halt flag of this store is damaged: inspect it with `lakebed kv inspect"
            " --partition kv_metadata`"
        ) from error


def check_not_halted(store: Store) -> None:
    """Reject a store whose halt flag stops writes."""
    flag = find_halt(store)
    if flag is not None and (halt := decode_halt(flag.value)).halts:
        raise StoreHalted(halt.explain())
