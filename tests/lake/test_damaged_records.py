"""Background jobs beside records that cannot be decoded, or decode and name nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.keys import BRANCHES, CLOSED, COMMITS, EXPIRY, GRAVELER, REPOSITORIES, TAGS
from lakebed.formats.gc_files import GCFileKind, GCManifest, decode_gc_table
from lakebed.kv import CorruptRecord
from lakebed.kv.records import RecordKind
from lakebed.lake.commits import HeadChanges
from lakebed.lake.keys import (
    IMPORTS,
    LINKS,
    MULTIPART_PARTS,
    MULTIPARTS,
    PINS,
    PULLS,
    PULLS_MERGING,
    TASKS,
    WAITING,
    WAITING_PARTITION,
)
from lakebed.reclaim.retention import RetentionRules
from lakebed.reclaim.runs import RunFiles
from tests.kit.lake import MAIN, REPOSITORY, Lake, open_lake

DAMAGED = [b"\xff\xff\xff", b""]
DAY = 86_400.0
REQUEST = CommitRequest(committer="ann", message="m")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("memory", tmp_path) as opened:
        yield opened


def damage(lake: Lake, kind: RecordKind[Any], name: bytes, value: bytes) -> bytes:
    """Write a damaged record into the repository's partition; return its key."""
    lake.store.set(lake.repository.partition, kind.prefix + name, value)
    return kind.prefix + name


@pytest.mark.parametrize("value", DAMAGED)
def test_expired_records_are_removed_beside_damaged_ones(
    lake: Lake, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = {
        damage(lake, kind, b"!", value)
        for kind in (LINKS, MULTIPARTS, PINS, TASKS, IMPORTS, PULLS_MERGING)
    }
    lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    lake.catalog.multiparts.create(REPOSITORY, MAIN, b"b")
    lake.catalog.tasks.start(lake.repository, "k", lambda: "")
    lake.clock.ahead_seconds += 30 * DAY
    counts = lake.reclaim.expired.run_once()
    assert (counts.links, counts.multiparts, counts.uncertain) == (1, 1, 0)
    assert counts.tasks >= 1
    for key in damaged - {TASKS.prefix + b"!", IMPORTS.prefix + b"!", PULLS_MERGING.prefix + b"!"}:
        assert lake.store.get(lake.repository.partition, key).value == value
        assert key.decode() in caplog.text


def test_uploads_that_have_expired_go_with_damaged_records_of_parts(lake: Lake) -> None:
    uploads = [lake.catalog.multiparts.create(REPOSITORY, MAIN, b"a") for _ in range(3)]
    for upload in uploads:
        damage(lake, MULTIPART_PARTS, f"{upload.id}/00001".encode(), b"\xff")
    lake.clock.ahead_seconds += 30 * DAY
    counts = lake.reclaim.expired.run_once()
    assert (counts.multiparts, counts.uncertain) == (3, 0)
    prefix = MULTIPART_PARTS.prefix
    assert not list(lake.store.scan(lake.repository.partition, prefix, prefix=prefix))


@pytest.mark.parametrize("value", DAMAGED)
def test_a_merge_whose_record_is_damaged_is_passed_over(
    lake: Lake, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    damage(lake, PULLS_MERGING, b"a", b"")
    if value:
        damage(lake, PULLS, b"a", value)
    damage(lake, PULLS_MERGING, b"b", b"")
    lake.reclaim.expired.run_once()
    left = [item.key for item in lake.store.scan(lake.repository.partition, PULLS_MERGING.prefix)]
    assert PULLS_MERGING.prefix + b"b" not in left
    assert ("is not a valid PullRequest" in caplog.text) == bool(value)


@pytest.mark.parametrize("value", DAMAGED)
def test_a_repository_that_names_no_place_is_passed_over(
    lake: Lake, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lake.store.set(GRAVELER, REPOSITORIES.prefix + b"!", value)
    assert lake.reclaim.expired.run_once().repositories == 1
    assert "repos/!" in caplog.text


@pytest.mark.parametrize("value", DAMAGED)
def test_a_note_of_a_deleted_repository_that_names_no_place_is_passed_over(
    lake: Lake, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lake.upload(b"a", "text")
    lake.engine.repositories.delete(REPOSITORY)
    for name in (b"!", b"\xff", b"mem://lake/!/"):
        lake.store.set(GRAVELER, CLOSED.prefix + name, value)
    purges = lake.reclaim.repository_purges
    purges.request(REPOSITORY)
    lake.clock.ahead_seconds += 2 * DAY
    assert purges.run_due() > 0
    assert "closed_namespaces/!" in caplog.text


@pytest.mark.parametrize("value", DAMAGED)
def test_an_import_that_names_no_repository_is_logged_once(
    lake: Lake, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lake.store.set(WAITING_PARTITION, WAITING.prefix + b"!", value)
    for _ in range(3):
        assert lake.catalog.import_runner.run_waiting() == 0
    assert caplog.text.count("waiting/!") == 1
    assert lake.store.get(WAITING_PARTITION, WAITING.prefix + b"!").value == value


# Garbage collection and retention


def prepared(lake: Lake) -> tuple[GCManifest, RunFiles]:
    gc = lake.reclaim.preparation
    run_id = gc.prepare_uncommitted(REPOSITORY).run_id
    gc.prepare_commits(REPOSITORY, run_id=run_id)
    files = RunFiles(lake.block, lake.clock, lake.repository, run_id)
    manifest = files.find_manifest()
    assert manifest is not None
    return manifest, files


@pytest.mark.parametrize("kind", [LINKS, MULTIPARTS])
@pytest.mark.parametrize("value", DAMAGED)
def test_a_run_is_prepared_beside_a_damaged_upload_which_counts_as_open(
    lake: Lake, kind: RecordKind[Any], value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    key = damage(lake, kind, b"!", value)
    manifest, files = prepared(lake)
    (file,) = manifest.of_kind(GCFileKind.UPLOADS)
    data = lake.block.read(
        lake.repository.namespace.address(files.location.partition("lake/lake/")[2] + file.name)
    )
    (row,) = decode_gc_table(data, file, file=file.name).to_pylist()
    assert (row["kind"], row["open"]) == ("unreadable", True)
    assert key.decode() in caplog.text


@pytest.mark.parametrize("kind", [BRANCHES, TAGS, COMMITS])
@pytest.mark.parametrize("value", DAMAGED)
def test_nothing_expires_while_a_retaining_record_is_damaged(
    lake: Lake, kind: RecordKind[Any], value: bytes
) -> None:
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    for number in range(4):
        lake.upload(b"a", str(number))
        HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    key = damage(lake, kind, b"main", value)
    for _ in range(3):
        lake.clock.ahead_seconds += 10 * DAY
        with pytest.raises(CorruptRecord, match=key.decode()):
            lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)
    assert not list(lake.store.scan(lake.repository.partition, EXPIRY.prefix, prefix=EXPIRY.prefix))


@pytest.mark.parametrize("value", DAMAGED)
def test_a_damaged_mark_keeps_its_commit_and_others_expire(
    lake: Lake, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    commits = []
    for number in range(4):
        lake.upload(b"a", str(number))
        commits.append(HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id)
    key = damage(lake, EXPIRY, commits[0].encode(), value)
    for _ in range(3):
        lake.clock.ahead_seconds += 10 * DAY
        lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)
    expired = set(lake.engine.marks.expired(lake.repository))
    assert commits[1] in expired
    assert commits[0] not in expired
    assert key.decode() in caplog.text
    prepared(lake)
