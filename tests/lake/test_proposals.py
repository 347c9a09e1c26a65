"""Objects of conditional writes under way: an entry that is only proposed may become visible.

So collection (`test_gc_prepare`) and purge count its object as referenced; nothing else shows it.
"""

import pytest

from lakebed.block import Address
from lakebed.clients.diagnostics.fsck import RepositoryCheck
from lakebed.clients.diagnostics.records import Filter, shown_records
from lakebed.clients.diagnostics.survey import Survey, Surveyor
from lakebed.engine.staging.writer import if_absent
from lakebed.reclaim.references import PurgeQuery, PurgeSearch, References, StagedReference
from tests.kit.lake import MAIN, REPOSITORY, Lake


@pytest.fixture(params=[None, "before"])
def before(request: pytest.FixtureRequest) -> str | None:
    """The text that was staged for the key, if any."""
    found: str | None = request.param
    return found


@pytest.fixture
def proposed(lake: Lake, before: str | None) -> Address:
    """The address of an object whose writer died after it had proposed the entry."""
    if before is not None:
        lake.upload(b"a", before)
    return lake.propose(b"a", "proposed")


def test_an_explanation_names_it(lake: Lake, proposed: Address) -> None:
    names = References(lake.engine, lake.store, lake.repository, proposed)
    assert list(names.staged()) == [StagedReference(MAIN, b"a", is_replaced=False)]


def test_a_purge_finds_it(lake: Lake, proposed: Address, before: str | None) -> None:
    query = PurgeQuery("path", b"a")
    found: list[str] = []
    for table in PurgeSearch(lake.engine, lake.store, lake.repository).tables():
        found += table.filter(query.matches(table)).column("address").to_pylist()
    assert lake.repository.namespace.relative(proposed) in found
    assert len(found) == (1 if before is None else 2)


@pytest.mark.usefixtures("proposed")
def test_a_check_takes_it_for_whole_and_an_inspection_shows_it(
    lake: Lake, before: str | None
) -> None:
    report = RepositoryCheck(lake.store, lake.block, lake.clock, REPOSITORY).run()
    assert report.damages == []
    token = lake.engine.branches.get(lake.repository, MAIN).staging_token
    (shown,) = shown_records(lake.store, Filter(partition=token.encode(), prefix=b"key/"))
    assert shown.damage is None
    assert shown.content is not None
    assert "proposal" in shown.content
    assert ("value" in shown.content) is (before is not None)
    survey = Survey()
    Surveyor(lake.store, lake.clock, survey).run()
    assert survey.damaged == []
    assert sum(each.entries for each in survey.staged.values()) == (before is not None)


@pytest.mark.usefixtures("proposed")
def test_readers_see_what_was_there(lake: Lake, before: str | None) -> None:
    assert lake.exists(b"a") is (before is not None)
    if before is not None:
        assert lake.text("main", b"a") == before
    condition = if_absent if before is None else bool
    lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", [b"after"], condition=condition)
    assert lake.text("main", b"a") == "after"
