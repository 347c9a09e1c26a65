"""Reads and writes of committed metadata that tests run in processes of their own."""

import os
from pathlib import Path

from benchmarks.committed_data import in_batches
from lakebed.block import LocalSettings, open_block
from lakebed.engine.committed import Breaks, Committed
from lakebed.formats import MetaRangeID
from tests.engine.committed.kit import LOCAL_HOME, RUNTIME, content, with_disk
from tests.engine.committed.reference import Entries


def read_often(folder: Path, max_bytes: int, metarange: MetaRangeID, model: Entries) -> None:
    store = with_disk(folder, max_bytes=max_bytes)
    for _ in range(3):
        assert content(store, metarange) == model
    # At once: the interpreter's own end may meet a thread of Arrow's, and C++ then aborts.
    os._exit(0)


def small_ranges(folder: Path) -> Committed:
    breaks = Breaks(mean_rows=500)
    return Committed(open_block(LocalSettings(folder)), LOCAL_HOME, RUNTIME, breaks=breaks)


def write_on(folder: Path) -> None:
    """Write metaranges of 20,000, 40,000, … entries until killed."""
    store = small_ranges(folder)
    for last in range(20_000, 10**9, 20_000):
        store.write(in_batches(0, last, 1, rows=5000))
