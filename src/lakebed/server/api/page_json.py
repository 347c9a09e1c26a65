"""Pages of objects and differences as JSON, built from whole columns.

The bytes are the same as `msgspec` encodes from the structs of `lakebed.wire`, row by row.
"""

from collections.abc import Hashable
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.lru import LRU
from lakebed.base.runtime import ThreadRuntime
from lakebed.engine.committed.columns import ChangeType
from lakebed.engine.committed.listing import EntryPage as Found
from lakebed.lake.diff import DifferencePage
from lakebed.lake.object_pages import ObjectPage
from lakebed.server.api.pages import pagination_of
from lakebed.server.api.request import as_text
from lakebed.server.http.text_columns import (
    Escaping,
    all_but,
    joined,
    rows_of,
    seconds_of,
    texts_of,
)
from lakebed.wire.base import Page
from lakebed.wire.objects import ObjectStats
from lakebed.wire.refs import Diff

_encode: Final = msgspec.json.Encoder().encode


def _escaped(text: str) -> str:
    return _encode(text)[1:-1].decode()


_json: Final = Escaping(_escaped, plain=all_but(bytes(range(32)) + b'"\\'))

_TYPES: Final = pa.array(["", "added", "changed", "removed"])


_CACHE_BYTES: Final = 16 << 20
_NAME_BYTES: Final = 4096
"""The maximum size of a page's cache key."""
_cache: Final[LRU[Hashable, bytes]] = LRU(ThreadRuntime(), cost_max=_CACHE_BYTES)
"""Cache of pages of commits, which never change: encoding them takes longer than finding them, and
listings are often repeated."""


def objects_page(page: ObjectPage, *, user_metadata: bool) -> Page[ObjectStats]:
    """Return a page of objects."""
    if page.follows_from is None:
        return _page(page, _objects(page, user_metadata=user_metadata))
    name = (page.follows_from, user_metadata)
    items = _cache.get(name)
    if items is None:
        items = _objects(page, user_metadata=user_metadata)
        _cache.put(name, items, cost=len(items) + _NAME_BYTES)
    return _page(page, items)


def _objects(page: ObjectPage, *, user_metadata: bool) -> bytes:
    metadata = [',"metadata":{', *_metadata(page.user_metadata()), "}"] if user_metadata else []
    begin, addresses = page.addresses()
    rows = rows_of(
        '{"path":"',
        _json(texts_of(page.column("key"))),
        f'","path_type":"object","physical_address":"{_escaped(begin)}',
        _json(addresses),
        '","checksum":"',
        _json(page.etags()),
        '","mtime":',
        seconds_of(page.column("mtime")),
        ',"size_bytes":',
        page.column("size").cast(pa.string()),
        *metadata,
        ',"content_type":"',
        _json(page.column("content_type")),
        '"},',
    )
    return _items(page, rows, [_encode(common_prefix(each.key)) for each in page.folded])


def common_prefix(key: bytes) -> ObjectStats:
    """Return a common prefix as one item."""
    return ObjectStats(
        path=as_text(key), path_type="common_prefix", physical_address="", checksum="", mtime=0
    )


def differences_page(
    page: DifferencePage, *, uncommitted: bool = False, with_stats: bool = False
) -> Page[Diff]:
    """Return a page of differences, with the properties of the right objects if `with_stats`.

    As in lakeFS, a removed object has size 0 if the removal is uncommitted.
    """
    change = page.column("change")
    is_removed = pc.equal(change, pa.scalar(int(ChangeType.REMOVED), pa.int8()))
    kinds = _TYPES.take(change)
    if "conflict" in page.rows.column_names:
        kinds = pc.if_else(page.column("conflict"), "conflict", kinds)
    sizes = page.column("size").cast(pa.string())
    rows = rows_of(
        '{"type":"',
        kinds,
        '","path":"',
        _json(texts_of(page.column("key"))),
        '","path_type":"object","size_bytes":',
        pc.if_else(is_removed, "0", sizes) if uncommitted else sizes,
        *([pc.if_else(is_removed, "", _right(page))] if with_stats else []),
        "},",
    )
    prefixes = [
        Diff(type="prefix_changed", path=as_text(each.key), path_type="common_prefix")
        for each in page.folded
    ]
    return _page(page, _items(page, rows, [_encode(prefix) for prefix in prefixes]))


def _right(page: DifferencePage) -> pa.Array:
    shown = [
        pc.if_else(pc.equal(inside, ""), "", rows_of(',"metadata":{', inside, "}"))
        for inside in _metadata(page.user_metadata())
    ]
    return rows_of(
        ',"right":{"checksum":"',
        _json(page.etags()),
        '","mtime":',
        seconds_of(page.column("mtime")),
        ',"content_type":"',
        _json(page.column("content_type")),
        '"',
        *shown,
        "}",
    )


def _metadata(maps: pa.MapArray | None) -> list[pa.Array]:
    """Return a column with the JSON members of each map; no column if `maps` is None."""
    if maps is None:
        return []
    ends = maps.offsets
    first, last = ends[0].as_py(), ends[-1].as_py()
    names, values = (_json(each[first:last]) for each in (maps.keys, maps.items))
    pairs = rows_of('"', names, '":"', values, '"')
    return [pc.binary_join(pa.ListArray.from_arrays(pc.subtract(ends, first), pairs), ",")]


def _items(page: Found[Any], rows: pa.Array, prefixes: list[bytes]) -> bytes:
    """Return the items of a page as a JSON list: rows, with prefixes between them."""
    places = (each.rows_before for each in page.folded)
    between = [(place, text + b",") for place, text in zip(places, prefixes, strict=True)]
    return b"[%b]" % joined(rows, between)[:-1]  # without the last comma


def _page(page: Found[Any], items: bytes) -> Page[Any]:
    return Page(
        pagination=pagination_of(len(page), has_more=page.has_more, last=as_text(page.last)),
        results=msgspec.Raw(items),  # type: ignore[arg-type]  # already encoded as JSON
    )
