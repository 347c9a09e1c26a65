"""Runs delete what only expired commits name, and nothing else."""

from pathlib import Path

from lakebed.engine.model import TagID
from lakebed.engine.retention.rules import RetentionRules
from lakebed.gc.job import Options
from tests.kit.lake import REPOSITORY
from tests.spark.lakes import local_lake


def test_the_data_of_old_commits_goes_and_that_of_tags_stays(tmp_path: Path) -> None:
    with local_lake(tmp_path, None) as lake:
        gone, tagged = lake.upload("a"), lake.upload("b", "tagged")
        lake.commit()
        lake.delete("a")
        lake.lake.catalog.refs.create_tag(REPOSITORY, "v1", lake.commit())
        lake.delete("b")
        kept = lake.upload("c", "kept")
        lake.commit()
        lake.lake.catalog.retention.set_rules(REPOSITORY, RetentionRules(2))
        lake.later(24 * 9)
        dry = lake.run(Options(dry_run=True))
        assert (dry.commits["marked"], dry.commits["expired"]) == (1, 0)
        assert lake.run().commits["marked"] == 1
        lake.later(25)
        first = lake.run()
        assert (first.commits["expired"], first.mode, first.waiting) == (1, "clean", 1)
        assert lake.stored() == {gone, tagged, kept}
        lake.later()
        second = lake.run()
        assert (second.mode, second.deleted) == ("optimized", 1)
        assert lake.stored() == {tagged, kept}
        lake.lake.catalog.refs.delete_tag(REPOSITORY, TagID("v1"))
        for hours in (0, 25, 2):
            lake.later(hours)
            lake.run()
        assert lake.stored() == {kept}
        assert lake.lake.text("main", b"c") == "kept"
