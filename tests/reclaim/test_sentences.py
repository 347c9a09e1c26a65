"""What a run says of itself: in words, while it goes on, and when it ends early."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Address, LocalSettings, StorageUnavailable
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.clients.cli.commands.gc import _shown
from lakebed.reclaim.collector.errors import NotQuiet
from lakebed.reclaim.collector.executors.read import TALLY
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.report import RunSummary
from lakebed.reclaim.collector.storage import open_storage
from tests.kit import staging
from tests.kit.lake import MAIN, REPOSITORY, Lake, open_lake
from tests.spark.lakes import LocalServer


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("disk", tmp_path) as opened:
        yield opened


def collect(lake: Lake, folder: Path, options: CollectorOptions | None = None) -> RunSummary:
    server = LocalServer(lake)
    storage = open_storage(server, LocalSettings(folder / "objects"))
    executor = ArrowExecutor(storage, ThreadRuntime())
    return CollectorJob(executor, server, storage).run(options or CollectorOptions())


def test_a_run_says_in_words_what_happened(lake: Lake, tmp_path: Path) -> None:
    lake.upload(b"a", "1")
    lake.upload(b"a", "2")
    staging.delete(lake.engine, REPOSITORY, MAIN, b"a")
    said = [collect(lake, tmp_path, CollectorOptions(dry_run=True)).sentence()]
    for hours in (24 * 9, 2, 2):
        lake.clock.ahead_seconds += hours * 3600
        said.append(collect(lake, tmp_path).sentence())
    assert said[0] == ("Dry run: 0 objects would be deleted; no other garbage was found.")
    assert said[1].startswith("No objects to delete yet; 2 more await confirmation by a run that")
    assert said[2] == "2 objects (2 bytes) were deleted; no other garbage was found."
    assert said[3] == "No objects to delete yet; no other garbage was found."


def test_a_run_counts_what_it_lists(lake: Lake, tmp_path: Path) -> None:
    for number in range(3):
        lake.upload(f"{number}".encode(), "1")
    TALLY.begin()
    assert str(TALLY) == ""
    collect(lake, tmp_path)
    assert str(TALLY).startswith("3 objects, ")


def test_a_run_that_is_refused_says_why_in_the_list(lake: Lake, tmp_path: Path) -> None:
    lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"never")
    with pytest.raises(NotQuiet) as refused:
        collect(lake, tmp_path, CollectorOptions(assume_quiet=True))
    collect(lake, tmp_path)
    runs = list(lake.reclaim.runs.list(REPOSITORY))
    assert [(run.state, run.message) for run in runs] == [
        ("refused", str(refused.value)), ("done", ""),
    ]  # fmt: skip


@pytest.mark.parametrize("file", ["swept-", "state.json"])
def test_a_run_that_ends_while_it_deletes_is_not_called_refused(
    file: str, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads that a run was refused believes that nothing was deleted."""
    lake.upload(b"a", "1")
    staging.delete(lake.engine, REPOSITORY, MAIN, b"a")
    lake.clock.ahead_seconds += 24 * 9 * 3600
    collect(lake, tmp_path)
    lake.clock.ahead_seconds += 2 * 3600

    def full(
        store: LocalBlockStore, address: Address, data: bytes, *rest: Any, **options: Any
    ) -> object:
        if file in str(address):
            raise StorageUnavailable("the disk is full")
        return write(store, address, data, *rest, **options)

    name = "create" if file == "swept-" else "replace"
    write = getattr(LocalBlockStore, name)
    monkeypatch.setattr(LocalBlockStore, name, full)
    with pytest.raises(StorageUnavailable):
        collect(lake, tmp_path)
    *_, last = lake.reclaim.runs.list(REPOSITORY)
    assert (last.state, last.message) == ("incomplete", "the disk is full")


def test_the_report_describes_expired_commits() -> None:
    figures = {"commits": 6, "marked": 1, "waiting": 2, "rescued": 0, "expired": 3}
    figures_of_branches = {"main": 2, "": 1}
    commits = {"ran": True, **figures, "by_branch": figures_of_branches}
    assert _shown({"commits": commits}) == {
        "commits": "6 scanned, 1 newly marked, 2 marked before, 0 in use again, 3 expired"
        " (main 2, (no branch) 1)"
    }
    assert _shown({"commits": {"ran": False}})["commits"].startswith("skipped: ")
