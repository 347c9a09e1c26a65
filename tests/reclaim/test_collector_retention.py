"""Runs delete what only expired commits name, and nothing else; before, they say what that is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakebed.block import Address
from lakebed.engine.model import TagID
from lakebed.reclaim.collector.executors.read import TALLY
from lakebed.reclaim.collector.job import CollectorOptions
from lakebed.reclaim.collector.report import RunSummary, counts_by_branch
from lakebed.reclaim.collector.storage import open_storage
from lakebed.reclaim.retention import RetentionRules
from tests.kit.lake import DEV, MAIN, REPOSITORY
from tests.spark.lakes import GCLake, LocalServer, local_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[GCLake]:
    with local_lake(tmp_path, None) as lake:
        yield lake


def freed_by_branch(lake: GCLake, summary: RunSummary) -> dict[str, tuple[int, int]]:
    storage = open_storage(LocalServer(lake.lake), lake.settings)
    counts = counts_by_branch(storage, summary)
    freed = (each for each in counts if each["verdict"] == "freed")
    return {each["branch"]: (each["objects"], each["bytes"]) for each in freed}


def test_the_data_of_old_commits_goes_and_that_of_tags_stays(lake: GCLake) -> None:
    gone, tagged = lake.upload("a"), lake.upload("b", "tagged")
    lake.commit()
    lake.delete("a")
    lake.lake.catalog.ref_changes.create_tag(REPOSITORY, "v1", lake.commit())
    lake.delete("b")
    kept = lake.upload("c", "kept")
    lake.commit()
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    lake.later(24 * 9)
    assert lake.run().commits["marked"] == 1
    lake.later(25)
    first = lake.run()
    assert (first.commits["expired"], first.mode, first.waiting) == (1, "clean", 1)
    assert lake.stored() == {gone, tagged, kept}
    lake.later()
    second = lake.run()
    assert (second.mode, second.deleted) == ("optimized", 1)
    assert lake.stored() == {tagged, kept}
    lake.lake.catalog.ref_changes.delete_tag(REPOSITORY, TagID("v1"))
    for hours in (0, 25, 2):
        lake.later(hours)
        lake.run()
    assert lake.stored() == {kept}
    assert lake.lake.text("main", b"c") == "kept"


def test_what_expires_and_what_that_frees_is_told_by_branch(lake: GCLake) -> None:
    check_expiry(lake)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_on_spark(tmp_path: Path, spark: "SparkSession") -> None:
    TALLY.begin()
    with local_lake(tmp_path, spark) as lake:
        check_expiry(lake)
    # Executors say what they have done: a terminal shows it beside each step.
    assert re.match(r"\d+ objects, ", str(TALLY))
    TALLY.begin()
    assert not str(TALLY)


def check_expiry(lake: GCLake) -> None:
    """A dry run tells it before, of all that no rule keeps; a run, of what has just expired."""
    lake.upload("a", "four")
    lake.upload("shared", "stays")
    lake.commit()
    for path, text in [("b", "12"), ("c", "123")]:
        lake.upload(path, text, DEV)
    lake.commit(DEV)
    for path, branch in [("a", MAIN), ("b", DEV), ("c", DEV)]:
        lake.delete(path, branch)
        lake.commit(branch)
    lake.upload("shared", "garbage")
    lake.delete("shared")
    lake.upload("d")
    lake.commit()
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    lake.later(24 * 9)
    expected = {"main": (2, 9), "dev": (2, 5)}
    dry = lake.run(CollectorOptions(dry_run=True))
    assert (dry.freed, dry.freed_bytes, dry.waiting) == (4, 14, 5)
    assert freed_by_branch(lake, dry) == expected
    assert dry.commits["next_by_branch"] == {"main": 2, "dev": 2, "": 1}
    marking = lake.run()
    assert (marking.freed, marking.waiting, marking.commits["marked"]) == (0, 1, 5)
    lake.later(25)
    dry = lake.run(CollectorOptions(dry_run=True))
    assert (dry.mode, dry.freed, dry.commits["expired"]) == ("clean", 4, 5)
    done = lake.run()
    assert (done.freed, done.freed_bytes, done.waiting) == (4, 14, 4)
    assert freed_by_branch(lake, done) == expected
    assert done.commits["by_branch"] == {"main": 2, "dev": 2, "": 1}
    assert "5 commits expired, which frees 4 objects (14 bytes)" in done.sentence()
    assert "5 commits would expire" in dry.sentence()
    lake.later()
    last = lake.run()
    assert (last.mode, last.freed, last.deleted) == ("optimized", 0, 4)


def test_a_file_of_an_expired_commit_that_is_gone_stops_no_run(lake: GCLake) -> None:
    """Nobody needs to know any more what it named."""
    lake.upload("a")
    lake.commit()
    folder = lake.lake.repository.namespace.folder("_lakebed/ranges")
    (listed,) = lake.lake.block.list_objects(folder)
    (lost,) = listed.column("address").to_pylist()
    lake.delete("a")
    lake.upload("b")
    lake.commit()
    lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    lake.later(24 * 9)
    lake.run()
    lake.later(25)
    lake.lake.block.delete(Address.parse(lost))
    done = lake.run()
    assert (done.commits["expired"], done.waiting, done.freed) == (1, 1, 0)
