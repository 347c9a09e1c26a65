"""Writes that share a statement.

A batch is one statement, so it is atomic, and its outcome is determined as for any other statement
(see `lakebed.kv.drivers.postgresql`) before its writes get their results. A statement cannot write
a key twice, so each of several writes of a key goes into another batch.

A write may have keys to read after it. The keys of a batch are read together, after the commit of
its statement.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lakebed.kv import group_commit
from lakebed.kv.store import Item, Version

BATCH_WRITES: Final = 64
BATCHED_BYTES: Final = 16 << 10
"""Larger values are written alone."""

Place = tuple[bytes, bytes]
"""A partition and a key."""


class PostgresWrite(group_commit.Write):
    """A value for a key.

    Args:
        partition: Its partition.
        key: Its key.
        value: The value.
        version: The new version.
        predicate: The version to replace, or empty.
        places: The keys to read afterwards.
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
        """The items at the places of all writes in the batch."""
        self.read_error: Exception | None = None
        """The error of the read, though the write may have been applied."""

    @property
    def row(self) -> tuple[bytes, ...]:
        """The parameters of the statement."""
        row = (self.partition, self.key, self.value, self.version)
        return (*row, self.predicate) if self.predicate else row


def choose(
    leader: PostgresWrite, queue: Sequence[PostgresWrite]
) -> tuple[list[PostgresWrite], list[PostgresWrite]]:
    """Split a queue into a batch without duplicate keys, and the rest; see `GroupCommit`."""
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
