"""Pages are written from whole columns: the same bytes as from values, row by row."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import Namespace
from lakebed.engine.committed import DIFF_SCHEMA, ChangeType, CommonPrefix, EntryPage, Folded
from lakebed.engine.committed.listing import differences_of
from lakebed.formats import AddressType, Entry, entries_of, entries_table
from lakebed.lake.diff import Difference, DifferencePage
from lakebed.lake.model import ObjectStats, stats_of
from lakebed.lake.object_pages import ObjectPage
from lakebed.server.api.operations.objects import wire_object
from lakebed.server.api.page_json import differences_page, objects_page
from lakebed.server.api.pages import page_of
from lakebed.server.api.request import ApiRequest, as_text
from lakebed.server.http.conditions import etag
from lakebed.server.s3.listings import ListingQuery, contents
from lakebed.server.s3.xml_writer import Markup, escaped, owner, timestamp
from lakebed.wire.objects import ObjectStats as WireStats
from lakebed.wire.refs import Diff, DiffObjectStat
from tests.engine.histories import REPOSITORY
from tests.server.kit import REPOSITORY as LAKE
from tests.server.kit import Server, server

_BRANCH = f"/repositories/{LAKE}/branches/main"
_AT = f"/repositories/{LAKE}/refs"

REQUEST = cast("ApiRequest", None)
"""Nothing is asked of it where no URL is signed."""

texts = st.one_of(
    st.text("abc/=. -%~*", max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["é", "°", "\u0085", "\ufffe", "a\nb", "\t", '"', "\\", "<&>", "\x7f", ""]),
)
paths = texts.map(lambda text: text.replace("\0", "") or "x")
keys = st.one_of(paths.map(str.encode), st.binary(min_size=1, max_size=6))
times = st.one_of(
    st.integers(0, 7_000_000_000_000_000), st.integers(-5_000_000_000_000, 5_000_000)
).map(lambda moment: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment))
metadata: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}),
    st.dictionaries(
        st.one_of(texts, st.sampled_from(["::lakebed::checksum", "::lakebed::parts", "colour"])),
        texts,
        max_size=3,
    ),
)


AZURE = "blob.core.windows.net"
stores = st.sampled_from(
    ["s3://bucket"] * 8
    + ["S3://bucket", "s3://bucket2", f"https://lake.{AZURE}/box", f"https://Lake.{AZURE}:443/box"]
)


@st.composite
def entries(draw: st.DrawFn, relative_share: int) -> Entry:
    relative = draw(st.integers(0, 9)) < relative_share
    path = draw(paths)
    return Entry(
        key=draw(keys),
        identity=b"i",
        address=path if relative else f"{draw(stores)}/{path}",
        address_type=AddressType.RELATIVE if relative else AddressType.FULL,
        size=draw(st.integers(0, 1 << 62)),
        checksum=draw(texts),
        mtime=draw(times),
        content_type=draw(texts),
        metadata=draw(metadata),
    )


@st.composite
def pages(draw: st.DrawFn) -> EntryPage[Entry]:
    found = draw(st.lists(entries(draw(st.sampled_from([10, 9, 0]))), max_size=6))
    before = draw(st.integers(0, 2))  # columns of pages begin anywhere in a range
    table = entries_table([*found[:before], *found]).slice(len(found[:before]))
    return EntryPage(
        table, draw(folded(len(found))), has_more=draw(st.booleans()), values_of=entries_of
    )


def folded(rows: int) -> st.SearchStrategy[list[Folded]]:
    each = st.builds(Folded, keys, st.integers(0, rows))
    return st.lists(each, max_size=3).map(
        lambda found: sorted(found, key=lambda prefix: prefix.rows_before)
    )


@given(pages(), st.booleans())
def test_objects_as_json(page: EntryPage[Entry], user_metadata: bool) -> None:
    found = objects_page(ObjectPage(REPOSITORY, page), user_metadata=user_metadata)
    results = [
        json_prefix(item) if isinstance(item, CommonPrefix)
        else wire_object(REQUEST, stats_of(REPOSITORY.namespace, item), user_metadata=user_metadata)
        for item in page.items
    ]  # fmt: skip
    last = results[-1].path if results else ""
    expected = page_of(results, has_more=page.has_more, last=last)
    assert msgspec.json.encode(found) == msgspec.json.encode(expected)


def test_the_json_of_a_page_is_kept_by_all_that_it_follows_from() -> None:
    def written(address: str, namespace: str, source: str | None, *, user_metadata: bool) -> bytes:
        entry = replace(full_entry(address), address_type=AddressType.RELATIVE)
        page = EntryPage(
            entries_table([replace(entry, metadata={"colour": "red"})]),
            has_more=False,
            values_of=entries_of,
            follows_from=source,
        )
        repository = replace(REPOSITORY, namespace=Namespace.parse(namespace))
        found = objects_page(ObjectPage(repository, page), user_metadata=user_metadata)
        return msgspec.json.encode(found)

    ours, theirs = "s3://ours/lake", "s3://theirs/lake"
    kept = written("a", ours, "commit", user_metadata=True)
    assert b"s3://ours/lake/a" in kept
    assert b"red" in kept
    assert written("b", ours, "commit", user_metadata=True) == kept  # it is not written again
    assert b"s3://theirs/lake/b" in written("b", theirs, "commit", user_metadata=True)
    assert b"red" not in written("b", ours, "commit", user_metadata=False)
    assert b"s3://ours/lake/b" in written("b", ours, "another", user_metadata=True)
    assert b"s3://ours/lake/a" in written("a", ours, None, user_metadata=True)
    assert b"s3://ours/lake/b" in written("b", ours, None, user_metadata=True)


@given(st.data())
def test_listings_show_what_is_there_whatever_was_listed_before(data: st.DataObject) -> None:
    names = [f"{folder}{letter}" for folder in ("", "x/", "y/") for letter in "ab"]
    steps = st.sampled_from(["put", "delete", "commit"])
    with server() as lake:
        there: set[str] = set()
        at_commits: dict[str, set[str]] = {}
        for _ in range(data.draw(st.integers(1, 12))):
            step, name = data.draw(steps), data.draw(st.sampled_from(names))
            if step == "put":
                lake.put(name)
                there.add(name)
            elif step == "delete":
                lake.call("DELETE", f"{_BRANCH}/objects", params={"path": name})
                there.discard(name)
            else:
                made = lake.call("POST", f"{_BRANCH}/commits", json={"message": "m"})
                if made.status_code == 201:
                    at_commits[made.json["id"]] = set(there)
            for ref, expected in {"main": there, **at_commits}.items():
                for prefix in ("", "x/"):
                    wanted = {name for name in expected if name.startswith(prefix)}
                    assert _listed(lake, ref, prefix) == sorted(wanted)


def _listed(lake: Server, ref: str, prefix: str) -> list[str]:
    answer = lake.call("GET", f"{_AT}/{ref}/objects/ls", params={"prefix": prefix})
    return [each["path"] for each in answer.json["results"]]


@pytest.mark.parametrize("wrong", ["s3://bucket/", "s3://bucket", "s3://bucket/a\0", "bucket/a"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_text_that_is_no_address_is_shown_among_addresses(wrong: str, is_first: bool) -> None:
    both = [wrong, "s3://bucket/a"] if is_first else ["s3://bucket/a", wrong]
    rows = [full_entry(address) for address in both]
    page = EntryPage(entries_table(rows), has_more=False, values_of=entries_of)
    found = objects_page(ObjectPage(REPOSITORY, page), user_metadata=True)
    listed = msgspec.json.decode(msgspec.json.encode(found))["results"]
    assert [each["physical_address"] for each in listed] == both


def full_entry(address: str) -> Entry:
    return Entry(
        key=b"k",
        identity=b"i",
        address=address,
        address_type=AddressType.FULL,
        size=1,
        checksum="",
        mtime=datetime(2026, 1, 1, tzinfo=UTC),
        content_type="",
        metadata={},
    )


def json_prefix(item: CommonPrefix) -> WireStats:
    return WireStats(
        path=as_text(item.key),
        path_type="common_prefix",
        physical_address="",
        checksum="",
        mtime=0,
    )


@st.composite
def difference_pages(draw: st.DrawFn) -> DifferencePage:
    page = draw(pages())
    changes = draw(
        st.lists(st.sampled_from(ChangeType), min_size=len(page.items), max_size=len(page.items))
    )[: page.rows.num_rows]
    rows = page.rows.add_column(0, DIFF_SCHEMA.field(0), pa.array(changes, pa.int8()))
    if draw(st.booleans()):
        flags = [draw(st.booleans()) for _ in changes]
        rows = rows.append_column("conflict", pa.array(flags, pa.bool_()))
    return DifferencePage(
        EntryPage(rows, page.folded, has_more=page.has_more, values_of=differences_of)
    )


@given(difference_pages(), st.booleans(), st.booleans())
def test_differences_as_json(page: DifferencePage, uncommitted: bool, with_stats: bool) -> None:
    results = [
        json_difference(item, uncommitted=uncommitted, with_stats=with_stats) for item in page.items
    ]
    last = results[-1].path if results else ""
    expected = page_of(results, has_more=page.has_more, last=last)
    found = differences_page(page, uncommitted=uncommitted, with_stats=with_stats)
    assert msgspec.json.encode(found) == msgspec.json.encode(expected)


def json_difference(
    item: Difference | CommonPrefix, *, uncommitted: bool, with_stats: bool
) -> Diff:
    if isinstance(item, CommonPrefix):
        return Diff(type="prefix_changed", path=as_text(item.key), path_type="common_prefix")
    is_there = item.change is not ChangeType.REMOVED
    right = DiffObjectStat(
        checksum=item.checksum,
        mtime=int(item.mtime.timestamp()),
        content_type=item.content_type,
        metadata=dict(item.metadata),
    )
    return Diff(
        type="conflict" if item.conflict else item.change.name.lower(),
        path=as_text(item.path),
        path_type="object",
        size_bytes=item.size if is_there or not uncommitted else 0,
        right=right if with_stats and is_there else None,
    )


@given(pages(), st.booleans(), st.sampled_from(["", "admin"]), st.sampled_from(["main/", "é=/"]))
def test_objects_as_xml(
    page: EntryPage[Entry], is_encoded: bool, owner_id: str, folder: str
) -> None:
    asked = ListingQuery(prefix="", delimiter="", amount=1000, is_encoded=is_encoded)
    owned = owner(owner_id) if owner_id else Markup()
    objects = ObjectPage(REPOSITORY, page)
    rows = [item for item in objects.items if isinstance(item, ObjectStats)]
    expected = "".join(xml_contents(asked, folder, item, owned) for item in rows)
    assert contents(asked, folder, objects, owned) == expected


def xml_contents(asked: ListingQuery, folder: str, item: ObjectStats, owned: str) -> str:
    key = folder + item.path.decode(errors="replace")
    return (
        f"<Contents><Key>{escaped(asked.text(key))}</Key>"
        f"<LastModified>{timestamp(item.mtime)}</LastModified>"
        f"<ETag>{escaped(etag(item.checksum))}</ETag><Size>{item.size}</Size>"
        f"<StorageClass>STANDARD</StorageClass>{owned}</Contents>"
    )
