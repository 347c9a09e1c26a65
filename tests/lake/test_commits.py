"""Commits and differences through the catalog: what they record, and what they do not show."""

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import ChangeType, CommonPrefix, EntryQuery
from lakebed.engine.errors import InvalidName
from lakebed.lake.diff import Difference
from lakebed.lake.entry_metadata import RESERVED
from lakebed.lake.metadata_files import FileKind
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake

REQUEST = CommitRequest(
    committer="ann", message="change", metadata={"why": "because", "who": "ann"}
)
METADATA = {"colour": "blue", f"{RESERVED}checksum": "crc32:AAAAAA=="}


def put(lake: Lake, path: bytes) -> None:
    lake.catalog.uploads.upload(REPOSITORY, DEV, path, [b"xyz"], metadata=METADATA)


def test_a_cherry_pick_says_where_it_comes_from(lake: Lake) -> None:
    put(lake, b"a")
    origin = lake.catalog.commits.commit(REPOSITORY, DEV, REQUEST).commit
    picked = lake.catalog.commits.cherry_pick(
        REPOSITORY, MAIN, "dev", committer="bob", metadata={"who": "bob"}
    )
    assert (picked.committer, picked.message) == ("bob", "change")
    assert picked.metadata == {
        "why": "because",
        "who": "bob",
        "cherry-pick-origin": origin.id,
        "cherry-pick-committer": "ann",
    }
    assert lake.text("main", b"a") == "xyz"


def test_a_second_cherry_pick_is_an_empty_commit(lake: Lake) -> None:
    put(lake, b"a")
    origin = lake.catalog.commits.commit(REPOSITORY, DEV, REQUEST).commit
    first, second = (
        lake.catalog.commits.cherry_pick(REPOSITORY, MAIN, "dev", committer="bob") for _ in "12"
    )
    assert second.parents == (first.id,)
    assert second.metarange_id == first.metarange_id
    assert second.metadata["cherry-pick-origin"] == origin.id


def test_differences_show_the_metadata_of_users_only(lake: Lake) -> None:
    put(lake, b"folder/a")
    put(lake, b"b")
    (found, folded) = lake.catalog.diff.list_uncommitted(
        REPOSITORY, DEV, EntryQuery(delimiter=b"/")
    ).items
    assert folded == CommonPrefix(b"folder/")
    assert isinstance(found, Difference)
    assert (found.path, found.size, found.change) == (b"b", 3, ChangeType.ADDED)
    assert found.metadata == {"colour": "blue"}
    lake.catalog.commits.commit(REPOSITORY, DEV, REQUEST)
    for since_merge_base in (True, False):
        page = lake.catalog.diff.list_between(
            REPOSITORY, "main", "dev", EntryQuery(), since_merge_base=since_merge_base
        )
        assert [item.metadata for item in page.items if isinstance(item, Difference)] == [
            {"colour": "blue"},
            {"colour": "blue"},
        ]


def test_the_files_of_a_commit(lake: Lake) -> None:
    put(lake, b"a")
    metarange = lake.catalog.commits.commit(REPOSITORY, DEV, REQUEST).commit.metarange_id
    files = lake.catalog.metadata_files
    found = files.find(REPOSITORY, FileKind.METARANGE, metarange)
    assert found is not None
    with files.read(found) as stream:
        data = b"".join(stream)
    assert (len(data), data[:4]) == (found.size, b"PAR1")
    assert files.find(REPOSITORY, FileKind.RANGE, metarange) is None
    with pytest.raises(InvalidName, match=r"'../secret' is not a valid range id"):
        files.find(REPOSITORY, FileKind.RANGE, "../secret")
