"""Storing so many entries that it has to outlive the process: in steps, each of which is kept.

A metarange of the ranges that are closed says how far it came. Any process can go on from there,
with the entries behind `last_key`, and ends with the same metarange as one that was never cut off.
"""

from dataclasses import dataclass

from lakebed.engine.committed.apply import Builder
from lakebed.engine.committed.batches import Batch, entry_windows
from lakebed.formats import MetaRange, MetaRangeID


@dataclass(frozen=True, slots=True)
class Saved:
    """How far an ingest came."""

    metarange_id: MetaRangeID
    last_key: bytes
    """Who goes on begins behind this key; empty: at the beginning."""


class Ingest:
    """Entries on their way into a metarange, in order of their keys."""

    def __init__(self, builder: Builder, so_far: MetaRange) -> None:
        """Go on behind the ranges of a metarange that `save` returned, or of an empty one."""
        self._builder = builder
        self.last_key = b""
        """The last key that was added; empty: none was."""
        self.count = 0
        """How many entries were added, and are in the ranges it began with."""
        for ref in so_far.refs:
            builder.add_range(ref)
            self.last_key = ref.max_key
        self.count = so_far.count

    def add(self, batch: Batch) -> None:
        """Add entries; ranges are written as they fill up.

        Raises:
            InvalidEntries: The batch does not have the columns and values of entries.
            UnsortedEntries: The keys do not rise from row to row, and from call to call.
        """
        for entries in entry_windows([batch], after=self.last_key):
            self._builder.add_rows(entries)
            self.last_key = entries.column("key")[-1].as_py()
            self.count += entries.num_rows

    @property
    def closed_ranges(self) -> int:
        """How many ranges are closed: what `save` would keep."""
        return self._builder.closed_ranges

    def save(self) -> Saved:
        """Store how far this came: see `Committed.ingest`."""
        return Saved(self._builder.save_closed(), self._builder.last_closed_key)

    def finish(self) -> MetaRangeID:
        """Store what is not stored yet, and return the metarange of all."""
        return self._builder.finish()
