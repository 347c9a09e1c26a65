"""Validation of a metarange written outside of the engine, before anything is built on it.

All files are read from the storage and verified by their ids, then compared with the engine's own
output: rising keys, range ends at the required keys, a correct reference to each range. The
contents of entries are for the caller to check.
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
    """Yield the entries of each range in key order, without caching them.

    Raises:
        Invalid: The engine would have made a different metarange of these entries.
        InvalidEntries: A range does not contain entries.
        UnsortedEntries: The keys do not rise.
        MissingFile, DamagedFile, ForeignFile: A file is missing or its content is wrong.
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
        raise Invalid(
            f"the metarange's reference to range {ref.range_id} does not match its contents"
        )
    ends = breaks.ends(entries, row_bytes(entries), 0, 0)
    if ends != [entries.num_rows] and not (is_last and not ends):
        raise Invalid(
            f"range {ref.range_id} ends at the wrong key: cut ranges as this server does ({breaks})"
        )
