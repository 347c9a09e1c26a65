"""Purging: what is deleted, what stays, and what those are told who read it later."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.block import Address, DeleteResult, Forbidden
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed.files import Files
from lakebed.engine.model import BranchID, CommitID
from lakebed.formats import RangeID
from lakebed.formats.purge_files import decode_purge
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import InvalidPurge, MissingBytes, Purged
from lakebed.lake.multipart.records import NamedPart, Target
from lakebed.lake.purge_marks import CopyWatch, PurgeMarks
from lakebed.reclaim import purges
from lakebed.reclaim.purges import PurgeProgress, PurgeReport
from lakebed.reclaim.references import PurgeQuery, PurgeSearch
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, open_lake
from tests.kit.rounds import stores
from tests.kit.unfinished import completed_half, linked_half

REQUEST = CommitRequest(committer="ann", message="m")


@pytest.fixture(params=stores("memory", "disk"))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with open_lake(request.param, tmp_path) as opened:
        # No commit is under way in these tests.
        opened.reclaim.purges._settle_seconds = 0.01
        yield opened


def commit(lake: Lake) -> CommitID:
    return HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id


def by_path(path: str) -> PurgeQuery:
    return PurgeQuery("path", path.encode())


def purge(lake: Lake, query: PurgeQuery) -> PurgeReport:
    return lake.reclaim.purges.purge(REPOSITORY, query, reason="asked for", username="ada")


def test_a_path_goes_from_all_history_and_all_else_stays(lake: Lake) -> None:
    lake.upload(b"a", "first")
    first = commit(lake)
    lake.upload(b"a", "second")
    lake.upload(b"kept", "kept")
    second = commit(lake)
    lake.upload(b"a", "staged")
    report = purge(lake, by_path("a"))
    assert (report.objects, report.deleted, report.bytes) == (3, 3, len("firstsecondstaged"))
    for ref in (first, second, "main"):
        with pytest.raises(Purged, match=r"the data of 'a' was purged on 20\d\d-.*: asked for"):
            lake.text(ref, b"a")
        assert lake.catalog.objects.stat(REPOSITORY, ref, b"a").path == b"a"
    assert lake.text(second, b"kept") == "kept"
    assert lake.engine.commits.get(lake.repository, second).parents == (first,)
    assert len(lake.stored()) == 1


def test_the_progress_tells_that_the_bytes_are_gone_before_the_second_search(lake: Lake) -> None:
    lake.upload(b"a", "text")
    commit(lake)
    told: list[tuple[str, int, bool]] = []

    def tell(progress: PurgeProgress) -> None:
        report = progress.report
        deleted = 0 if report is None else report.deleted
        told.append((progress.step, deleted, bool(progress.searches_again)))
        assert len(lake.stored()) == (0 if deleted else 1)

    lake.reclaim.purges.purge(
        REPOSITORY, by_path("a"), reason="r", username="u", report_progress=tell
    )
    assert told == [("searching", 0, False), ("waiting", 1, True), ("searching again", 1, False)]


def test_a_dry_run_changes_nothing_and_tells_what_else_there_is(lake: Lake) -> None:
    lake.upload(b"a", "text")
    commit(lake)
    lake.catalog.copies.copy(REPOSITORY, MAIN, b"shares", source_ref="main", source_path=b"a")
    lake.upload(b"alike", "text")
    place = Address.parse(f"{lake.block.scheme}://lake/elsewhere/x")
    lake.catalog.external.stage(REPOSITORY, DEV, b"a", place, checksum="c", size=1)
    before = lake.stored()
    report = lake.reclaim.purges.plan(REPOSITORY, by_path("a"))
    assert (report.dry_run, report.objects, report.deleted) == (True, 1, 0)
    assert (report.paths.first, report.also_at.first) == (["a"], ["shares"])
    assert (report.same_content.first, report.elsewhere.first) == (["alike"], [str(place)])
    assert lake.stored() == before
    assert lake.text("main", b"a") == "text"


def test_a_checksum_finds_copies_and_a_prefix_finds_a_folder(lake: Lake) -> None:
    lake.upload(b"a", "same")
    lake.upload(b"b", "same")
    lake.upload(b"people/1", "1")
    lake.upload(b"people/2", "2")
    lake.upload(b"people", "kept")
    commit(lake)
    checksum = lake.catalog.objects.stat(REPOSITORY, "main", b"a").checksum
    assert purge(lake, PurgeQuery("checksum", checksum.encode())).deleted == 2
    assert purge(lake, PurgeQuery("prefix", b"people/")).deleted == 2
    assert lake.text("main", b"people") == "kept"
    assert len(lake.stored()) == 1


def test_every_range_is_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        lake.upload(b"a", "1")
        lake.upload(f"b{number}".encode(), str(number))
        commit(lake)
        lake.engine.refs.create_branch(REPOSITORY, BranchID(f"branch-{number}"), "main")
    read: list[RangeID] = []
    load = Files.load_range

    def count(self: Files, range_id: RangeID) -> pa.Table:
        read.append(range_id)
        return load(self, range_id)

    monkeypatch.setattr(Files, "load_range", count)
    lake.reclaim.purges.plan(REPOSITORY, by_path("a"))
    assert len(read) == 2 * len(set(read))  # two searches


def test_the_record_says_who_what_and_why(lake: Lake) -> None:
    lake.upload(b"a", "text")
    report = purge(lake, by_path("a"))
    folder = lake.repository.namespace.folder(f"_lakebed/purges/{report.purge_id}")
    (batch,) = lake.block.list_objects(folder)
    (file,) = map(Address.parse, batch.column("address").to_pylist())
    content_id = file.path.rpartition("/")[2].removesuffix(".parquet")
    (row,) = decode_purge(lake.block.read(file), content_id, file=str(file)).to_pylist()
    assert (row["key"], row["reason"], row["username"]) == (b"a", "asked for", "ada")
    assert row["purged_us"] >= row["requested_us"] > 0
    assert (row["error"], row["versions"]) == ("", 1)


def test_the_record_is_there_before_anything_is_deleted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge that dies has left a record of what it may have deleted."""
    lake.upload(b"a", "text")
    address = lake.catalog.objects.stat(REPOSITORY, "main", b"a").address
    folder = lake.repository.namespace.folder("_lakebed/purges")
    delete, recorded = type(lake.block).delete_versions, list[tuple[str, int]]()

    def look_first(self: object, addresses: Sequence[Address]) -> list[DeleteResult]:
        for batch in lake.block.list_objects(folder):
            for file in map(Address.parse, batch.column("address").to_pylist()):
                content_id = file.path.rpartition("/")[2].removesuffix(".parquet")
                rows = decode_purge(lake.block.read(file), content_id, file=str(file)).to_pylist()
                recorded.extend((row["address"], row["purged_us"]) for row in rows)
        return delete(self, addresses)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.block), "delete_versions", look_first)
        purge(lake, by_path("a"))
    assert recorded[0] == (str(address), 0)


@pytest.mark.parametrize("make", [linked_half, completed_half])
def test_what_was_decided_and_is_not_staged_is_found(
    lake: Lake, make: Callable[[Lake], None]
) -> None:
    """The request may stage it at any time, or a repeat of it."""
    lake.upload(b"there", "staged")
    make(lake)
    assert len(lake.stored()) == 2
    assert purge(lake, by_path("there")).deleted == 2
    assert lake.stored() == []


def test_entries_committed_during_a_search_are_found(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Staged entries are searched before commits, the way in which they move."""
    lake.upload(b"a", "text")
    made: list[CommitID] = []

    def then_commit(name: str) -> None:
        read = getattr(PurgeSearch, name)

        def reading(self: PurgeSearch) -> Iterator[pa.Table]:
            yield from read(self)
            if not made:
                made.append(commit(lake))

        monkeypatch.setattr(PurgeSearch, name, reading)

    then_commit("_staged")
    then_commit("_committed")
    tables = PurgeSearch(lake.engine, lake.store, lake.repository).tables()
    assert b"a" in [key for table in tables for key in table.column("key").to_pylist()]
    assert made


def test_marks_come_back_with_a_restore(lake: Lake) -> None:
    lake.upload(b"a", "text")
    commit(lake)
    purge(lake, by_path("a"))
    address = lake.catalog.objects.stat(REPOSITORY, "main", b"a").address
    for item in list(lake.store.scan(b"purges")):
        lake.store.delete(b"purges", item.key)
    with pytest.raises(MissingBytes) as failed:
        lake.text("main", b"a")
    assert failed.value.kind == "missing_bytes"
    marks = PurgeMarks(lake.store)
    assert marks.restore(lake.repository, lake.block) == 1
    found = marks.find(address)
    assert found is not None
    assert found.reason == "asked for"
    with pytest.raises(Purged):
        lake.text("main", b"a")


def test_a_concurrent_upload_to_the_path_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """But the same bytes are meant wherever they come from, if a checksum was named."""
    lake.upload(b"a", "secret")
    checksum = lake.catalog.objects.stat(REPOSITORY, "main", b"a").checksum

    def sleep(_self: object, _seconds: float) -> None:
        lake.upload(b"a", "harmless")
        lake.upload(b"b", "secret")

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.clock), "sleep", sleep)
        assert purge(lake, by_path("a")).deleted == 1
    assert lake.text("main", b"a") == "harmless"
    assert lake.text("main", b"b") == "secret"
    with monkeypatch.context() as patch:
        patch.setattr(type(lake.clock), "sleep", sleep)
        assert purge(lake, PurgeQuery("checksum", checksum.encode())).deleted == 2
    assert lake.text("main", b"a") == "harmless"
    with pytest.raises(Purged):
        lake.text("main", b"b")


def test_an_upload_behind_the_first_search_stays(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only that search goes beyond the request, for clocks that are ahead."""
    lake.upload(b"a", "secret")
    search, searches = PurgeSearch.tables, 0

    def searching(self: PurgeSearch) -> Iterator[pa.Table]:
        nonlocal searches
        yield from search(self)
        searches += 1
        if searches == 1:
            lake.upload(b"a", "harmless")

    monkeypatch.setattr(PurgeSearch, "tables", searching)
    assert purge(lake, by_path("a")).deleted == 1
    assert searches > 1
    assert lake.text("main", b"a") == "harmless"


def test_uploads_of_a_server_with_a_fast_clock_are_purged(lake: Lake) -> None:
    lake.clock.ahead_seconds += lake.settings.skew_seconds - 10
    lake.upload(b"a", "text")
    commit(lake)
    lake.clock.ahead_seconds -= lake.settings.skew_seconds - 10
    assert purge(lake, by_path("a")).deleted == 1
    with pytest.raises(Purged):
        lake.text("main", b"a")


def test_objects_restored_by_the_storage_are_deleted_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the recovery of a local storage may do after its process died."""
    lake.upload(b"a", "text")
    commit(lake)
    address = lake.catalog.objects.stat(REPOSITORY, "main", b"a").address

    def sleep(_self: object, _seconds: float) -> None:
        assert not lake.block.exists(address)
        lake.block.put(address, [b"text"])

    monkeypatch.setattr(type(lake.clock), "sleep", sleep)
    report = purge(lake, by_path("a"))
    assert (report.deleted, report.versions) == (1, 2)
    assert not lake.block.exists(address)


def test_a_restored_repository_knows_what_was_purged(lake: Lake) -> None:
    lake.upload(b"a", "text")
    commit(lake)
    purge(lake, by_path("a"))
    dump_id = lake.catalog.refs.dump(REPOSITORY)
    namespace = lake.repository.namespace
    lake.engine.repositories.delete(REPOSITORY)
    for item in list(lake.store.scan(b"purges")):  # as on another installation
        lake.store.delete(b"purges", item.key)
    lake.engine.repositories.create_bare(REPOSITORY, namespace)
    lake.catalog.refs.restore(REPOSITORY, dump_id)
    with pytest.raises(Purged, match="asked for"):
        lake.text("main", b"a")


def test_a_copy_under_way_is_dropped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes are there before the purge begins, its entry after the last search."""
    lake.upload(b"a", "text")
    address = lake.catalog.objects.stat(REPOSITORY, "main", b"a").address
    copy = type(lake.block).copy

    def then_purge(self: object, source: Address, target: Address, **options: object) -> None:
        copy(self, source, target, **options)  # type: ignore[arg-type]
        purge(lake, by_path("a"))

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.block), "copy", then_purge)
        with pytest.raises(Purged):
            lake.catalog.copies.copy(REPOSITORY, DEV, b"b", source_ref="main", source_path=b"a")
    assert not lake.exists(b"b", "dev")
    assert lake.stored() == []
    assert PurgeMarks(lake.store).find(address) is not None


def test_a_copy_is_looked_at_again_when_it_is_staged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge comes after the copy looked for a mark, and ends before the copy can be found."""
    lake.upload(b"a", "text")
    look = CopyWatch.__call__
    looked: list[bool] = []

    def then_purge(self: CopyWatch) -> bool:
        looked.append(look(self))
        if len(looked) == 1:
            purge(lake, by_path("a"))
        return looked[-1]

    with monkeypatch.context() as patch:
        patch.setattr(CopyWatch, "__call__", then_purge)
        with pytest.raises(Purged):
            lake.catalog.copies.copy(REPOSITORY, DEV, b"b", source_ref="main", source_path=b"a")
    assert looked == [True, False]
    assert not lake.exists(b"b", "dev")


@pytest.mark.parametrize(("branch", "is_committed"), [(MAIN, False), (MAIN, True), (DEV, True)])
def test_purged_addresses_are_not_copied(lake: Lake, branch: BranchID, is_committed: bool) -> None:
    lake.upload(b"a", "text")
    if is_committed:
        commit(lake)
    purge(lake, by_path("a"))
    with pytest.raises(Purged, match="asked for"):
        lake.catalog.copies.copy(REPOSITORY, branch, b"b", source_ref="main", source_path=b"a")
    assert not lake.exists(b"b", branch)


def test_a_copied_part_under_way_is_dropped(lake: Lake) -> None:
    lake.upload(b"a", "text")
    source = lake.catalog.objects.stat(REPOSITORY, "main", b"a").address
    upload_id = lake.catalog.multiparts.create(REPOSITORY, MAIN, b"b").id
    target = Target(REPOSITORY, MAIN, b"b", upload_id)
    part = lake.catalog.multiparts.put_part(target, 1, [b"text"], size=4, copied_from=source)
    purge(lake, by_path("a"))
    with pytest.raises(Purged):
        lake.catalog.completions.complete(target, [NamedPart(1, part.md5)])
    assert not lake.exists(b"b")
    assert lake.stored() == []


def test_failed_deletions_are_reported_and_can_be_repeated(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(b"a", "text")

    def refuse(_self: object, addresses: Sequence[Address]) -> list[DeleteResult]:
        return [DeleteResult(each, Forbidden(f"hands off {each}")) for each in addresses]

    with monkeypatch.context() as patch:
        patch.setattr(type(lake.block), "delete_versions", refuse)
        report = purge(lake, by_path("a"))
    assert (report.deleted, report.failed.count) == (0, 1)
    assert "hands off" in report.failed.first[0]
    assert lake.text("main", b"a") == "text"
    assert purge(lake, by_path("a")).deleted == 1
    with pytest.raises(Purged):
        lake.text("main", b"a")


@pytest.mark.parametrize("reason", ["", "x" * 1001])
def test_a_purge_needs_a_reason(lake: Lake, reason: str) -> None:
    with pytest.raises(InvalidPurge, match="needs a reason"):
        lake.reclaim.purges.purge(REPOSITORY, by_path("a"), reason=reason, username="ada")


def test_too_much_at_once_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purges, "OBJECTS_MAX", 2)
    for number in range(3):
        lake.upload(f"x/{number}".encode(), str(number))
    with pytest.raises(InvalidPurge, match="more than 2 objects would be purged at once"):
        purge(lake, PurgeQuery("prefix", b"x/"))
    assert len(lake.stored()) == 3
