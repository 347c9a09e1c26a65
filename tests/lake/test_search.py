"""Finding objects by a part of their paths."""

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import RefNotFound
from lakebed.lake import search
from lakebed.lake.commits import HeadChanges
from tests.kit.lake import MAIN, REPOSITORY, Lake


def find(lake: Lake, text: str, query: EntryQuery | None = None, ref: str = "main") -> list[str]:
    """Search to the end, as a reader who goes on does; return all paths."""
    query = query or EntryQuery()
    paths: list[str] = []
    while True:
        found = lake.catalog.search.find(REPOSITORY, ref, text, query)
        assert len(found.objects) <= query.amount
        paths += [each.path.decode() for each in found.objects]
        if not found.has_more:
            return paths
        assert found.last > query.after
        query = EntryQuery(prefix=query.prefix, after=found.last, amount=query.amount)


@pytest.fixture
def filled(lake: Lake) -> Lake:
    for path in ("a/Lakes.csv", "a/b/lakes.parquet", "a/rivers.csv", "lakes/x", "z/ÉTANG.txt"):
        lake.upload(path.encode(), "1")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, CommitRequest(committer="ann", message="m"))
    lake.upload(b"z/new lakes", "1")
    return lake


def test_paths_with_a_text_are_found_in_all_folders_committed_or_not(filled: Lake) -> None:
    expected = ["a/Lakes.csv", "a/b/lakes.parquet", "lakes/x", "z/new lakes"]
    assert find(filled, "LAKES") == expected
    assert find(filled, "lakes", ref="main@") == expected[:-1]
    assert find(filled, "étang") == ["z/ÉTANG.txt"]
    assert find(filled, "oceans") == []


def test_the_text_is_looked_for_behind_the_prefix(filled: Lake) -> None:
    assert find(filled, "lakes", EntryQuery(prefix=b"lakes/")) == []
    assert find(filled, "lakes", EntryQuery(prefix=b"a/")) == ["a/Lakes.csv", "a/b/lakes.parquet"]


@pytest.mark.parametrize("amount", [1, 2, 3, 4])
def test_pages_of_any_size_together_have_all(filled: Lake, amount: int) -> None:
    assert find(filled, "lakes", EntryQuery(amount=amount)) == find(filled, "lakes")


@pytest.mark.parametrize(("most", "seconds"), [(2, 100.0), (1000, 0.0)])
def test_one_request_looks_at_few_objects_and_the_next_goes_on(
    filled: Lake, monkeypatch: pytest.MonkeyPatch, most: int, seconds: float
) -> None:
    expected = find(filled, "lakes")
    monkeypatch.setattr(search, "STEP", 2)
    monkeypatch.setattr(search, "SCANNED_MAX", most)
    monkeypatch.setattr(search, "SECONDS_MAX", seconds)
    nothing = filled.catalog.search.find(REPOSITORY, "main", "rivers", EntryQuery())
    assert (nothing.objects, nothing.has_more, nothing.last) == ([], True, b"a/b/lakes.parquet")
    assert find(filled, "lakes") == expected


def test_a_ref_that_is_not_there(lake: Lake) -> None:
    with pytest.raises(RefNotFound):
        find(lake, "x", ref="nowhere")
