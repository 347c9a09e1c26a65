"""Preparing garbage collection: all that is in use is written down, in one order, page by page."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from lakebed.base.runtime import UniqueID, now_us
from lakebed.block import Address, Namespace
from lakebed.engine import records_pb2 as engine_pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import RepositoryNotFound, Stale
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.repositories.ownership import installation_id
from lakebed.formats import DamagedFile, Entry, ForeignFile, FormatTooNew
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    GCFile,
    GCFileKind,
    GCManifest,
    GCRunID,
    decode_gc_record,
    decode_gc_table,
    encode_gc_record,
)
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import InvalidRun
from lakebed.lake.keys import MULTIPARTS
from lakebed.reclaim.prepare import PageLimits, Position, PreparedRun, StagedWalk
from lakebed.reclaim.runs import RunFiles
from tests.kit import staging
from tests.kit.engines import dump, restore
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, open_lake

REQUEST = CommitRequest(committer="ann", message="m")
SMALL = PageLimits(objects=1, branches=1)


def files_of(lake: Lake, run_id: GCRunID) -> RunFiles:
    return RunFiles(lake.block, lake.clock, lake.repository, run_id)


def prepare_pages(lake: Lake, limits: PageLimits = SMALL) -> tuple[PreparedRun, int]:
    """Write all pages; return the last, and how many there were."""
    prepared = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, limits=limits)
    pages = 1
    while prepared.continuation_token:
        prepared = lake.reclaim.preparation.prepare_uncommitted(
            REPOSITORY, token=prepared.continuation_token, limits=limits
        )
        pages += 1
        assert pages < 1000
    return prepared, pages


def end(lake: Lake, prepared: PreparedRun) -> GCManifest:
    lake.reclaim.preparation.prepare_commits(REPOSITORY, run_id=prepared.run_id)
    manifest = files_of(lake, prepared.run_id).find_manifest()
    assert manifest is not None
    return manifest


def table(lake: Lake, manifest: GCManifest, kind: GCFileKind) -> pa.Table:
    def read(file: GCFile) -> pa.Table:
        place = Namespace.parse(location(lake, manifest)).address(file.name)
        return decode_gc_table(lake.block.read(place), file, file=str(place))

    tables = [read(file) for file in manifest.of_kind(kind)]
    return pa.concat_tables([GC_SCHEMAS[kind].empty_table(), *tables])


def location(lake: Lake, manifest: GCManifest) -> str:
    folder = f"_lakebed/gc/{manifest.run.unique_id}/runs/{manifest.run.run_id}/"
    return f"{lake.repository.namespace}{folder}"


def addresses(lake: Lake, manifest: GCManifest, kind: GCFileKind) -> Counter[str]:
    return Counter(table(lake, manifest, kind).column("address").to_pylist())


def address(lake: Lake, ref: str, path: bytes) -> str:
    return str(lake.catalog.objects.stat(REPOSITORY, ref, path).address)


def seal(lake: Lake, branch: BranchID) -> None:
    """Seal the staging token of a branch, as a commit that dies then would."""
    current = lake.engine.branches.get(lake.repository, branch)
    lake.engine.publisher.seal(lake.repository, current)
    # Or the next writer would begin with the old token, from a cache, and write there too.
    lake.engine.branches.get(lake.repository, branch)


def test_what_a_run_is_about(lake: Lake) -> None:
    before = lake.clock.now()
    prepared, _ = prepare_pages(lake)
    manifest = end(lake, prepared)
    run, settings = manifest.run, lake.settings
    assert run.unique_id == lake.repository.unique_id
    assert run.installation_id == installation_id(lake.store, lake.clock)
    assert run.storage_namespace == str(lake.repository.namespace)
    assert run.adopted_unique_ids == ()
    assert before - 1 < run.began_us / 1e6 <= manifest.ended_us / 1e6 <= lake.clock.now()
    age = settings.min_age_seconds + settings.skew_seconds
    assert run.cutoff_us == pytest.approx(run.began_us - age * 1e6, abs=2)
    assert run.gap_us == settings.gap_seconds * 1e6
    assert run.partition_open_us == settings.partition_open_seconds * 1e6
    assert run.with_uploads
    assert prepared.location == location(lake, manifest)


@pytest.mark.parametrize("limits", [SMALL, PageLimits()])
def test_everything_staged_is_written_down_unmasked(lake: Lake, limits: PageLimits) -> None:
    expected: list[str] = []
    for text in ("one", "two"):
        for path in (b"a", b"b"):
            lake.upload(path, text)
            expected.append(address(lake, "main", path))
        seal(lake, MAIN)
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    lake.upload(b"a", "dev", DEV)
    expected.append(address(lake, "dev", b"a"))
    for number in range(5):
        lake.engine.refs.create_branch(REPOSITORY, f"idle{number}", "main")
    prepared, pages = prepare_pages(lake, limits)
    assert addresses(lake, end(lake, prepared), GCFileKind.STAGED) == Counter(expected)
    assert pages == 1 if limits != SMALL else pages > 5


@pytest.mark.parametrize("is_foreign", [False, True])
def test_replaced_objects_are_retained_while_the_write_may_be_undone(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, is_foreign: bool
) -> None:
    """A writer that is held up after staging puts back what was there, however late."""
    lake.upload(b"a", "before")
    if is_foreign:  # as what moved in from lakeFS, which the repository may have adopted
        place = Address.parse(f"{lake.block.scheme}://old/lake/data/x")
        lake.block.put(place, [b"before"])
        lake.catalog.external.stage(REPOSITORY, MAIN, b"a", place, checksum="", size=6)
    replaced = address(lake, "main", b"a")
    looks: list[Counter[str]] = []
    stage = getattr(lake.store, lake.staging_call)

    def look_meanwhile(*args: object, **kwargs: object) -> object:
        result: object = stage(*args, **kwargs)
        if not looks:
            looks.append(Counter())
            lake.clock.ahead_seconds += lake.settings.min_age_seconds
            prepared, _ = prepare_pages(lake)
            looks[0] = addresses(lake, end(lake, prepared), GCFileKind.STAGED)
        return result

    monkeypatch.setattr(lake.store, lake.staging_call, look_meanwhile)
    with pytest.raises(Stale):
        lake.upload(b"a", "late")
    assert lake.text("main", b"a") == "before"
    assert address(lake, "main", b"a") == replaced
    assert replaced in looks[0]


@pytest.mark.parametrize("before", [None, "before"])
def test_proposed_objects_are_retained(lake: Lake, before: str | None) -> None:
    """Its writer may be about to make it visible."""
    expected: list[str] = []
    if before is not None:
        lake.upload(b"a", before)
        expected.append(address(lake, "main", b"a"))
    expected.append(str(lake.propose(b"a", "proposed")))
    prepared, _ = prepare_pages(lake)
    assert addresses(lake, end(lake, prepared), GCFileKind.STAGED) == Counter(expected)


def test_a_foreign_address_is_written_as_it_is(lake: Lake) -> None:
    place = Namespace.parse(f"{lake.block.scheme}://lake/elsewhere").address("x")
    lake.catalog.external.stage(REPOSITORY, MAIN, b"a", place, checksum="c", size=1)
    prepared, _ = prepare_pages(lake)
    assert addresses(lake, end(lake, prepared), GCFileKind.STAGED) == Counter([str(place)])


def test_open_uploads_are_written_down(lake: Lake) -> None:
    """Not a link that is staged: its entry protects the object for as long as it is there."""
    links = lake.catalog.links
    given = [links.get_physical_address(REPOSITORY, MAIN, b"a").address for _ in range(2)]
    lake.block.put(given[0], [b"x"])
    links.link(REPOSITORY, MAIN, b"a", given[0], checksum="c")
    # Somebody is completing it just now.
    decided = engine_pb.StagedEntry(identity=b"i")
    upload = pb.MultipartUpload(branch=MAIN, path=b"m", address="repos/x", entry=decided)
    upload.created_us = now_us(lake.clock)
    records = Records(lake.store, MULTIPARTS, lake.repository.partition)
    records.set(b"a" * 36, upload)
    # Completed: the record stays for a while, and nothing comes of it any more.
    upload = pb.MultipartUpload(branch=MAIN, path=b"n", address="repos/y", entry=decided)
    upload.staged = True
    records.set(b"b" * 36, upload)
    prepared, _ = prepare_pages(lake)
    found = table(lake, end(lake, prepared), GCFileKind.UPLOADS).to_pylist()
    expected = [
        {"address": str(given[1]), "kind": "link", "open": True},
        {"address": f"{lake.repository.namespace}repos/x", "kind": "multipart", "open": True},
        {"address": f"{lake.repository.namespace}repos/y", "kind": "multipart", "open": False},
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_uploads_are_read_before_what_is_staged(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = lake.catalog.links
    address = links.get_physical_address(REPOSITORY, MAIN, b"a").address
    lake.block.put(address, [b"x"])
    walk = StagedWalk.run

    def run(self: StagedWalk, position: Position, limits: PageLimits) -> Position | None:
        following = walk(self, position, limits)
        # Behind the back of whoever has read what is staged; and the record goes.
        links.link(REPOSITORY, MAIN, b"a", address, checksum="c")
        lake.clock.ahead_seconds += 2 * lake.settings.link_life_seconds
        assert lake.reclaim.expired.links(lake.repository) == 1
        return following

    monkeypatch.setattr(StagedWalk, "run", run)
    manifest = end(lake, lake.reclaim.preparation.prepare_uncommitted(REPOSITORY))
    assert addresses(lake, manifest, GCFileKind.UPLOADS) == Counter([str(address)])
    assert not addresses(lake, manifest, GCFileKind.STAGED)


def test_all_commit_records_are_written_down(lake: Lake) -> None:
    lake.upload(b"a", "one")
    first = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit
    lake.upload(b"a", "two")
    dropped = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit
    HeadChanges(lake.engine).hard_reset(REPOSITORY, MAIN, first.id)
    prepared, _ = prepare_pages(lake)
    commits = table(lake, end(lake, prepared), GCFileKind.COMMITS).to_pylist()
    found = {row["id"]: row["metarange_id"] for row in commits}
    assert len(found) == len(commits) == 3
    assert found[dropped.id] == dropped.metarange_id


def test_an_entry_that_is_committed_while_pages_are_written_is_found(lake: Lake) -> None:
    """Whichever way things move, they are met: staged here, or in a commit read later."""
    lake.upload(b"a", "one")
    lake.upload(b"b", "two", DEV)
    staged_later = address(lake, "main", b"a")
    prepared = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, limits=SMALL)
    commit = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit
    while prepared.continuation_token:
        prepared = lake.reclaim.preparation.prepare_uncommitted(
            REPOSITORY, token=prepared.continuation_token, limits=SMALL
        )
    manifest = end(lake, prepared)
    staged = addresses(lake, manifest, GCFileKind.STAGED)
    commits = table(lake, manifest, GCFileKind.COMMITS).column("id").to_pylist()
    assert staged_later in staged or commit.id in commits


def test_pages_remember_the_tokens_of_a_branch(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page in the middle of a branch goes on with what the branch named then."""
    monkeypatch.setattr("lakebed.reclaim.prepare._RECORDS", 2)
    for number in range(10):
        staging.put(lake.engine, REPOSITORY, MAIN, replace(entry_of(lake), key=b"k%05d" % number))
    prepared = lake.reclaim.preparation.prepare_uncommitted(
        REPOSITORY, limits=PageLimits(objects=1)
    )
    # The branch moves on; what it had then is still read to its end.
    HeadChanges(lake.engine).reset(REPOSITORY, MAIN)
    while prepared.continuation_token:
        prepared = lake.reclaim.preparation.prepare_uncommitted(
            REPOSITORY, token=prepared.continuation_token, limits=PageLimits(objects=1)
        )
    staged = addresses(lake, end(lake, prepared), GCFileKind.STAGED)
    assert staged.total() == 10 + 1


def entry_of(lake: Lake) -> Entry:
    if not lake.exists(b"a"):
        lake.upload(b"a", "x")
    return staging.get(lake.engine, REPOSITORY, "main", b"a")


def test_time_ends_a_page(lake: Lake) -> None:
    lake.upload(b"a", "x")
    prepared = lake.reclaim.preparation.prepare_uncommitted(
        REPOSITORY, limits=PageLimits(seconds=0)
    )
    assert prepared.continuation_token is not None


def test_an_idle_branch_costs_one_scan_for_one_key(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        lake.engine.refs.create_branch(REPOSITORY, f"idle{number:02}", "main")
    scans: list[tuple[bytes, int | None]] = []
    scan = lake.store.scan

    def note(partition: bytes, *arguments: Any, limit: int | None = None, **options: Any) -> object:
        scans.append((partition, limit))
        return scan(partition, *arguments, limit=limit, **options)

    monkeypatch.setattr(lake.store, "scan", note)
    prepare_pages(lake, PageLimits())
    of_tokens = [each for each in scans if each[0] != lake.repository.partition]
    assert len(of_tokens) == 22
    assert {limit for _, limit in of_tokens} == {1}


# Repeats, and what is refused


def test_a_page_that_is_asked_for_again_is_the_same(lake: Lake) -> None:
    lake.upload(b"a", "x")
    first = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, limits=SMALL)
    token = first.continuation_token
    second = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, token=token, limits=SMALL)
    lake.upload(b"b", "y")
    again = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, token=token)
    assert again == second


def test_two_that_write_one_page_agree(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to end takes the page of the first, and where that goes on."""
    for path in (b"a", b"b"):
        lake.upload(path, "x")
        lake.upload(path, "x", DEV)
    first = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, limits=PageLimits(branches=1))
    create_page = RunFiles.create_page
    raced: list[PreparedRun] = []

    def be_overtaken(self: RunFiles, page: object) -> object:
        if not raced:
            raced.append(first)
            raced[0] = lake.reclaim.preparation.prepare_uncommitted(
                REPOSITORY, token=first.continuation_token, limits=PageLimits(objects=1)
            )
        return create_page(self, page)  # type: ignore[arg-type]

    monkeypatch.setattr(RunFiles, "create_page", be_overtaken)
    slow = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, token=first.continuation_token)
    assert slow == raced[0]
    assert slow.continuation_token is not None


def test_the_time_of_the_last_run_that_was_prepared_is_measured(lake: Lake) -> None:
    name = "lakebed_gc_last_prepared_timestamp_seconds"
    prepared, _ = prepare_pages(lake)
    before = REGISTRY.get_sample_value(name)
    lake.reclaim.preparation.prepare_commits(
        REPOSITORY
    )  # of commits alone: nothing can be collected by it
    assert REGISTRY.get_sample_value(name) == before
    began = lake.clock.now()
    end(lake, prepared)
    assert (REGISTRY.get_sample_value(name) or 0.0) >= began


def test_the_manifest_is_written_once(lake: Lake) -> None:
    prepared, _ = prepare_pages(lake)
    manifest = end(lake, prepared)
    lake.upload(b"a", "x")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    assert end(lake, prepared) == manifest


@pytest.mark.parametrize("token", ["", "x", "../run", "0" * 36 + ".1", "0" * 36 + ".0"])
def test_bad_tokens(lake: Lake, token: str) -> None:
    with pytest.raises(InvalidRun):
        lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, token=token)


def test_a_token_that_is_used_up_or_of_another_repository(lake: Lake) -> None:
    prepared, pages = prepare_pages(lake)
    with pytest.raises(InvalidRun):
        lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, token=f"{prepared.run_id}.{pages}")
    other = RepositoryID("other")
    namespace = Namespace.parse(f"{lake.block.scheme}://lake/{other}")
    lake.engine.repositories.create(other, namespace, committer="ann")
    with pytest.raises(InvalidRun):
        lake.reclaim.preparation.prepare_uncommitted(other, token=f"{prepared.run_id}.1")
    with pytest.raises(InvalidRun):
        lake.reclaim.preparation.prepare_commits(other, run_id=prepared.run_id)


def test_commits_come_last(lake: Lake) -> None:
    prepared = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, limits=SMALL)
    with pytest.raises(InvalidRun, match="prepare the other pages first"):
        lake.reclaim.preparation.prepare_commits(REPOSITORY, run_id=prepared.run_id)
    with pytest.raises(InvalidRun):
        lake.reclaim.preparation.prepare_commits(REPOSITORY, run_id=GCRunID("../x"))


def test_a_run_of_commits_alone_says_so(lake: Lake) -> None:
    prepared = lake.reclaim.preparation.prepare_commits(REPOSITORY)
    manifest = files_of(lake, prepared.run_id).find_manifest()
    assert manifest is not None
    assert not manifest.run.with_uploads
    assert table(lake, manifest, GCFileKind.COMMITS).num_rows == 1
    assert lake.reclaim.preparation.prepare_commits(REPOSITORY, run_id=prepared.run_id) == prepared


def test_another_repository_under_the_name(lake: Lake) -> None:
    prepared, _ = prepare_pages(lake)
    old = lake.repository.unique_id
    namespace = lake.repository.namespace
    lake.engine.repositories.delete(REPOSITORY)
    lake.engine.repositories.create(REPOSITORY, namespace, committer="ann")
    with pytest.raises(RepositoryNotFound):
        lake.reclaim.preparation.prepare_uncommitted(REPOSITORY, unique_id=old)
    with pytest.raises(RepositoryNotFound):
        lake.reclaim.preparation.prepare_commits(REPOSITORY, unique_id=old, run_id=prepared.run_id)
    with pytest.raises(InvalidRun):
        lake.reclaim.preparation.prepare_commits(
            REPOSITORY, unique_id=UniqueID(lake.repository.unique_id), run_id=prepared.run_id
        )


def test_adopted_ids_are_told(lake: Lake) -> None:
    dumped = dump(lake.engine, REPOSITORY)
    old, namespace = lake.repository.unique_id, lake.repository.namespace
    lake.engine.repositories.delete(REPOSITORY)
    lake.engine.repositories.create_bare(REPOSITORY, namespace)
    restore(lake.engine, REPOSITORY, dumped.dump_id)
    prepared, _ = prepare_pages(lake)
    assert end(lake, prepared).run.adopted_unique_ids == (old,)


# Files


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda data: data[:-5], DamagedFile),
        (lambda data: data.replace(b'"ended_us": 1', b'"ended_us": 2'), DamagedFile),
        (lambda data: data.replace(b"gc_manifest", b"gc_page"), ForeignFile),
        (lambda data: data.replace(b'"format": 2', b'"format": 9'), FormatTooNew),
    ],
)
def test_damage_is_found_out(
    lake: Lake, damage: Callable[[bytes], bytes], error: type[Exception]
) -> None:
    prepared, _ = prepare_pages(lake)
    manifest = end(lake, prepared)
    data = encode_gc_record(manifest)
    assert decode_gc_record(GCManifest, data, prepared.run_id, file="f") == manifest
    assert damage(data) != data
    with pytest.raises(error):
        decode_gc_record(GCManifest, damage(data), prepared.run_id, file="f")
    with pytest.raises(ForeignFile):
        decode_gc_record(GCManifest, data, GCRunID("other"), file="f")


# However pages are cut


@pytest.mark.parametrize("records", [1, 2, 3])
def test_a_page_goes_on_with_the_very_next_key(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """Whatever a page ended with, also if the keys that follow begin with it."""
    monkeypatch.setattr("lakebed.reclaim.prepare._RECORDS", records)
    base = entry_of(lake)
    HeadChanges(lake.engine).reset(REPOSITORY, MAIN)
    tails = [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x01",
        b"\x01",
        b"a",
        b"aa",
        b"b",
        b"\xff",
        b"\xff\xff",
    ]
    for number, tail in enumerate(tails):
        staged = replace(base, key=b"key" + tail, address=f"object-{number}")
        staging.put(lake.engine, REPOSITORY, MAIN, staged)
    prepared, pages = prepare_pages(lake, SMALL)
    assert pages >= len(tails) // records
    found = addresses(lake, end(lake, prepared), GCFileKind.STAGED)
    address = lake.repository.namespace.address
    assert found == Counter(str(address(f"object-{number}")) for number in range(len(tails)))


@given(
    counts=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3), max_size=6),
    objects=st.integers(1, 8),
    branches=st.integers(1, 4),
)
def test_pages_together_hold_everything(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[list[int]],
    objects: int,
    branches: int,
) -> None:
    folder: Path = tmp_path_factory.getbasetemp()
    with open_lake("memory", folder) as lake, pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakebed.reclaim.prepare._RECORDS", 2)
        patch.setattr("lakebed.reclaim.prepare._BRANCHES", 3)
        patch.setattr("lakebed.reclaim.runs.FILE_ROWS", 3)
        base = entry_of(lake)
        expected: list[str] = [str(lake.repository.namespace.address(base.address))]
        for number, tokens in enumerate(counts):
            name = BranchID(f"b{number}")
            lake.engine.refs.create_branch(REPOSITORY, name, "main")
            for token, keys in enumerate(tokens):
                for key in range(keys):
                    relative = f"{number}-{token}-{key}"
                    staged = replace(base, key=b"k%d" % key, address=relative)
                    staging.put(lake.engine, REPOSITORY, name, staged)
                    expected.append(str(lake.repository.namespace.address(relative)))
                seal(lake, name)
        limits = PageLimits(objects=objects, branches=branches)
        prepared, _ = prepare_pages(lake, limits)
        manifest = end(lake, prepared)
        assert addresses(lake, manifest, GCFileKind.STAGED) == Counter(expected)
