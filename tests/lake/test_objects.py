"""Reading, listing and deleting objects."""

import re

import pytest

from lakebed.base.actor import Actor, acting_as
from lakebed.block import Between, FromOffset, NotSupported, RangeNotSatisfiable, Suffix
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.errors import BranchNotFound, EntryNotFound, Protected, ReadOnly, RefNotFound
from lakebed.engine.model import BranchID
from lakebed.formats import AddressType
from lakebed.lake.checksums import Checksum
from lakebed.lake.commits import HeadChanges
from lakebed.lake.entry_metadata import for_checksum
from lakebed.lake.errors import ChangedBytes, InvalidPath, MissingBytes, UnreadableAddress
from lakebed.lake.model import ObjectStats, identity_of, new_entry
from lakebed.lake.object_pages import ObjectPage
from tests.kit import staging
from tests.kit.lake import MAIN, REPOSITORY, Lake

REQUEST = CommitRequest(committer="ann", message="m")


def names(lake: Lake, query: EntryQuery, ref: str = "main") -> list[bytes]:
    page = lake.catalog.objects.list_objects(REPOSITORY, ref, query)
    return [item.key if isinstance(item, CommonPrefix) else item.path for item in page.items]


@pytest.mark.parametrize(
    ("byte_range", "expected"),
    [(None, "0123456789"), (Between(2, 5), "234"), (FromOffset(8), "89"), (Suffix(3), "789")],
)
def test_some_bytes_of_an_object(
    lake: Lake, byte_range: Between | FromOffset | Suffix | None, expected: str
) -> None:
    lake.upload(b"a", "0123456789")
    stats = lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    with lake.catalog.objects.read(stats, byte_range=byte_range) as stream:
        assert b"".join(stream).decode() == expected
    assert stats.size == 10


def test_a_range_beyond_the_object(lake: Lake) -> None:
    lake.upload(b"a", "0123456789")
    stats = lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    with pytest.raises(RangeNotSatisfiable):
        lake.catalog.objects.read(stats, byte_range=FromOffset(10))


def test_an_object_whose_bytes_are_gone(lake: Lake) -> None:
    lake.upload(b"a", "x")
    stats = lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    lake.block.delete(stats.address)
    with pytest.raises(MissingBytes, match="missing"):
        lake.catalog.objects.read(stats)


@pytest.mark.parametrize("kinds", ["first", "last", "alone"])
def test_an_entry_with_an_unreadable_address_does_not_stop_a_listing(
    lake: Lake, kinds: str
) -> None:
    """Entries moved in from lakeFS before addresses were checked."""
    bad = "local:///var/lakefs/data/b"

    def stage(path: bytes, address: str) -> None:
        entry = new_entry(
            path, address, address_type=AddressType.FULL, size=1, checksum="", modified=0,
            content_type="", metadata={},
        )  # fmt: skip
        staging.put(lake.engine, REPOSITORY, MAIN, entry)

    stage(b"b", bad)
    others = {} if kinds == "alone" else {b"a" if kinds == "last" else b"c": "s3://other/x"}
    for path, address in others.items():
        stage(path, address)
    page = lake.catalog.objects.list_objects(REPOSITORY, "main", EntryQuery())
    expected = dict(sorted({b"b": bad, **others}.items()))
    begin, rest = page.addresses()
    assert [begin + each for each in rest.to_pylist()] == list(expected.values())
    assert {item.path: str(item.location) for item in stats_in(page)} == expected
    stats = lake.catalog.objects.stat(REPOSITORY, "main", b"b")
    for read in (lake.catalog.objects.read, lake.catalog.objects.presign):
        with pytest.raises(UnreadableAddress, match=f"'b' cannot be read: .* {bad!r}"):
            read(stats)
    with pytest.raises(UnreadableAddress):
        lake.catalog.copies.copy(REPOSITORY, MAIN, b"d", source_ref="main", source_path=b"b")


def stats_in(page: ObjectPage) -> list[ObjectStats]:
    return [item for item in page.items if isinstance(item, ObjectStats)]


def test_what_is_not_there(lake: Lake) -> None:
    objects = lake.catalog.objects
    with pytest.raises(EntryNotFound):
        objects.stat(REPOSITORY, "main", b"a")
    with pytest.raises(RefNotFound):
        objects.stat(REPOSITORY, "other", b"a")


def test_listing_what_is_staged_and_committed(lake: Lake) -> None:
    for path in (b"a", b"a/b", b"a/c", b"d/e", b"f"):
        lake.upload(path, "x")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"f")
    lake.upload(b"g", "x")
    assert names(lake, EntryQuery()) == [b"a", b"a/b", b"a/c", b"d/e", b"g"]
    assert names(lake, EntryQuery(delimiter=b"/")) == [b"a", b"a/", b"d/", b"g"]
    assert names(lake, EntryQuery(prefix=b"a/", after=b"a/b")) == [b"a/c"]
    assert names(lake, EntryQuery(), "main@") == [b"a", b"a/b", b"a/c", b"d/e", b"f"]
    page = lake.catalog.objects.list_objects(REPOSITORY, "main", EntryQuery(amount=2))
    assert page.has_more


def test_listed_objects_are_as_they_were_uploaded(lake: Lake) -> None:
    upload = lake.catalog.uploads.upload
    stats = upload(REPOSITORY, MAIN, b"a", [b"x"], metadata={"k": "v"})
    (found,) = lake.catalog.objects.list_objects(REPOSITORY, "main", EntryQuery()).items
    assert isinstance(found, ObjectStats)
    assert found.metadata == {"k": "v"}
    assert found.address == stats.address


def test_deleting_what_is_there_and_what_is_not(lake: Lake) -> None:
    lake.upload(b"a", "x")
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"never")
    assert names(lake, EntryQuery()) == []
    assert len(lake.stored()) == 1, "its bytes stay until they are collected"
    with pytest.raises(InvalidPath):
        lake.catalog.objects.delete(REPOSITORY, MAIN, b"")


def test_deleting_many_tells_which_could_not_be(lake: Lake) -> None:
    paths = [b"p%03d" % number for number in range(100)]
    for path in paths[:10]:
        lake.upload(path, "x")
    failed = lake.catalog.objects.delete_many(REPOSITORY, MAIN, [*paths, b"", b"q" * 2000])
    assert names(lake, EntryQuery()) == []
    assert [each.path for each in failed] == [b"", b"q" * 2000]
    assert all(isinstance(each.error, InvalidPath) for each in failed)


def test_deleting_many_by_force_reaches_all_helpers(lake: Lake) -> None:
    paths = [b"p%03d" % number for number in range(100)]
    for path in paths:
        lake.upload(path, "x")
    lake.engine.repositories.set_read_only(REPOSITORY, read_only=True)
    with pytest.raises(ReadOnly):
        lake.catalog.objects.delete_many(REPOSITORY, MAIN, paths)
    with acting_as(Actor(force=True)):
        assert lake.catalog.objects.delete_many(REPOSITORY, MAIN, paths) == []
    assert names(lake, EntryQuery()) == []


def test_deleting_many_where_nothing_can_be_deleted(lake: Lake) -> None:
    with pytest.raises(BranchNotFound):
        lake.catalog.objects.delete_many(REPOSITORY, BranchID("other"), [b"a"])
    lake.engine.protection.set(lake.repository, ["main"])
    with pytest.raises(Protected):
        lake.catalog.objects.delete_many(REPOSITORY, MAIN, [b"a"])


def test_a_storage_that_signs_nothing(lake: Lake) -> None:
    lake.upload(b"a", "x")
    with pytest.raises(NotSupported):
        lake.catalog.objects.presign(lake.catalog.objects.stat(REPOSITORY, "main", b"a"))


def test_an_identity_covers_all_but_where_and_when() -> None:
    """Parts cannot be moved over into their neighbours."""
    base = (1, "sum", "type", {"k": "v", "l": "w"})
    others = [
        (2, "sum", "type", {"k": "v", "l": "w"}),
        (1, "sun", "type", {"k": "v", "l": "w"}),
        (1, "sum", "typ", {"ek": "v", "l": "w"}),
        (1, "sumt", "ype", {"k": "v", "l": "w"}),
        (1, "sum", "type", {"k": "vl", "": "w"}),
        (1, "sum", "type", {}),
    ]
    identities = [identity_of(*each) for each in [base, *others]]
    assert len(set(identities)) == len(identities)
    assert identity_of(1, "sum", "type", {"l": "w", "k": "v"}) == identities[0]
    # The bytes are the same, by whatever they were proved.
    proved = for_checksum(Checksum("crc32", "AAAAAA=="))
    assert identity_of(1, "sum", "type", {"l": "w", "k": "v", **proved}) == identities[0]


def test_the_same_bytes_again_change_nothing(lake: Lake) -> None:
    lake.upload(b"a", "x")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    lake.upload(b"a", "x")
    page = lake.engine.reader.list_changes(REPOSITORY, MAIN, EntryQuery())
    assert page.items == []


def test_bytes_that_were_changed_are_brought_back_as_the_error_says(lake: Lake) -> None:
    lake.upload(b"a", "stored")
    first = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit
    stats = lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    lake.block.put(stats.address, [b"changed"])
    advice = "upload the data again (if it is committed, first delete it and commit the deletion"
    with pytest.raises(ChangedBytes, match=re.escape(advice)):
        lake.text("main", b"a")
    # To upload it and no more would not help: a commit takes it for what is there.
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    lake.upload(b"a", "stored")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    assert lake.text("main", b"a") == "stored"
    with pytest.raises(ChangedBytes):
        lake.text(first.id, b"a")
