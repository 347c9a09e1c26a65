"""Imports whose metarange a job makes: the server believes sizes, times and ETags, and no more."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakebed.clients.ingest.plan import IngestSource
from lakebed.engine.commits.requests import CommitRequest
from lakebed.formats import (
    RangeRef,
    encode_metarange,
    encode_range,
    metarange_id,
    metarange_path,
    metarange_table,
    range_path,
)
from lakebed.formats.boundaries import Breaks, ref_of
from lakebed.formats.imported import imported_page
from lakebed.formats.layout import listing_path
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import ImportOver, InvalidImport
from lakebed.lake.imports.imports import CANCELED, ImportID, ImportProgress, JobReport
from lakebed.lake.imports.run import LeasedImport
from lakebed.lake.imports.sources import ImportSource
from tests.clients.ingest.kit import make, storage_of
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake
from tests.lake.test_imports import (
    Died,
    another_process,
    dying_at,
    fill,
    outside,
    paths,
    prefix,
    take_over,
)

NAMES = ["a.txt", "b/1", "b/2", "z"]


@pytest.fixture
def waiting(lake: Lake) -> Lake:
    lake.catalog = another_process(lake)
    return lake


def begin(lake: Lake, *sources: ImportSource) -> ImportID:
    return lake.catalog.imports.start(
        REPOSITORY, MAIN, sources, committer="ann", message="import", outside=True
    )


def report(
    lake: Lake, import_id: ImportID, *sources: ImportSource, by: str = "ann", **said: Any
) -> ImportProgress:
    return lake.catalog.outside_imports.report(
        REPOSITORY, MAIN, import_id, sources, JobReport(**said), committer=by
    )


def status_of(lake: Lake, import_id: ImportID) -> ImportProgress:
    return lake.catalog.imports.status(REPOSITORY, MAIN, import_id)


def made_by_job(lake: Lake) -> str:
    source = IngestSource(str(outside(lake)), is_prefix=True, destination=b"lake/")
    return make(storage_of(lake), [source], Breaks())


def test_the_server_publishes_what_a_job_made(waiting: Lake) -> None:
    lake = waiting
    fill(lake, *NAMES)
    source = prefix(lake, b"lake")
    import_id = begin(lake, source)
    assert lake.catalog.import_runner.run_waiting() == 0
    status = report(lake, import_id, source, objects=3, current="b/", skipped=1)
    assert (status.objects, status.current, status.skipped) == (3, "b/", 1)
    assert not status.completed
    made = made_by_job(lake)
    report(lake, import_id, source, objects=3, metarange_id=made)
    report(lake, import_id, source, objects=3, metarange_id=made)  # it may be repeated
    with pytest.raises(ImportOver, match="already has metarange"):
        report(lake, import_id, source, metarange_id="0" * 64)
    assert lake.catalog.import_runner.run_waiting() == 1
    status = status_of(lake, import_id)
    assert (status.completed, status.objects, status.metarange_id) == (True, 4, made)
    assert paths(lake) == [b"lake/" + name.encode() for name in NAMES]
    assert lake.text("main", b"lake/b/2") == "b/2"
    by_server = lake.catalog.imports.start(
        REPOSITORY, DEV, [source], committer="ann", message="import"
    )
    lake.catalog.import_runner.run_waiting()
    assert lake.catalog.imports.status(REPOSITORY, DEV, by_server).metarange_id == made


def test_who_may_report_and_on_what(waiting: Lake) -> None:
    lake = waiting
    fill(lake, *NAMES)
    source = prefix(lake, b"lake")
    import_id = begin(lake, source)
    with pytest.raises(InvalidImport, match="was started by ann"):
        report(lake, import_id, source, by="bob")
    with pytest.raises(InvalidImport, match="other sources"):
        report(lake, import_id, prefix(lake, b"other"))
    with pytest.raises(InvalidImport, match="is not a metarange id"):
        report(lake, import_id, source, metarange_id="../../x")
    by_server = lake.catalog.imports.start(
        REPOSITORY, MAIN, [source], committer="ann", message="import"
    )
    with pytest.raises(InvalidImport, match="run by the server"):
        report(lake, by_server, source, metarange_id="0" * 64)


def test_a_job_that_is_silent_or_gives_up_or_is_canceled(waiting: Lake) -> None:
    lake = waiting
    fill(lake, *NAMES)
    source = prefix(lake, b"lake")
    silent, failed, canceled = (begin(lake, source) for _ in range(3))
    assert report(lake, failed, source, error="no space left").error == "no space left"
    lake.catalog.imports.cancel(REPOSITORY, MAIN, canceled)
    assert report(lake, canceled, source, metarange_id=made_by_job(lake)).error == CANCELED
    runner = lake.catalog.import_runner
    assert runner.run_waiting() == 0
    lake.clock.ahead_seconds += lake.settings.task_heartbeat_seconds - 1
    report(lake, silent, source, objects=1)  # a sign of life
    assert runner.run_waiting() == 0
    lake.clock.ahead_seconds += lake.settings.task_heartbeat_seconds + 1
    assert runner.run_waiting() == 1
    error = report(lake, silent, source, metarange_id=made_by_job(lake)).error
    assert error is not None
    assert "no heartbeat for 60 seconds" in error
    assert paths(lake) == []


def test_files_of_dead_jobs_are_removed(waiting: Lake) -> None:
    lake = waiting
    fill(lake, *NAMES)
    import_id = begin(lake, prefix(lake, b"lake"))
    left = lake.repository.namespace.address(listing_path(import_id, "x.parquet"))
    lake.block.put(left, [b"x"])
    lake.catalog.imports.cancel(REPOSITORY, MAIN, import_id)
    assert lake.reclaim.expired.imports(lake.repository) == 0
    lake.block.head(left)
    lake.clock.ahead_seconds += lake.settings.task_life_seconds + 1
    assert lake.reclaim.expired.imports(lake.repository) == 1
    folder = lake.repository.namespace.folder("_lakebed/imports")
    assert list(lake.block.list_objects(folder)) == []


@pytest.mark.parametrize("call", range(1, 6))
def test_the_server_dies_at_every_step(
    waiting: Lake, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    lake = waiting
    fill(lake, *NAMES)
    source = prefix(lake, b"lake")
    import_id = begin(lake, source)
    report(lake, import_id, source, metarange_id=made_by_job(lake))
    with dying_at(monkeypatch, LeasedImport, "change", call), suppress(Died):
        lake.catalog.import_runner.run_waiting()
    take_over(lake)
    published = status_of(lake, import_id).commit
    assert published is not None
    assert published.id == lake.engine.branches.get(lake.repository, MAIN).commit_id
    (before,) = published.parents
    assert lake.engine.commits.get(lake.repository, before).message != "import"
    assert len(paths(lake)) == len(NAMES)


# What is refused

Edit = Callable[[pa.Table], pa.Table]


def changed(name: str, value: Any) -> Edit:
    """Put another value into the third row."""

    def edit(entries: pa.Table) -> pa.Table:
        place = entries.schema.get_field_index(name)
        values = entries[name].to_pylist()
        values[2] = value(values[2])
        field = entries.schema.field(name)
        return entries.set_column(place, field, pa.array(values, field.type))

    return edit


def relative(entries: pa.Table) -> pa.Table:
    """The address of an object of the repository itself, as entries of uploads have it."""
    return changed("address", lambda _old: "repos/x")(
        changed("address_type", lambda _old: 0)(entries)
    )


REFUSED: dict[str, tuple[Edit, str]] = {
    "relative": (relative, "a relative address"),
    "no such type": (changed("address_type", lambda _old: 7), "a relative address"),
    "another repository": (
        changed("address", lambda old: old.partition("://")[0] + "://lake/other/x"),
        "outside of .*://data/outside/",
    ),
    "out by dots": (changed("address", lambda old: old[:-3] + "../../x"), "cannot be imported"),
    "another object": (
        changed("address", lambda old: old[:-1] + "3"),
        "differs from an imported one",
    ),
    "another identity": (changed("identity", lambda _old: b"x"), "differs from an imported one"),
    "a content type": (
        changed("content_type", lambda _old: "text\n/html"),
        "has an invalid content type",
    ),
    "a checksum": (changed("checksum", lambda _old: "x"), "differs from an imported one"),
    "no ETag": (
        changed("metadata", lambda old: [(old[0][0], "*:")]),
        "an invalid ETag",
    ),
    "no mark": (changed("metadata", lambda _old: []), "lacks the storage's ETag"),
    "more metadata": (
        changed("metadata", lambda old: [*old, ("~", "x")]),
        "lacks the storage's ETag",
    ),
    "less than nothing": (changed("size", lambda _old: -1), "a negative size"),
    "outside of destinations": (
        changed("key", lambda _old: b"lake/b/2~"),
        "differs from an imported one",
    ),
    "in another folder": (
        lambda entries: changed("key", lambda _old: b"zz")(entries.slice(0, 3)),
        "1 keys outside of all destinations",
    ),
    "unsorted": (lambda entries: entries.take([0, 2, 1, 3]), "order|rise"),
}


def entries_of(lake: Lake) -> pa.Table:
    """The entries that an import makes."""
    place = outside(lake)
    listed = pa.Table.from_batches(lake.block.list_objects(place))
    return imported_page(listed, str(place), b"lake/").entries.combine_chunks()


def store(lake: Lake, *ranges: pa.Table, edit: Callable[[RangeRef], RangeRef] = lambda r: r) -> str:
    """Store ranges and their metarange, whatever is in them; return its id."""
    namespace, refs = lake.repository.namespace, []
    for each in ranges:
        entries = each.combine_chunks()
        ref = ref_of(entries)
        lake.block.put(namespace.address(range_path(ref.range_id)), [encode_range(entries)])
        refs.append(edit(ref))
    table = metarange_table(refs)
    made = metarange_id(table)
    lake.block.put(namespace.address(metarange_path(made)), [encode_metarange(table)])
    return made


def refusal(lake: Lake, made: str) -> str:
    """Hand in a metarange; return why it was refused."""
    source = prefix(lake, b"lake")
    import_id = begin(lake, source)
    report(lake, import_id, source, metarange_id=made)
    lake.catalog.import_runner.run_waiting()
    status = status_of(lake, import_id)
    assert not status.completed
    assert status.error is not None
    assert paths(lake) == []
    return status.error


@pytest.mark.parametrize("name", REFUSED)
def test_entries_that_no_import_makes_are_refused(waiting: Lake, name: str) -> None:
    fill(waiting, *NAMES)
    edit, why = REFUSED[name]
    error = refusal(waiting, store(waiting, edit(entries_of(waiting))))
    assert re.search(why, error), error


def test_another_python_may_guess_other_content_types(waiting: Lake) -> None:
    fill(waiting, *NAMES)
    source, edit = prefix(waiting, b"lake"), changed("content_type", lambda _old: "text/html")
    import_id = begin(waiting, source)
    made = store(waiting, edit(entries_of(waiting)))
    report(waiting, import_id, source, metarange_id=made)
    waiting.catalog.import_runner.run_waiting()
    assert status_of(waiting, import_id).completed


def test_a_metarange_that_is_not_as_the_server_makes_it(waiting: Lake) -> None:
    fill(waiting, *NAMES)
    entries = entries_of(waiting)
    halves = entries.slice(0, 2), entries.slice(2)
    assert "ends at the wrong key" in refusal(waiting, store(waiting, *halves))
    assert "ends at the wrong key" in refusal(waiting, store(waiting, halves[1], halves[0]))
    lies = store(waiting, entries, edit=lambda ref: replace(ref, count=ref.count + 1))
    assert "does not match its contents" in refusal(waiting, lies)
    assert "missing from the storage" in refusal(waiting, "0" * 64)
    empty = store(waiting)
    assert "nothing to import" in refusal(waiting, empty)


def test_a_commit_of_the_repository_is_no_import(waiting: Lake) -> None:
    """Else whoever may import could bring back what they may not read."""
    waiting.upload(b"lake/secret", "secret", DEV)
    request = CommitRequest(committer="ann", message="m")
    made = HeadChanges(waiting.engine).commit(REPOSITORY, DEV, request).commit.metarange_id
    assert "a relative address" in refusal(waiting, made)
