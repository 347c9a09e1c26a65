"""Imports: what exists becomes entries of a branch, once, and stays what it was."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.base.actor import Actor, acting_as
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LIST_SCHEMA, Address, InvalidAddress, Namespace, StorageUnavailable
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import BranchNotFound, DirtyBranch
from lakebed.engine.model import RepositoryID
from lakebed.formats import AddressType, boundaries, imported
from lakebed.formats.imported import ImportedPage, imported_page
from lakebed.lake.catalog import Catalog
from lakebed.lake.errors import (
    AddressClosed,
    AddressTaken,
    ChangedBytes,
    ImportOver,
    InvalidImport,
    MissingBytes,
    TaskNotFound,
)
from lakebed.lake.imports import listing, run, runner
from lakebed.lake.imports.imports import ImportID, ImportProgress
from lakebed.lake.imports.listing import list_in_order
from lakebed.lake.imports.run import LeasedImport
from lakebed.lake.imports.sources import ImportSource, in_order
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, open_lake
from tests.kit.receiver import PATIENCE_SECONDS


def outside(lake: Lake, folder: str = "outside") -> Namespace:
    return Namespace.parse(f"{lake.block.scheme}://data/{folder}")


def fill(lake: Lake, *paths: str, folder: str = "outside") -> Namespace:
    """Write objects that no repository knows; the content of each is its path."""
    namespace = outside(lake, folder)
    for path in paths:
        lake.block.put(namespace.address(path), [path.encode()])
    return namespace


def prefix(lake: Lake, destination: bytes = b"", folder: str = "outside") -> ImportSource:
    return ImportSource.of_prefix(outside(lake, folder), destination)


def start(lake: Lake, *sources: ImportSource, strict: bool = False) -> ImportID:
    return lake.catalog.imports.start(
        REPOSITORY, MAIN, sources, committer="ann", message="import", strict=strict
    )


def done(lake: Lake, import_id: ImportID) -> ImportProgress:
    return lake.catalog.imports.status(REPOSITORY, MAIN, import_id)


def import_all(lake: Lake, *sources: ImportSource) -> ImportProgress:
    status = done(lake, start(lake, *sources))
    assert status.error is None
    assert status.completed
    return status


def paths(lake: Lake, ref: str = "main") -> list[bytes]:
    page = lake.catalog.objects.list_objects(REPOSITORY, ref, EntryQuery(amount=1000))
    return [item.path for item in page.items]  # type: ignore[union-attr]


def commit(lake: Lake, message: str) -> None:
    lake.catalog.commits.commit(REPOSITORY, MAIN, CommitRequest(committer="ann", message=message))


@pytest.fixture
def waiting(lake: Lake) -> Lake:
    """The same lake, with imports that wait until somebody runs them."""
    lake.catalog = Catalog(
        lake.engine, lake.store, lake.block, lake.clock, lake.settings, runs_imports=False
    )
    return lake


def test_a_prefix_is_imported_without_copying(lake: Lake) -> None:
    fill(lake, "a.txt", "b/1", "b/2", "z")
    status = import_all(lake, prefix(lake, b"lake"))
    assert (status.objects, status.skipped) == (4, 0)
    assert status.commit is not None
    assert (status.commit.message, status.commit.committer) == ("import", "ann")
    assert paths(lake) == [b"lake/a.txt", b"lake/b/1", b"lake/b/2", b"lake/z"]
    assert lake.text("main", b"lake/b/2") == "b/2"
    assert lake.stored() == []
    entry = staging.get(lake.engine, REPOSITORY, "main", b"lake/b/2")
    assert (entry.address_type, entry.size) == (AddressType.FULL, 3)


def test_an_import_by_force_is_forced_where_it_runs(waiting: Lake) -> None:
    fill(waiting, "a")
    waiting.engine.repositories.set_read_only(REPOSITORY, read_only=True)
    with acting_as(Actor(user="bea", force=True)):
        import_id = start(waiting, prefix(waiting, b"lake"))
    waiting.catalog.import_runner.run_waiting()
    status = done(waiting, import_id)
    assert (status.error, status.completed) == (None, True)


def test_only_entries_below_the_destination_are_replaced(lake: Lake) -> None:
    for path in (b"a", b"lake/old", b"lake0", b"lakf"):
        lake.upload(path, "old")
    commit(lake, "old")
    fill(lake, "new")
    import_all(lake, prefix(lake, b"lake/"))
    assert paths(lake) == [b"a", b"lake/new", b"lake0", b"lakf"]
    assert lake.text("main~1", b"lake/old") == "old"


def test_an_object_replaces_exactly_one_key(lake: Lake) -> None:
    for path in (b"a/file", b"a/file1", b"a/file10"):
        lake.upload(path, "old")
    commit(lake, "old")
    namespace = fill(lake, "new")
    import_all(lake, ImportSource(namespace.address("new"), b"a/file1"))
    assert [lake.text("main", path) for path in paths(lake)] == ["old", "new", "old"]


def test_several_sources_in_whatever_order(lake: Lake) -> None:
    fill(lake, "1", "2", folder="one")
    namespace = fill(lake, "1", folder="two")
    lake.upload(b"m", "kept")
    commit(lake, "old")
    import_all(
        lake,
        prefix(lake, b"z", "one"),
        ImportSource(namespace.address("1"), b"n"),
        prefix(lake, b"a", "two"),
    )
    assert paths(lake) == [b"a/1", b"m", b"n", b"z/1", b"z/2"]


def test_destinations_that_overlap_are_refused_by_name(lake: Lake) -> None:
    namespace = fill(lake, "1")
    with pytest.raises(InvalidImport, match=r"'a/'.*'a/b/'.*overlap"):
        start(lake, prefix(lake, b"a/b"), prefix(lake, b"a"))
    with pytest.raises(InvalidImport, match=r"''.*'x'.*overlap"):
        start(lake, ImportSource(namespace.address("1"), b"x"), prefix(lake))
    one, other = (ImportSource(namespace.address("1"), key) for key in (b"f1", b"f10"))
    assert in_order([other, one]) == [one, other]


def test_an_import_of_nothing_makes_an_empty_commit(lake: Lake) -> None:
    """As in lakeFS: scripts read the commit of a finished import."""
    lake.upload(b"x", "x")
    commit(lake, "x")
    head = lake.engine.branches.get(lake.repository, MAIN).commit_id
    made = import_all(lake)
    assert not made.unchanged
    assert made.commit is not None
    assert made.commit.parents == (head,)
    assert paths(lake) == [b"x"]


def test_sources_that_are_none(lake: Lake) -> None:
    namespace = outside(lake)
    with pytest.raises(InvalidImport, match="must be an object path"):
        ImportSource(namespace.address("x"), b"folder/")
    for wrong in (b"a\x00b", b"x" * 1025):
        with pytest.raises(InvalidImport, match="destination"):
            ImportSource.of_prefix(namespace, wrong)
    with pytest.raises(InvalidAddress, match="serves"):
        start(lake, ImportSource.of_prefix(Namespace.parse("s3://bucket/x"), b""))


def test_sources_in_and_around_repositories_are_refused(lake: Lake) -> None:
    lake.upload(b"x", "x")
    home = lake.repository.namespace
    inside = ImportSource.of_prefix(home.folder("repos"), b"")
    around = ImportSource.of_prefix(Namespace(home.store, ""), b"")
    itself = ImportSource.of_prefix(home, b"")
    one = ImportSource(Address.parse(lake.stored()[0]), b"x")
    commit(lake, "x")
    for source in (inside, around, itself, one):
        with pytest.raises(AddressTaken, match="lake"):
            start(lake, source)
    other = RepositoryID("other")
    place = Namespace.parse(f"{lake.block.scheme}://left/other")
    lake.engine.repositories.create(other, place, committer="ann")
    lake.engine.repositories.delete(other)
    for near in (place, place.folder("x"), Namespace(place.store, "")):
        with pytest.raises(AddressClosed):
            start(lake, ImportSource.of_prefix(near, b""))
    fill(lake, "1")
    import_all(lake, prefix(lake))


def test_a_dirty_branch_is_refused_at_the_start_and_at_the_end(waiting: Lake) -> None:
    fill(waiting, "1")
    import_id = start(waiting, prefix(waiting))
    waiting.upload(b"x", "staged")
    with pytest.raises(DirtyBranch):
        start(waiting, prefix(waiting))
    waiting.catalog.import_runner.run_waiting()
    status = done(waiting, import_id)
    assert (status.completed, status.commit) == (False, None)
    assert status.error is not None
    assert "uncommitted" in status.error
    assert paths(waiting) == [b"x"]


def test_strange_paths_are_skipped_and_counted_or_refused(lake: Lake) -> None:
    names = ["a", "ctl\x07", "n\nl", "z"]
    if lake.block.scheme == "mem":
        names += ["f//x", "folder/", "/lead", "up/../x", "./x"]
    fill(lake, *names)
    status = import_all(lake, prefix(lake))
    assert paths(lake) == [b"a", b"z"]
    assert (status.objects, status.skipped) == (2, len(names) - 2)
    strange = {str(outside(lake).address(name)) for name in set(names) - {"a", "z"}}
    assert set(status.skipped_addresses) == strange
    status = done(lake, start(lake, prefix(lake, b"strictly"), strict=True))
    assert not status.completed
    assert status.error is not None
    assert "cannot import" in status.error
    assert paths(lake) == [b"a", b"z"]


@pytest.fixture
def strays(tmp_path: Path) -> Iterator[Lake]:
    """A lake on the disk, with files that are no objects in the folder to be imported."""
    with open_lake("disk", tmp_path) as lake:
        fill(lake, "ok.txt")
        fill(lake, "target", folder="elsewhere")
        folder = tmp_path / "objects/data/outside"
        (folder / "link").symlink_to(tmp_path / "objects/data/elsewhere/target")
        (folder / "sub").mkdir()
        (folder / "sub/folder-link").symlink_to(tmp_path / "objects/data/elsewhere")
        os.mkfifo(folder / "pipe")
        (tmp_path / os.fsdecode(b"objects/data/outside/bad\xff.txt")).write_text("x")
        only_links = tmp_path / "objects/data/links"
        only_links.mkdir()
        (only_links / "a").symlink_to(folder / "ok.txt")
        yield lake


def test_files_that_are_no_objects_are_skipped_and_counted_by_kind(strays: Lake) -> None:
    status = import_all(strays, prefix(strays))
    assert paths(strays) == [b"ok.txt"]
    assert (status.objects, status.skipped) == (1, 4)
    kinds = {each.kind: (each.count, each.example) for each in status.skipped_kinds}
    links, example = kinds.pop("symbolic links")
    assert links == 2
    assert example in {"local://data/outside/link", "local://data/outside/sub/folder-link"}
    assert kinds == {
        "special files": (1, "local://data/outside/pipe"),
        "files whose names are not UTF-8": (1, "local://data/outside/bad\\xff.txt"),
    }
    assert set(status.skipped_addresses) == {example, *(each for _, each in kinds.values())}


def test_a_strict_import_refuses_files_that_are_no_objects(strays: Lake) -> None:
    status = done(strays, start(strays, prefix(strays), strict=True))
    assert not status.completed
    assert "symbolic links (2, such as local://" in (status.error or "")
    assert "outside/pipe" in (status.error or "")
    assert paths(strays) == []


def test_a_folder_of_links_alone_says_so(strays: Lake) -> None:
    status = done(strays, start(strays, prefix(strays, folder="links")))
    assert not status.completed
    assert "found only symbolic links (1, such as local://data/links/a)" in (status.error or "")


def test_importing_again_without_changes_makes_no_commit(lake: Lake) -> None:
    namespace = fill(lake, "a", "b/1")
    first = import_all(lake, prefix(lake, b"in"), ImportSource(namespace.address("a"), b"one"))
    assert not first.unchanged
    lake.upload(b"other", "x")
    commit(lake, "beside")
    head = lake.engine.branches.get(lake.repository, MAIN).commit_id
    again = import_all(lake, prefix(lake, b"in"), ImportSource(namespace.address("a"), b"one"))
    assert again.unchanged
    assert again.objects == 3
    assert again.commit is not None
    assert again.commit.id == head == lake.engine.branches.get(lake.repository, MAIN).commit_id
    lake.block.put(namespace.address("b/1"), [b"other"])
    changed = import_all(lake, prefix(lake, b"in"))
    assert not changed.unchanged
    assert changed.commit is not None
    assert changed.commit.parents == (head,)


def test_an_import_without_a_message_has_one_all_the_same(lake: Lake) -> None:
    fill(lake, "a")
    started = lake.catalog.imports.start(
        REPOSITORY, MAIN, [prefix(lake)], committer="ann", message=""
    )
    made = done(lake, started).commit
    assert made is not None
    assert made.message == "Import objects"


def test_an_empty_source_changes_nothing(lake: Lake) -> None:
    lake.upload(b"a/x", "x")
    commit(lake, "x")
    for source in (prefix(lake, b"a"), ImportSource(outside(lake).address("no"), b"a/x")):
        status = done(lake, start(lake, source))
        assert not status.completed
        assert "nothing to import" in (status.error or "")
    assert paths(lake) == [b"a/x"]


def test_objects_changed_since_the_import_are_not_read(lake: Lake) -> None:
    namespace = fill(lake, "same size", "gone", "copied")
    import_all(lake, prefix(lake))
    objects = lake.catalog.objects
    lake.block.put(namespace.address("same size"), [b"SAME SIZE"])
    stats = objects.stat(REPOSITORY, "main", b"same size")
    with pytest.raises(ChangedBytes, match="changed since import"):
        objects.read(stats)
    with pytest.raises(ChangedBytes, match="changed since import"):
        objects.check_bytes(stats)
    lake.block.delete(namespace.address("gone"))
    with pytest.raises(MissingBytes):
        objects.read(objects.stat(REPOSITORY, "main", b"gone"))
    with pytest.raises(ChangedBytes, match="changed since import"):
        lake.catalog.copies.copy(REPOSITORY, DEV, b"x", source_ref="main", source_path=b"same size")


def test_imported_again_is_another_object(lake: Lake) -> None:
    namespace = fill(lake, "x")
    import_all(lake, prefix(lake))
    lake.block.put(namespace.address("x"), [b"y"])
    import_all(lake, prefix(lake))
    assert lake.text("main", b"x") == "y"
    with pytest.raises(ChangedBytes):
        lake.bytes_of(REPOSITORY, "main~1", b"x")


def test_copies_of_objects_without_a_checksum_are_told_apart(lake: Lake) -> None:
    """Objects of one size were the same to a commit if only their sizes counted."""
    fill(lake, "one", "two")
    import_all(lake, prefix(lake))
    copies = lake.catalog.copies
    for source_ref in ("main", "main~0"):  # sharing the address, and copying the bytes
        copies.copy(REPOSITORY, MAIN, b"x", source_ref=source_ref, source_path=b"one")
        commit(lake, "one")
        copies.copy(REPOSITORY, MAIN, b"x", source_ref=source_ref, source_path=b"two")
        commit(lake, "two")
        assert lake.text("main", b"x") == "two"


def test_a_canceled_import_does_nothing(waiting: Lake) -> None:
    fill(waiting, "1")
    imports = waiting.catalog.imports
    import_id = start(waiting, prefix(waiting))
    imports.cancel(REPOSITORY, MAIN, import_id)
    imports.cancel(REPOSITORY, MAIN, import_id)
    assert waiting.catalog.import_runner.run_waiting() == 0
    status = done(waiting, import_id)
    assert (status.completed, status.error) == (False, "Canceled")
    assert paths(waiting) == []


def test_an_ended_import_cannot_be_canceled(lake: Lake) -> None:
    fill(lake, "1")
    imports = lake.catalog.imports
    completed = start(lake, prefix(lake))
    failed = start(lake, prefix(lake, folder="nothing"))
    for import_id, how in ((completed, "completed"), (failed, "failed")):
        with pytest.raises(ImportOver, match=how):
            imports.cancel(REPOSITORY, MAIN, import_id)
    with pytest.raises(TaskNotFound):
        imports.cancel(REPOSITORY, DEV, completed)
    with pytest.raises(TaskNotFound):
        imports.status(REPOSITORY, MAIN, ImportID("other"))


class Died(BaseException):
    """The end of a process: nothing after it happens, and nobody catches it."""


@contextmanager
def dying_at(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: int
) -> Iterator[None]:
    """Let the process die in the place of one call of a function, and of all later ones."""
    real = getattr(owner, name)
    calls = 0

    def counted(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise Died
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield


def small_ranges(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut ranges and pages so that a few objects make many."""
    monkeypatch.setattr(run, "PAGE_ROWS", 3)
    monkeypatch.setattr(run, "_SAVE_RANGES_MIN", 1)
    monkeypatch.setattr(listing, "_ROWS_MAX", 4)
    closing = boundaries.Breaks(mean_rows=2, max_rows=4)
    monkeypatch.setattr("lakebed.engine.committed.store.Breaks", lambda: closing)
    lake.catalog = another_process(lake)  # one that has opened nothing yet


def another_process(lake: Lake) -> Catalog:
    engine = new_engine(lake.store, lake.block, runtime=lake.clock)
    return Catalog(engine, lake.store, lake.block, lake.clock, lake.settings, runs_imports=False)


def take_over(lake: Lake) -> int:
    """Run what waits, as another process that starts after the first one died."""
    other = another_process(lake)
    assert other.import_runner.run_waiting() == 0  # the first may still live
    lake.clock.ahead_seconds += lake.settings.task_heartbeat_seconds + 1
    return other.import_runner.run_waiting()


NAMES = [f"{folder}{number:02d}" for folder in ("a/", "b/c/", "", "d/") for number in range(12)]


def test_another_process_goes_on_after_a_death(
    waiting: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_ranges(waiting, monkeypatch)
    strange = ["a/0\x01", "b/c/0\x02", "d/0\x03", "zz\x04"]
    fill(waiting, *NAMES, *strange)
    import_id = start(waiting, prefix(waiting, b"to"))
    with dying_at(monkeypatch, run.ImportRun, "_save", 2), pytest.raises(Died):
        waiting.catalog.import_runner.run_waiting()
    record = waiting.catalog.imports.records(waiting.repository).get(import_id.encode()).message
    assert record.saved_metarange_id
    assert 0 < record.objects < len(NAMES)
    listed: list[str] = []
    list_objects = waiting.block.list_objects

    def spy(namespace: Namespace, *, start_after: Address | None = None) -> Iterator[object]:
        for batch in list_objects(namespace, start_after=start_after):
            listed.extend(batch.column("address").to_pylist())
            yield batch

    monkeypatch.setattr(waiting.block, "list_objects", spy)
    assert take_over(waiting) == 1
    status = done(waiting, import_id)
    assert (status.completed, status.objects, status.skipped) == (True, len(NAMES), len(strange))
    assert len(status.skipped_addresses) == len(set(status.skipped_addresses)) == len(strange)
    assert paths(waiting) == sorted(b"to/" + name.encode() for name in NAMES)
    assert str(outside(waiting).address("00")) not in listed  # it was saved before


@pytest.mark.parametrize("call", [1, 2, 3, 5, 8, 13, 21, 100])
def test_deaths_at_every_step(waiting: Lake, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    small_ranges(waiting, monkeypatch)
    fill(waiting, *NAMES)
    import_id = start(waiting, prefix(waiting))
    with dying_at(monkeypatch, LeasedImport, "change", call), suppress(Died):
        waiting.catalog.import_runner.run_waiting()
    take_over(waiting)
    status = done(waiting, import_id)
    assert (status.completed, status.objects) == (True, len(NAMES))
    assert paths(waiting) == sorted(name.encode() for name in NAMES)
    log = list(waiting.engine.commits.list(waiting.repository))
    assert sum(commit.message == "import" for commit in log) >= 1
    head = waiting.engine.branches.get(waiting.repository, MAIN).commit_id
    assert status.commit is not None
    assert head == status.commit.id


def test_an_import_is_published_once(waiting: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after the branch was swapped: whoever takes over must not undo later commits."""
    fill(waiting, "1")
    import_id = start(waiting, prefix(waiting))
    with dying_at(monkeypatch, LeasedImport, "change", 4), pytest.raises(Died):
        waiting.catalog.import_runner.run_waiting()
    assert paths(waiting) == [b"1"]
    waiting.catalog.objects.delete(REPOSITORY, MAIN, b"1")
    commit(waiting, "later")
    with pytest.raises(ImportOver, match="published"):
        waiting.catalog.imports.cancel(REPOSITORY, MAIN, import_id)
    assert take_over(waiting) == 1
    assert done(waiting, import_id).completed
    assert paths(waiting) == []


@pytest.mark.parametrize("has_saved", [True, False])
def test_a_storage_that_fails_for_a_while(
    waiting: Lake, monkeypatch: pytest.MonkeyPatch, *, has_saved: bool
) -> None:
    """What was saved is worth a wait; a storage that never answered is reported at once."""
    small_ranges(waiting, monkeypatch)
    fill(waiting, *NAMES)
    import_id = start(waiting, prefix(waiting))
    real = run.ImportRun._save

    def fail(self: run.ImportRun, *arguments: object) -> None:
        if has_saved:
            real(self, *arguments)  # type: ignore[arg-type]
        raise StorageUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(run.ImportRun, "_save", fail)
        waiting.catalog.import_runner.run_waiting()
    assert (done(waiting, import_id).error is None) == has_saved
    take_over(waiting)
    assert done(waiting, import_id).completed == has_saved


def test_an_import_that_kills_every_process_is_given_up(
    waiting: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(waiting, "1")
    monkeypatch.setattr(runner, "ATTEMPTS_MAX", 1)
    import_id = start(waiting, prefix(waiting))
    with dying_at(monkeypatch, run.ImportRun, "run", 1), pytest.raises(Died):
        waiting.catalog.import_runner.run_waiting()
    take_over(waiting)
    assert "abandoned" in (done(waiting, import_id).error or "")


def test_a_branch_of_the_same_name_is_not_meant(waiting: Lake) -> None:
    fill(waiting, "1")
    imports = waiting.catalog.imports
    import_id = imports.start(REPOSITORY, DEV, [prefix(waiting)], committer="ann", message="import")
    waiting.engine.refs.delete_branch(REPOSITORY, DEV)
    waiting.engine.refs.create_branch(REPOSITORY, DEV, MAIN)
    waiting.catalog.import_runner.run_waiting()
    status = imports.status(REPOSITORY, DEV, import_id)
    assert not status.completed
    assert str(BranchNotFound(DEV)) in (status.error or "")


def test_records_are_kept_for_a_day(waiting: Lake) -> None:
    fill(waiting, "1")
    import_id = start(waiting, prefix(waiting))
    waiting.catalog.import_runner.run_waiting()
    assert waiting.reclaim.expired.run_once().imports == 0
    waiting.clock.ahead_seconds += waiting.settings.task_life_seconds + 1
    assert waiting.reclaim.expired.run_once().imports == 1
    with pytest.raises(TaskNotFound):
        done(waiting, import_id)


@pytest.mark.parametrize("after", [None, "a-", "a/", "a/00", "b.txt", "b/c/5", "zzz"])
@pytest.mark.parametrize("rows_max", [1, 3, 1000])
def test_parallel_listings_are_in_order_and_whole(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, after: str | None, rows_max: int
) -> None:
    names = [*NAMES, "a-", "a.b", "a0", "b.txt", "b/c0", "z/1"]
    if lake.block.scheme == "mem":
        names += ["a/", "b/", "//"]
    namespace = fill(lake, *names)
    monkeypatch.setattr(listing, "_ROWS_MAX", rows_max)
    start_after = None if after is None else namespace.address(after)
    found = list_in_order(lake.block, lake.clock, namespace, start_after)
    addresses = pa.Table.from_batches(found, schema=LIST_SCHEMA).column("address").to_pylist()
    expected = sorted(
        (str(namespace.address(name)) for name in names if after is None or name > after),
        key=str.encode,
    )
    assert addresses == expected


def test_the_next_page_is_made_while_one_is_used() -> None:
    """Each page is used only when the one behind it was asked for."""
    runtime = ThreadRuntime()
    empty = imported_page(LIST_SCHEMA.empty_table(), "s3://bucket/", b"")
    asked = [runtime.event() for _ in range(4)]
    used: list[bool] = []

    def pages() -> Iterator[ImportedPage]:
        for event in asked[:-1]:
            event.set()
            yield empty
        asked[-1].set()

    def use(_page: ImportedPage) -> None:
        used.append(asked[len(used) + 1].wait(PATIENCE_SECONDS))

    run.prefetch(runtime, pages(), use)
    assert used == [True, True, True]


PIECES = st.sampled_from(["a", "b.c", ".", "..", "", ".hidden", "\x1f", "\x7f", "é", "...", " "])


@given(
    names=st.lists(st.lists(PIECES, min_size=1, max_size=4).map("/".join).filter(bool), max_size=6),
    piece=st.integers(1, 40),
)
@example(names=["a/../b"], piece=1)  # a slash, and what is behind it in the next piece
def test_invalid_paths_are_found_page_by_page(names: list[str], piece: int) -> None:
    def is_strange(name: str) -> bool:
        parts = name.split("/")
        return not {"", ".", ".."}.isdisjoint(parts) or any(
            character < " " or character == "\x7f" for character in name
        )

    place = Namespace.parse("s3://bucket/x")
    rows = [
        {"address": f"{place}{name}", "size": 1, "mtime": 0, "etag": "ab" * (16 + number % 2)}
        for number, name in enumerate(names)
    ]
    # A slice, as pages of listings are.
    listed = pa.Table.from_pylist([*rows, *rows], schema=LIST_SCHEMA).slice(len(rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imported, "_PIECE", piece)
        page = imported_page(listed, str(place), b"to/")
    good = [name for name in names if not is_strange(name)]
    assert page.entries["key"].to_pylist() == [b"to/" + name.encode() for name in good]
    assert page.skipped_addresses.to_pylist() == [
        f"{place}{name}" for name in names if is_strange(name)
    ]
    checksums = dict(
        zip(names, ["" if n % 2 else "ab" * 16 for n in range(len(names))], strict=True)
    )
    if len(checksums) == len(names):
        assert page.entries["checksum"].to_pylist() == [checksums[name] for name in good]


def test_content_types_come_from_names(lake: Lake) -> None:
    fill(lake, "a.csv", "b.PARQUET", "c.csv.gz", "d.csv/e", "no type", "é.json")
    import_all(lake, prefix(lake))
    found = {
        path: lake.catalog.objects.stat(REPOSITORY, "main", path).content_type
        for path in paths(lake)
    }
    assert found == {
        b"a.csv": "text/csv",
        b"b.PARQUET": "application/vnd.apache.parquet",
        b"c.csv.gz": "application/gzip",
        b"d.csv/e": "application/octet-stream",
        b"no type": "application/octet-stream",
        "é.json".encode(): "application/json",
    }


MIXED = ("a.csv", "_tmp/a.csv", "b/_tmp/c.csv", "b/c.csv", "b/d.json", "b/e/f.csv", "x?.txt")


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ((), (), MIXED),
        (("*.csv",), (), ("a.csv", "_tmp/a.csv", "b/_tmp/c.csv", "b/c.csv", "b/e/f.csv")),
        (("*.csv",), ("_tmp/",), ("a.csv", "b/c.csv", "b/e/f.csv")),
        (("b/*",), (), ("b/c.csv", "b/d.json")),
        (("b/**",), ("**/e/*",), ("b/_tmp/c.csv", "b/c.csv", "b/d.json")),
        (("**/c.csv", "a.c?v"), ("b/_tmp/**",), ("a.csv", "_tmp/a.csv", "b/c.csv")),
        (("x?.txt",), (), ("x?.txt",)),
        ((), ("*.json", "[b]", "b/"), ("a.csv", "_tmp/a.csv", "x?.txt")),
    ],
)
def test_patterns_select_paths(
    lake: Lake, include: tuple[str, ...], exclude: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    fill(lake, *MIXED)
    source = ImportSource.of_prefix(outside(lake), b"to", include, exclude)
    assert [source.selects(f"{outside(lake)}{name}") for name in MIXED] == [
        name in expected for name in MIXED
    ]
    assert import_all(lake, source).objects == len(expected)
    assert paths(lake) == sorted(b"to/" + name.encode() for name in expected)


def test_patterns_that_select_nothing_are_named(lake: Lake) -> None:
    fill(lake, *MIXED)
    source = ImportSource.of_prefix(outside(lake), b"to", ("*.orc",))
    assert "that matches the patterns" in (done(lake, start(lake, source)).error or "")
    for place, pattern in (
        (outside(lake), "/a"),
        (outside(lake), ""),
        (outside(lake).address("a"), "*"),
    ):
        with pytest.raises(InvalidImport, match="cannot match an object at"):
            ImportSource(place, b"to/a", (), (pattern,))


def test_a_dry_run_changes_nothing(lake: Lake) -> None:
    fill(lake, "a", "b/c", "d")
    head = lake.engine.branches.get(lake.repository, MAIN).commit_id
    import_id = lake.catalog.imports.start(
        REPOSITORY, MAIN, [prefix(lake)], committer="ann", message="import", dry_run=True
    )
    status = done(lake, import_id)
    assert (status.completed, status.objects, status.skipped) == (True, 3, 0)
    assert status.commit is None
    assert lake.engine.branches.get(lake.repository, MAIN).commit_id == head
    assert lake.stored() == []
    with pytest.raises(InvalidImport, match="no dry run"):
        lake.catalog.imports.start(
            REPOSITORY, MAIN, [prefix(lake)], committer="a", message="m", dry_run=True, outside=True
        )
