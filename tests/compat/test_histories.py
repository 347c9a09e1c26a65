"""Refs, logs, diffs and merges as clients of lakeFS know them, against real server processes."""

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.exceptions import ApiException, NotFoundException

from lakebed.testing.servers.lakebed import LakebedServer
from tests.compat.test_lakefs_sdk import Repository, client_of, status_of


@pytest.fixture
def lake(lakebed: LakebedServer, repository_name: str) -> Repository:
    return Repository(client_of(lakebed), lakebed, repository_name)


def test_the_first_commit_is_nobodys_and_has_no_metarange(lake: Repository) -> None:
    (first,) = lake.client.refs_api.log_commits(lake.name, "main").results
    assert (first.message, first.committer, first.meta_range_id) == ("Repository created", "", "")
    assert lake.client.commits_api.get_commit(lake.name, first.id) == first
    lake.put("a")
    second = lake.commit()
    assert second.committer
    assert second.meta_range_id


def test_a_name_is_that_of_a_branch_or_of_a_tag(lake: Repository) -> None:
    tags = lake.client.tags_api
    lake.branch("dev")
    tags.create_tag(lake.name, sdk.TagCreation(id="v1", ref="main"))
    with pytest.raises(ApiException) as branch:
        lake.branch("v1")
    with pytest.raises(ApiException) as tag:
        tags.create_tag(lake.name, sdk.TagCreation(id="dev", ref="main"))
    assert (status_of(branch), status_of(tag)) == (409, 409)
    tags.delete_tag(lake.name, "v1")
    lake.branch("v1")


def test_an_ancestor_beyond_the_first_commit_is_not_found(lake: Repository) -> None:
    for ref in ("main~3", "main^2"):
        with pytest.raises(NotFoundException):
            lake.client.commits_api.get_commit(lake.name, ref)
        with pytest.raises(NotFoundException):
            lake.read(ref, "a")


def test_the_log_of_an_object_names_the_commit_and_not_the_merge(lake: Repository) -> None:
    lake.branch("dev")
    lake.put("folder/a", branch="dev")
    lake.commit("change a", "dev")
    lake.client.refs_api.merge_into_branch(lake.name, "dev", "main")
    assert len(lake.log()) == 3
    assert lake.log(objects=["folder/a"]) == ["change a"]
    assert lake.log(prefixes=["folder/"], limit=True, amount=1) == ["change a"]


def test_equal_changes_are_not_in_a_three_dot_diff(lake: Repository) -> None:
    for branch in ("b1", "b2"):
        lake.branch(branch)
        lake.put("same", b"same", branch)
        lake.commit("same", branch)
    diff = lake.client.refs_api.diff_refs
    assert diff(lake.name, "b1", "b2").results == []
    lake.put("other", b"other", "b2")
    lake.commit("other", "b2")
    assert [each.path for each in diff(lake.name, "b1", "b2").results] == ["other"]


def test_merges_say_their_strategy_and_emptied_branches_are_merged(lake: Repository) -> None:
    lake.branch("dev")
    lake.put("a", branch="dev")
    lake.commit("add", "dev")
    lake.client.objects_api.delete_object(lake.name, "dev", "a")
    lake.commit("remove", "dev")
    merge = lake.client.refs_api.merge_into_branch
    merged = merge(lake.name, "dev", "main").reference
    commit = lake.client.commits_api.get_commit(lake.name, merged)
    assert commit.metadata == {".lakefs.merge.strategy": "default"}
    lake.put("b", branch="dev")
    lake.commit("b", "dev")
    merged = merge(lake.name, "dev", "main", merge=sdk.Merge(strategy="dest-wins")).reference
    commit = lake.client.commits_api.get_commit(lake.name, merged)
    assert commit.metadata == {".lakefs.merge.strategy": "dest-wins"}


def test_a_second_cherry_pick_of_a_commit_is_an_empty_commit(lake: Repository) -> None:
    lake.branch("dev")
    lake.put("a", branch="dev")
    picked = sdk.CherryPickCreation(ref=lake.commit("add", "dev").id)
    pick = lake.client.branches_api.cherry_pick
    first, second = (pick(lake.name, "main", picked) for _ in "12")
    assert second.parents == [first.id]
    assert second.meta_range_id == first.meta_range_id
