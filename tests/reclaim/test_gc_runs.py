"""The list of runs: each says what became of it."""

import json

import pytest

from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.model import RepositoryID
from lakebed.formats.gc_files import REFUSAL_NAME, SUMMARY_NAME
from lakebed.formats.layout import gc_path
from tests.kit.lake import REPOSITORY, Lake
from tests.reclaim.test_gc_prepare import prepare_pages


def begin(lake: Lake) -> str:
    prepared, _ = prepare_pages(lake)
    return prepared.run_id


def leave(lake: Lake, run_id: str, name: str, content: dict[str, object]) -> None:
    path = gc_path(lake.repository.unique_id, run_id, name)  # type: ignore[arg-type]
    lake.block.put(lake.repository.namespace.address(path), [json.dumps(content).encode()])


def states(lake: Lake) -> list[tuple[str, str]]:
    return [(run.state, run.message) for run in lake.reclaim.runs.list(REPOSITORY)]


def test_the_outcome_of_each_run_is_listed(lake: Lake) -> None:
    leave(lake, begin(lake), SUMMARY_NAME, {"success": True, "deleted": 3})
    leave(lake, begin(lake), SUMMARY_NAME, {"success": False})
    leave(lake, begin(lake), REFUSAL_NAME, {"message": "too much"})
    begin(lake)
    begin(lake)
    assert states(lake) == [
        ("done", ""), ("incomplete", ""), ("refused", "too much"), ("died", ""), ("running", ""),
    ]  # fmt: skip
    first, *_ = lake.reclaim.runs.list(REPOSITORY)
    assert first.summary == {"success": True, "deleted": 3}
    rest = lake.reclaim.runs.list(REPOSITORY, after=first.id)
    assert len(list(rest)) == 4
    lake.clock.ahead_seconds += 25 * 3600
    assert states(lake)[-1] == ("died", "")


def test_what_writes_down_commits_alone_is_no_run(lake: Lake) -> None:
    """As clients of lakeFS ask for it."""
    begin(lake)
    lake.reclaim.preparation.prepare_commits(REPOSITORY)
    assert states(lake) == [("running", "")]


def test_a_repository_without_runs_and_none(lake: Lake) -> None:
    assert states(lake) == []
    with pytest.raises(RepositoryNotFound):
        lake.reclaim.runs.list(RepositoryID("other"))
