"""How fast committed metadata are written, compared and read.

Floors are what PyArrow alone does with the same columns, by its own defaults, measured in the same
run: it neither computes ids nor brings files to the disk.
"""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.committed_data import as_puts, in_batches, numbered_entries
from benchmarks.report import Row, report
from lakebed.base.runtime import ThreadRuntime, UniqueID
from lakebed.block import LocalSettings, Namespace, open_block
from lakebed.engine.committed import Cache, Committed, EntryQuery
from lakebed.engine.model import FilesRoot
from lakebed.engine.settings import CacheSettings
from lakebed.formats import MetaRangeID, metarange_path, range_path

ENTRIES = 1_000_000
MEMORY_LIMIT_BYTES = 1_500_000_000
AT_MOST_TWICE = 0.5
RUNTIME = ThreadRuntime()
HOME = FilesRoot(Namespace.parse("local://lake/repo"), UniqueID("uid"))
# As `lakebed.formats` writes ranges: smaller files than by default, for more time.
OUR_OPTIONS: dict[str, object] = {"compression": "zstd", "use_dictionary": ["content_type"]}


def measure(entries: int = ENTRIES) -> list[Row]:
    """Return all measurements, for metaranges of so many entries."""
    # First of all: the peak that a process reports begins with that of its parent.
    applying = _applying(5 * entries)
    with tempfile.TemporaryDirectory() as folder:
        left = numbered_entries(pa.array(np.arange(entries)))
        writing, left_id = _writing(Path(folder), left)
        diffing = _diffing(Path(folder), left, left_id)
        return [*writing, *diffing, *_reading(Path(folder), left, left_id), applying]


def open_committed(folder: Path, *, memory_bytes: int = 1 << 30) -> Committed:
    """Open committed metadata in a folder, with nothing in the cache."""
    block = open_block(LocalSettings(folder / "blocks"))
    cache = Cache(RUNTIME, CacheSettings(memory_bytes=memory_bytes))
    return Committed(block, HOME, RUNTIME, cache=cache)


def _writing(folder: Path, entries: pa.Table) -> tuple[list[Row], MetaRangeID]:
    ours: list[float] = []
    floors: list[float] = []
    same_options: list[float] = []
    for number in range(5):
        store = open_committed(folder / str(number))
        ours.append(_seconds(partial(store.write, [entries])))
        files = max(1, store.counters.ranges_written)
        floors.append(_seconds(partial(_bare_write, folder, entries, files, {})))
        same_options.append(_seconds(partial(_bare_write, folder, entries, files, OUR_OPTIONS)))
    metarange_id = open_committed(folder).write([entries])
    name = "write sorted entries"
    strict = _row(f"{name}, floor with our compression", entries.num_rows, ours, same_options)
    rows = [_row(name, entries.num_rows, ours, floors), replace(strict, bar=None)]
    return rows, metarange_id


def _bare_write(folder: Path, entries: pa.Table, files: int, options: dict[str, object]) -> None:
    rows = -(-entries.num_rows // files)
    for number in range(files):
        part = entries.slice(number * rows, rows)
        pq.write_table(part, folder / f"bare-{number}.parquet", **options)


def _diffing(folder: Path, left: pa.Table, left_id: MetaRangeID) -> list[Row]:
    right = _changed_at_random(left, share=0.01)
    right_id = open_committed(folder).write([right])
    warm = open_committed(folder)
    _diff(warm, left_id, right_id)
    ours, floors = [], []
    ours_from_files, floors_from_files = [], []
    for _ in range(3):
        floors.append(_seconds(partial(_join, left, right)))
        ours.append(_seconds(partial(_diff, warm, left_id, right_id)))
        floors_from_files.append(_seconds(partial(_read_and_join, folder, left_id, right_id)))
        cold = open_committed(folder)
        ours_from_files.append(_seconds(partial(_diff, cold, left_id, right_id)))
    return [
        _row("diff, 1 % changed", left.num_rows, ours, floors),
        _row("diff, 1 % changed, from files", left.num_rows, ours_from_files, floors_from_files),
    ]


def _diff(store: Committed, left_id: MetaRangeID, right_id: MetaRangeID) -> None:
    for _ in store.diff(left_id, right_id):
        pass


def _join(left: pa.Table, right: pa.Table) -> None:
    right = right.select(["key", "identity"]).rename_columns(["key", "other_identity"])
    left.select(["key", "identity"]).join(right, "key", join_type="full outer")


def _read_and_join(folder: Path, left_id: MetaRangeID, right_id: MetaRangeID) -> None:
    """Join what PyArrow reads from the same files."""
    lake = folder / "blocks/lake/repo"
    sides = []
    for metarange_id in (left_id, right_id):
        range_ids = pq.read_table(lake / metarange_path(metarange_id))["range_id"].to_pylist()
        sides.append(pq.read_table([lake / range_path(range_id) for range_id in range_ids]))
    _join(*sides)


def _changed_at_random(entries: pa.Table, *, share: float) -> pa.Table:
    chance = np.random.default_rng(1)
    changed = pa.array(chance.random(entries.num_rows) < share)
    other = numbered_entries(pa.array(np.arange(entries.num_rows)), version=1)
    identities = pc.if_else(changed, other["identity"], entries["identity"])
    return entries.set_column(1, entries.schema.field("identity"), identities)


def _reading(folder: Path, entries: pa.Table, metarange_id: MetaRangeID) -> list[Row]:
    chance = np.random.default_rng(2)
    picks = chance.integers(0, entries.num_rows, 2000)
    keys = entries["key"].take(pa.array(picks)).to_pylist()

    def get_all(store: Committed, keys: list[bytes]) -> None:
        for key in keys:
            store.get(metarange_id, key)

    warm = open_committed(folder)
    get_all(warm, keys)
    warm_seconds = _seconds(lambda: get_all(warm, keys))
    cold = open_committed(folder, memory_bytes=0)
    cold_seconds = _seconds(lambda: get_all(cold, keys[:20]))
    queries = [EntryQuery(after=key) for key in keys[:50]]
    page_seconds = _seconds(lambda: [warm.list(metarange_id, query) for query in queries])
    return [
        Row("get, warm", "local", len(keys) / warm_seconds, None, None),
        Row("get, cold (metarange and range read)", "local", 20 / cold_seconds, None, None),
        Row("page of 1,000 entries, warm", "local", len(queries) / page_seconds, None, None),
    ]


def _applying(entries: int) -> Row:
    """Apply as many new entries to a base, in a process of its own; the ratio is of memory."""
    command = [sys.executable, "-m", "benchmarks.committed", str(entries)]
    child = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak_bytes = child.stdout.split()
    operation = f"apply {entries:,} to {entries:,} in {int(peak_bytes) / 1e6:,.0f} MB"
    ratio = MEMORY_LIMIT_BYTES / int(peak_bytes)
    return Row(operation, "local", entries / float(seconds), ratio, 1.0)


def apply_and_print(entries: int) -> None:
    """Print how many seconds an apply took, and the most memory that this process ever had."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_committed(Path(folder), memory_bytes=256 << 20)
        base = store.write(in_batches(0, 2 * entries, 2))
        changes = (as_puts(batch) for batch in in_batches(1, 2 * entries, 2))
        begun = perf_counter()
        applied = store.apply(base, changes)
        seconds = perf_counter() - begun
        assert applied.summary.added == entries
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _row(operation: str, count: int, ours: list[float], floors: list[float]) -> Row:
    best = min(ours)
    return Row(operation, "local", count / best, min(floors) / best, AT_MOST_TWICE)


def _seconds(call: Callable[[], object]) -> float:
    begun = perf_counter()
    call()
    return perf_counter() - begun


if __name__ == "__main__":
    if len(sys.argv) > 1:
        apply_and_print(int(sys.argv[1]))
    else:
        sys.exit(report(measure()))
