"""Examining a metarange that was made outside of the engine, before anything is built on it.

All is read from the storage and proven by its id, then compared with what the engine itself would
have written: keys that rise, ranges that end where they have to, a line for each that says what is
in it. What the entries say is for the caller to judge.
"""

from collections.abc import Iterator

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.columns import check_rising
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import map_ahead
from lakebed.engine.errors import Invalid
from lakebed.formats import MetaRangeID, RangeRef, conform_entries
from lakebed.formats.boundaries import Breaks, ref_of, row_bytes
from lakebed.formats.parquet import one_array


def examine(
    files: Files, runtime: Runtime, breaks: Breaks, metarange_id: MetaRangeID
) -> Iterator[pa.Table]:
    """Yield the entries of each range in order of the keys; none is kept in a cache.

    Raises:
        Invalid: The metarange is not what the engine would have made of these entries.
        InvalidEntries: A range does not hold entries.
        UnsortedEntries: The keys do not rise.
        MissingFile, DamagedFile, ForeignFile: A file is not there, or does not hold what it should.
    """
    refs = files.load_metarange(metarange_id).refs
    last_key = b""
    tables = map_ahead(runtime, files.load_range, (ref.range_id for ref in refs))
    for place, (ref, table) in enumerate(zip(refs, tables, strict=True)):
        if not table.num_rows:
            raise Invalid(f"range {ref.range_id} is empty")
        entries = conform_entries(table)
        check_rising(one_array(entries, "key"), last_key)
        last_key = ref.max_key
        _check_range(breaks, ref, entries, is_last=place == len(refs) - 1)
        yield entries


def _check_range(breaks: Breaks, ref: RangeRef, entries: pa.Table, *, is_last: bool) -> None:
    if ref_of(entries) != ref:
        raise Invalid(f"the metarange says something else of range {ref.range_id} than is in it")
    ends = breaks.ends(entries, row_bytes(entries), 0, 0)
    if ends != [entries.num_rows] and not (is_last and not ends):
        raise Invalid(
            f"range {ref.range_id} does not end where it should: whoever made it must cut ranges as"
            f" this server does ({breaks})"
        )
