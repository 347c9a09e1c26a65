"""Random histories through the engine, a real storage and Spark itself: few, for they take long.

In every other one old commits expire.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakebed.block import Address
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.errors import EngineError
from lakebed.engine.model import BranchID, TagID
from lakebed.formats.gc_files import GCResultKind, GCRunID
from lakebed.formats.layout import gc_run_folder
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.collector.job import CollectorOptions
from lakebed.reclaim.collector.report import RunSummary
from lakebed.reclaim.collector.storage import open_storage
from lakebed.reclaim.retention import RetentionRules
from tests.kit.rounds import rounds
from tests.spark.lakes import DEV, MAIN, REPOSITORY, GCLake, LocalServer, local_lake

pytestmark = pytest.mark.timeout(3600)

SEEDS = rounds(1, long=12)
RUNS = 3
STEPS = 25
BRANCHES = (MAIN, DEV, BranchID("dev-2"))
KEYS = ("a", "b", "c")
MERGE = MergeRequest(committer="ann", message="m")


class History:
    """What people do to a repository, drawn by chance."""

    def __init__(self, lake: GCLake, seed: int) -> None:
        self.lake = lake
        self.random = random.Random(seed)
        self.commits: list[str] = []

    def step(self) -> None:
        """Do something; what cannot be done now is refused, and changes nothing."""
        lake, engine, draw = self.lake, self.lake.lake.engine, self.random.choice
        copies = lake.lake.catalog.copies
        branch, other, key, target = draw(BRANCHES), draw(BRANCHES), draw(KEYS), draw(KEYS)
        text = str(self.random.randint(0, 3))  # some are what is there already
        refs = [*BRANCHES, *self.commits]
        steps: list[tuple[int, Callable[[], object]]] = [
            (8, lambda: lake.lake.upload(key.encode(), text, branch)),
            (2, lambda: lake.delete(key, branch)),
            (
                3,
                lambda: copies.copy(
                    REPOSITORY,
                    branch,
                    target.encode(),
                    source_ref=draw((branch, other)),
                    source_path=key.encode(),
                ),
            ),
            (6, lambda: self.commits.append(lake.commit(branch))),
            (2, lambda: HeadChanges(engine).merge(REPOSITORY, other, branch, MERGE)),
            (1, lambda: HeadChanges(engine).hard_reset(REPOSITORY, branch, draw(refs))),
            (1, lambda: HeadChanges(engine).reset(REPOSITORY, branch)),
            (1, lambda: HeadChanges(engine).reset_object(REPOSITORY, branch, key.encode())),
            (1, lambda: engine.refs.delete_branch(REPOSITORY, draw(BRANCHES[1:]))),
            (2, lambda: engine.refs.create_branch(REPOSITORY, draw(BRANCHES[1:]), draw(refs))),
            (1, lambda: engine.refs.create_tag(REPOSITORY, TagID(f"tag-{text}"), draw(refs))),
            (2, lambda: lake.later(self.random.random() * 30)),
        ]
        with suppress(EngineError):
            self.random.choices([do for _, do in steps], [weight for weight, _ in steps])[0]()

    def seen(self) -> dict[tuple[str, str], str]:
        """All that can be read, at every branch, tag and commit that has not expired."""
        found = {}
        lake, expired = self.lake.lake, self.expired()
        tags = [tag.id for tag in lake.engine.tags.list(lake.repository)]
        for ref in (*BRANCHES, *tags, *(each for each in self.commits if each not in expired)):
            for key in KEYS:
                with suppress(EngineError):
                    found[ref, key] = self.lake.lake.text(ref, key.encode())
        return found

    def expired(self) -> set[str]:
        lake = self.lake.lake
        return set(lake.engine.marks.expired(lake.repository))

    def check(self, before: dict[tuple[str, str], str]) -> None:
        """All that was seen before is there, but for what has expired since."""
        expired = self.expired()
        stay = {place: text for place, text in before.items() if place[0] not in expired}
        assert self.seen() == stay


MAY_DIFFER: dict[str, Any] = {
    "dry_run": False,
    "executor": "",
    "commits": {},
    "deleted": 0,
    "deleted_bytes": 0,
    "counts": (),
    "swept": (),
}


class PreparedOnce(LocalServer):
    """Gives the same preparation to all who ask."""

    run_id: GCRunID | None = None

    def prepare(self, unique_id: str) -> GCRunID:
        self.run_id = self.run_id or super().prepare(unique_id)
        return self.run_id

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, Any]:
        """Keep a dry run from judging as if the rules had been carried out."""
        done = super().expire(unique_id, max_share=max_share, dry_run=dry_run)
        return done | dict.fromkeys(("expired", "waiting", "marked"), 0) if dry_run else done


def run_by_both(lake: GCLake, options: CollectorOptions, draw: random.Random) -> None:
    """Let Spark and one process judge the same; one of them deletes, and both would the same."""
    executors = [lake, replace(lake, spark=None)]
    draw.shuffle(executors)
    server = PreparedOnce(lake.lake)
    looker, sweeper = executors
    would = looker.job(server).run(replace(options, dry_run=True))
    due = judged(lake, would, GCResultKind.DUE)
    before = lake.stored()
    did = sweeper.job(server).run(options)
    assert before - lake.stored() == {str(lake.lake.repository.namespace.address(p)) for p in due}
    assert replace(did, **MAY_DIFFER) == replace(would, **MAY_DIFFER)


def judged(lake: GCLake, summary: RunSummary, kind: GCResultKind) -> set[str]:
    """The paths in the files of a run that judged last."""
    storage = open_storage(LocalServer(lake.lake), lake.settings)
    folder = storage.namespace.folder(gc_run_folder(storage.repository_uid, summary.run_id))
    found: set[str] = set()
    for batch in storage.block.list_objects(folder):
        for text in batch.column("address").to_pylist():
            if f"/{kind}-" in text:
                table = pq.read_table(BytesIO(storage.block.read(Address.parse(text))))
                found |= set(table.column("path").to_pylist())
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_readable_objects_are_not_deleted(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    with local_lake(tmp_path, spark) as lake:
        history = History(lake, seed)
        if seed % 2 == 0:
            lake.lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
        lake.lake.engine.refs.create_branch(REPOSITORY, BRANCHES[2], MAIN)
        for branch in BRANCHES:
            lake.upload("a", branch, branch)
            history.commits.append(lake.commit(branch))
        garbage = lake.upload("garbage")
        lake.delete("garbage")
        for _ in range(RUNS):
            for _ in range(STEPS):
                history.step()
            before = history.seen()
            run_by_both(lake, CollectorOptions(clean=history.random.random() < 0.3), history.random)
            history.check(before)
        before = history.seen()
        lake.collect()
        history.check(before)
        assert garbage not in lake.stored()
        # Nothing is left to do, whoever looks.
        last = lake.run(CollectorOptions(clean=True))
        assert (last.waiting, last.young, last.due) == (0, 0, 0)
