"""Writes that share a statement.

A batch is one statement, so it is applied whole or not at all, and its outcome is settled as that
of any other statement (see `lakebed.kv.drivers.postgresql`) before its writes get their results. A
statement cannot write a key twice, so of several writes of a key each goes into another batch.

A write may name places to read after it. Those of a batch are read together, once its statement is
committed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lakebed.kv import group_commit
from lakebed.kv.store import Item, Version

BATCH_WRITES: Final = 64
BATCHED_BYTES: Final = 16 << 10
"""Values larger than this are written alone."""

Place = tuple[bytes, bytes]
"""A partition and a key."""


class PostgresWrite(group_commit.Write):
    """A value for a key.

    Args:
        partition: Its partition.
        key: Its key.
        value: The value.
        version: The version that the write gives it.
        predicate: The version that it replaces, if it replaces a certain one.
        places: The places to read after it.
    """

    __slots__ = (
        *("applied", "found", "key", "partition", "places", "predicate", "read_error"),
        *("value", "version"),
    )

    def __init__(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: Version,
        *,
        predicate: bytes = b"",
        places: Sequence[Place] = (),
    ) -> None:
        super().__init__()
        self.partition = partition
        self.key = key
        self.value = value
        self.version = version
        self.predicate = predicate
        self.places = places
        self.applied = False
        self.found: Mapping[Place, Item | None] = {}
        """The items at its places, and at those of the other writes of its batch."""
        self.read_error: Exception | None = None
        """Why the places were not read, though the write may have been applied."""

    @property
    def row(self) -> tuple[bytes, ...]:
        """The parameters of its statement."""
        row = (self.partition, self.key, self.value, self.version)
        return (*row, self.predicate) if self.predicate else row


def choose(
    leader: PostgresWrite, queue: Sequence[PostgresWrite]
) -> tuple[list[PostgresWrite], list[PostgresWrite]]:
    """Split a queue into a batch with no key twice, and the rest; see `GroupCommit`."""
    places = {(leader.partition, leader.key)}
    batch, rest = [leader], []
    for write in queue:
        place = (write.partition, write.key)
        if place in places or len(batch) == BATCH_WRITES:
            rest.append(write)
        else:
            places.add(place)
            batch.append(write)
    return batch, rest
