"""Shared parts of the tests of committed metadata: entries of all kinds, and stores for them."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime, UniqueID
from lakebed.block import LocalSettings, MemorySettings, Namespace, open_block
from lakebed.engine.committed import Breaks, Cache, Committed
from lakebed.engine.model import FilesRoot
from lakebed.engine.settings import CacheSettings
from lakebed.formats import (
    CHANGE_SCHEMA,
    AddressType,
    Entry,
    MetaRangeID,
    entries_of,
    entries_table,
)
from tests.engine.committed.reference import Changes, Entries

ValueT = TypeVar("ValueT")

RUNTIME = ThreadRuntime()
NAMESPACE = Namespace.parse("mem://tests/repo")
HOME = FilesRoot(NAMESPACE, UniqueID("uid"))
LOCAL_HOME = FilesRoot(Namespace.parse("local://lake/repo"), UniqueID("uid"))
SMALL = Breaks(mean_rows=4, max_rows=12, max_bytes=2500)
"""Cuts a few rows into many ranges, sometimes for their size."""
some_breaks = st.sampled_from([SMALL, Breaks(30, 5, 10**9), Breaks(30, 10**9, 1000)])
"""By hash mostly, by rows mostly, by bytes mostly."""


def committed(breaks: Breaks = SMALL, *, memory_bytes: int = 256 << 20) -> Committed:
    block = open_block(MemorySettings())
    cache = Cache(RUNTIME, CacheSettings(memory_bytes=memory_bytes))
    return Committed(block, HOME, RUNTIME, cache=cache, breaks=breaks)


def with_disk(folder: Path, *, max_bytes: int = 10**9) -> Committed:
    """Open committed metadata cached on disk only."""
    settings = CacheSettings(memory_bytes=0, disk_folder=folder / "cache", disk_bytes=max_bytes)
    cache = Cache(RUNTIME, settings)
    block = open_block(LocalSettings(folder / "blocks"))
    return Committed(block, LOCAL_HOME, RUNTIME, cache=cache, breaks=SMALL)


# Few different keys and entries, for frequent overlaps; bytes at the limits of keys. Drawing is
# slow, so each key and each entry takes one draw.
FRAGMENTS = [b"a", b"/", b"\x00", b"\xff", b"key-of-some-length/"]
KEYS = [b"".join(parts) for length in (1, 2, 3) for parts in product(FRAGMENTS, repeat=length)]
keys = st.sampled_from(KEYS)


def entry(key: bytes, number: int) -> Entry:
    """Return one of 48 entries, of four identities."""
    rest, version = divmod(number % 48, 4)
    rest, long_address = divmod(rest, 2)
    microseconds, address_type = divmod(rest, 2)
    return Entry(
        key=key,
        identity=b"identity %d" % version,
        # Covered by the identity:
        size=version,
        checksum=f"{version:x}" * 8,
        content_type="text/plain" if version else "",
        metadata={f"m{n}": "v" * 100 for n in range(version)},
        # Not covered:
        address="y" * 40 if long_address else "x",
        address_type=AddressType(address_type),
        mtime=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds),
    )


def some_keys() -> st.SearchStrategy[dict[bytes, int]]:
    """A random subset of the keys, each with a number from 0 to 255."""
    # Two bytes per key, in one draw: Hypothesis would only make small dictionaries.
    drawn = st.binary(min_size=2 * len(KEYS), max_size=2 * len(KEYS))
    return st.tuples(drawn, st.sampled_from([0, 10, 60, 200])).map(
        lambda pair: {
            key: number
            for key, chance, number in zip(KEYS, pair[0][::2], pair[0][1::2], strict=True)
            if chance < pair[1]
        }
    )


class Drawn(dict[bytes, ValueT]):
    """Entries or changes printed as the numbers they were made of, for readable failures."""

    def __init__(self, make: Callable[[bytes, int], ValueT], numbers: dict[bytes, int]) -> None:
        super().__init__({key: make(key, number) for key, number in numbers.items()})
        self._numbers = numbers

    def __repr__(self) -> str:
        return f"Drawn({self._numbers})"


def entries() -> st.SearchStrategy[Entries]:
    return some_keys().map(partial(Drawn, entry))


def changes() -> st.SearchStrategy[Changes]:
    """Puts and, as often, tombstones."""
    return some_keys().map(partial(Drawn, entry_or_tombstone))


def entry_or_tombstone(key: bytes, number: int) -> Entry | None:
    return entry(key, number) if number < 128 else None


def rows(entries: Entries) -> pa.Table:
    return entries_table(entries[key] for key in sorted(entries))


def change_rows(changes: Changes) -> pa.Table:
    ordered = sorted(changes)
    filler = Entry(
        key=b"",
        identity=b"",
        address="",
        address_type=AddressType.FULL,
        size=0,
        checksum="",
        mtime=datetime(1970, 1, 1, tzinfo=UTC),
        content_type="",
        metadata={},
    )
    table = entries_table(changes[key] or filler for key in ordered)
    gone = pa.array([changes[key] is None for key in ordered], pa.bool_())
    table = table.set_column(0, "key", pa.array(ordered, pa.binary()))
    return table.append_column("tombstone", gone).cast(CHANGE_SCHEMA)


def split(table: pa.Table, places: Iterable[int]) -> list[pa.Table]:
    """Return a table in batches cut at some places."""
    cuts = sorted({0, table.num_rows, *(place % (table.num_rows + 1) for place in places)})
    return [table.slice(a, b - a) for a, b in pairwise(cuts)]


def content(store: Committed, metarange_id: MetaRangeID) -> Entries:
    return {entry.key: entry for table in store.scan(metarange_id) for entry in entries_of(table)}
