"""Resumable ingest of many entries: progress is saved in steps and survives the process.

A metarange of the closed ranges records the progress. Any process can resume from it, with the
entries after `last_key`, and produces the same metarange as an uninterrupted ingest.
"""

from dataclasses import dataclass

from lakebed.engine.committed.apply import Builder
from lakebed.engine.committed.batches import Batch, entry_windows
from lakebed.formats import MetaRange, MetaRangeID


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved progress of an ingest."""

    metarange_id: MetaRangeID
    last_key: bytes
    """Resume with the keys after this one; empty to start at the beginning."""


class Ingest:
    """Appends sorted entries to a metarange."""

    def __init__(self, builder: Builder, so_far: MetaRange) -> None:
        """Continue a metarange returned by `save`, or an empty one."""
        self._builder = builder
        self.last_key = b""
        """The last key added, or empty."""
        self.count = 0
        """Number of entries added, including those of the initial ranges."""
        for ref in so_far.refs:
            builder.add_range(ref)
            self.last_key = ref.max_key
        self.count = so_far.count

    def add(self, batch: Batch) -> None:
        """Add entries; ranges are written as they fill up. Raises as `Committed.write`."""
        for entries in entry_windows([batch], after=self.last_key):
            self._builder.add_rows(entries)
            self.last_key = entries.column("key")[-1].as_py()
            self.count += entries.num_rows

    @property
    def closed_ranges(self) -> int:
        """Number of closed ranges, which `save` would store."""
        return self._builder.closed_ranges

    def save(self) -> Saved:
        return Saved(self._builder.save_closed(), self._builder.last_closed_key)

    def finish(self) -> MetaRangeID:
        return self._builder.finish()
