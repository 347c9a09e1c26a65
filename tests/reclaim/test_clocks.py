"""No commit expires by a clock that is far from that of the storage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.formats.layout import gc_check_path
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import ClocksDiffer
from lakebed.reclaim.expirer import Clocks
from lakebed.reclaim.retention import RetentionRules
from tests.kit.lake import MAIN, REPOSITORY, Lake, open_lake
from tests.kit.rounds import stores

REQUEST = CommitRequest(committer="ann", message="m")
DAY = 86_400.0


@pytest.fixture(params=stores("memory", "disk"))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with open_lake(request.param, tmp_path) as opened:
        check = Clocks(opened.block, opened.clock, opened.settings).check
        opened.reclaim.clocks.check = check  # type: ignore[method-assign]
        yield opened


@pytest.mark.parametrize(
    ("ahead_seconds", "how"),
    [(2 * DAY, "172[78].. seconds ahead of"), (-400, "(400|399) seconds behind")],
)
def test_nothing_expires_by_a_wrong_clock(lake: Lake, ahead_seconds: float, how: str) -> None:
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    for number in range(3):
        lake.upload(b"a", str(number))
        HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    lake.clock.ahead_seconds = ahead_seconds
    for dry_run in (True, False):
        with pytest.raises(ClocksDiffer, match=f"{how} the storage's.*skew_seconds \\(300"):
            lake.reclaim.retention.expire(REPOSITORY, max_share=1.0, dry_run=dry_run)
    assert not list(lake.engine.marks.records(lake.repository).scan())


def test_clocks_may_differ_by_the_setting(lake: Lake) -> None:
    for seconds in (-290.0, 0.0, 290.0):
        lake.clock.ahead_seconds = seconds
        assert lake.reclaim.retention.expire(REPOSITORY, max_share=1.0).ran
    folder = gc_check_path(lake.repository.unique_id, "x").removesuffix("/x")
    assert not list(lake.block.list_objects(lake.repository.namespace.folder(folder)))
