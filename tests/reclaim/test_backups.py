"""A database that is older than its storage: marks that it lacks are read from the storage."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.block import Namespace, StorageUnavailable
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import CommitID
from lakebed.kv import open_store
from lakebed.lake.catalog import Catalog
from lakebed.lake.errors import MissingBytes, Purged
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.retention import RetentionRules
from lakebed.reclaim.service import Reclaim
from tests.kit.engines import new_engine
from tests.kit.lake import MAIN, REPOSITORY, Lake, open_lake

DAY = 86_400.0


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("disk", tmp_path) as lake:
        yield lake


def back_up(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "lake.db")) as source,
        closing(sqlite3.connect(tmp_path / "backup.db")) as backup,
    ):
        source.backup(backup)


@contextmanager
def restored(lake: Lake, tmp_path: Path) -> Iterator[Lake]:
    """The backup of the database, beside the storage as it is now."""
    with open_store(f"sqlite:///{tmp_path}/backup.db") as store:
        engine = new_engine(store, lake.block, runtime=lake.clock)
        catalog = Catalog(engine, store, lake.block, lake.clock, lake.settings)
        reclaim = Reclaim(catalog, engine, store, lake.block, lake.clock, lake.settings)
        yield replace(lake, store=store, engine=engine, catalog=catalog, reclaim=reclaim)


def commit(lake: Lake, path: bytes) -> CommitID:
    lake.upload(path, path.decode())
    request = CommitRequest(committer="ann", message="m")
    return lake.catalog.commits.commit(REPOSITORY, MAIN, request).commit.id


def pass_days(lake: Lake, days: float) -> None:
    lake.clock.ahead_seconds += days * DAY


def collect(lake: Lake) -> None:
    """Let commits expire, as a run of garbage collection does, and begin the run."""
    lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)
    lake.reclaim.preparation.prepare_uncommitted(REPOSITORY)


def purge(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake.clock, "sleep", lambda _seconds: None)
    lake.reclaim.purges.purge(
        REPOSITORY, PurgeQuery("path", b"secret"), reason="asked for", username="ada"
    )


@pytest.fixture
def commits(lake: Lake, tmp_path: Path) -> list[CommitID]:
    """Two commits that expired after the backup; in the backup, main is at the second one."""
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    made = [commit(lake, b"a"), commit(lake, b"b")]
    collect(lake)
    back_up(tmp_path)
    pass_days(lake, 10)
    commit(lake, b"c")
    pass_days(lake, 3)
    commit(lake, b"d")
    pass_days(lake, 3)
    for _ in range(3):
        collect(lake)
        pass_days(lake, 1.1)
    assert all(lake.engine.marks.is_expired(lake.repository, each) for each in made)
    return made


def test_marks_of_expired_commits_are_read_but_not_of_those_that_refs_name(
    lake: Lake, commits: list[CommitID], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, head = commits
    with restored(lake, tmp_path) as old:
        assert not old.engine.marks.is_expired(old.repository, first)
        with caplog.at_level(logging.WARNING):
            assert old.reclaim.backups.catch_up_all() == 1
        assert old.engine.marks.is_expired(old.repository, first)
        assert not old.engine.marks.is_expired(old.repository, head)
        assert f"branch main of repository {REPOSITORY} is at commit {head}" in caplog.text
        assert "is older than its storage" in caplog.text
        assert old.reclaim.backups.catch_up_all() == 0


def test_a_run_reads_the_marks_before_it_notes_itself(
    lake: Lake, commits: list[CommitID], tmp_path: Path
) -> None:
    with restored(lake, tmp_path) as old:
        old.reclaim.preparation.prepare_uncommitted(REPOSITORY)
        assert old.engine.marks.is_expired(old.repository, commits[0])


def test_a_purge_reads_the_marks_before_it_notes_itself(
    lake: Lake, commits: list[CommitID], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restored(lake, tmp_path) as old:
        purge(old, monkeypatch)
        assert old.engine.marks.is_expired(old.repository, commits[0])


def test_marks_of_purged_objects_are_read(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(b"secret", "x")
    back_up(tmp_path)
    purge(lake, monkeypatch)
    with restored(lake, tmp_path) as old:
        with pytest.raises(MissingBytes) as missing:
            old.text("main", b"secret")
        assert not isinstance(missing.value, Purged)
        assert old.reclaim.backups.catch_up_all() == 1
        with pytest.raises(Purged):
            old.text("main", b"secret")


def test_a_process_that_dies_before_it_has_read_all_leaves_it_to_the_next_one(
    lake: Lake, commits: list[CommitID], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with restored(lake, tmp_path) as old:
        with monkeypatch.context() as dying:

            def fail(*_: object) -> None:
                raise StorageUnavailable("away")

            dying.setattr("lakebed.reclaim.backups.read_all_expired", fail)
            with pytest.raises(StorageUnavailable):
                old.reclaim.backups.catch_up(old.repository)
        assert old.reclaim.backups.catch_up_all() == 1
        assert old.engine.marks.is_expired(old.repository, commits[0])


def test_a_repository_that_cannot_be_caught_up_does_not_stop_the_others(
    lake: Lake, commits: list[CommitID], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with restored(lake, tmp_path) as old:
        make = old.engine.repositories.create
        make("a-damaged-one", Namespace.parse("local://damaged"), committer="ann")
        away = make("a-bucket-away", Namespace.parse("local://away"), committer="ann")
        old.store.set(GRAVELER, REPOSITORIES.prefix + b"a-damaged-one", b"\xff")
        list_folders = old.block.list_folders

        def list_some(namespace: Namespace) -> Iterator[str]:
            if str(namespace).startswith(str(away.namespace)):
                raise StorageUnavailable("the bucket is away")
            return list_folders(namespace)

        with pytest.MonkeyPatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setattr(old.block, "list_folders", list_some)
            assert old.reclaim.backups.catch_up_all() == 1
        assert old.engine.marks.is_expired(old.repository, commits[0])
        assert "repository a-bucket-away" in caplog.text
        assert "the bucket is away" in caplog.text


@pytest.mark.usefixtures("commits")
def test_a_database_that_is_not_older_has_nothing_to_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(b"secret", "x")
    purge(lake, monkeypatch)
    collect(lake)
    assert lake.reclaim.backups.catch_up_all() == 0
