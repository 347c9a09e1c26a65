"""Validation of metaranges built outside of the server for an import.

A handed-in metarange could reference any object: a repository's, by an address relative to the
namespace, or one in a location from which the user is not allowed to import. So the server rebuilds
every entry from its address, size, time and ETag, and compares whole columns. Only the listing's
data of each object is trusted: if wrong, reads of the object fail as changed.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import quoted
from lakebed.block import Address
from lakebed.engine.committed.columns import Range
from lakebed.formats import AddressType
from lakebed.formats.imported import imported_object, imported_page, listed_of
from lakebed.lake.errors import InvalidImport, NothingToImport
from lakebed.lake.imports.sources import ImportSource

_TYPES: Final = "^[ -~]{0,100}$"
_ETAGS: Final = "^[!#-~]{1,256}$"


def check_entries(tables: Iterable[pa.Table], sources: Sequence[ImportSource]) -> int:
    """Check that an import of `sources` makes each of these entries; return their number.

    Both arguments are sorted, by key and by destination. Raises `InvalidImport` for an entry that
    the import does not make, and `NothingToImport` for a source without entries.
    """
    counts = [0] * len(sources)
    for table in tables:
        found = Range(table)
        outside = table.num_rows
        for place, source in enumerate(sources):
            rows = found.between(source.interval.start, source.interval.end)
            if rows.num_rows:
                _check_rows(rows, source)
                counts[place] += rows.num_rows
                outside -= rows.num_rows
        if outside:
            raise InvalidImport(
                f"the handed-in metarange has {outside} keys outside of all destinations,"
                f" between {quoted(found.keys[0])} and {quoted(found.keys[-1])}"
            )
    for source, count in zip(sources, counts, strict=True):
        if not count:
            raise NothingToImport(source.place)
    return sum(counts)


def _check_rows(rows: pa.Table, source: ImportSource) -> None:
    addresses, place = rows["address"], str(source.place)
    relative = pc.not_equal(rows["address_type"], int(AddressType.FULL))
    _refuse_any(relative, rows, "references its object by a relative address")
    is_outside = pc.invert(pc.starts_with(addresses, place))
    _refuse_any(is_outside, rows, f"references an object outside of {place}")
    listed = listed_of(rows)
    if listed is None:
        _refuse(rows, 0, "or another entry lacks the storage's ETag")
    etags = pc.match_substring_regex(listed["etag"], _ETAGS)
    _refuse_any(pc.invert(etags), rows, "has an invalid ETag")
    _refuse_any(pc.less(rows["size"], 0), rows, "has a negative size")
    if isinstance(source.place, Address):
        made = imported_object(listed, source.destination)
        _refuse_any(
            pc.not_equal(addresses, place), rows, f"references an object other than {place}"
        )
    else:
        made = imported_page(listed, place, source.destination)
        if len(made.skipped_keys):
            _refuse(rows, 0, "or another entry has a path that cannot be imported")
    # The job's guess of types may differ: its Python may be another one.
    types = rows["content_type"]
    _refuse_any(
        pc.invert(pc.match_substring_regex(types, _TYPES)), rows, "has an invalid content type"
    )
    column = made.entries.schema.get_field_index("content_type")
    field = made.entries.schema.field(column)
    if not made.entries.set_column(column, field, types).equals(rows):
        _refuse(rows, 0, "or another entry differs from an imported one")


def _refuse_any(is_wrong: pa.ChunkedArray, rows: pa.Table, why: str) -> None:
    place = pc.index(is_wrong, value=True).as_py()
    if place >= 0:
        _refuse(rows, place, why)


def _refuse(rows: pa.Table, place: int, why: str) -> NoReturn:
    key, address = (rows[name][place].as_py() for name in ("key", "address"))
    raise InvalidImport(
        f"the handed-in metarange is refused: the entry of {quoted(key)} ({address!r}) {why}"
    )
