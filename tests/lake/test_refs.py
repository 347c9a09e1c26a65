"""Refs through the catalog: names, history, protection rules, dumps."""

from datetime import UTC, datetime

import pytest

from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import PreconditionFailed
from lakebed.engine.model import BranchID, RepositoryID, TagID
from lakebed.lake.errors import RepositoryNotFound
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake


def commit(lake: Lake, path: bytes, branch: BranchID = MAIN) -> str:
    lake.upload(path, "x", branch)
    request = CommitRequest(committer="ann", message=path.decode())
    return lake.catalog.commits.commit(REPOSITORY, branch, request).commit.id


def test_hidden_branches_are_listed_on_request(lake: Lake) -> None:
    refs = lake.catalog.refs
    lake.catalog.ref_changes.create_branch(REPOSITORY, "secret", MAIN, hidden=True)
    names = [branch.id for branch in refs.list_branches(REPOSITORY)]
    assert names == [DEV, MAIN]
    everyone = refs.list_branches(REPOSITORY, show_hidden=True, prefix="s")
    assert [branch.id for branch in everyone] == ["secret"]


def test_a_repository_that_is_not_there_is_refused_before_the_first_item(lake: Lake) -> None:
    nowhere = RepositoryID("nowhere")
    with pytest.raises(RepositoryNotFound):
        lake.catalog.refs.list_branches(nowhere)
    with pytest.raises(RepositoryNotFound):
        lake.catalog.refs.list_tags(nowhere)


def test_tags(lake: Lake) -> None:
    refs = lake.catalog.refs
    made = lake.catalog.ref_changes.create_tag(REPOSITORY, "v1", MAIN)
    assert refs.get_tag(REPOSITORY, TagID("v1")) == made
    assert list(refs.list_tags(REPOSITORY)) == [made]
    assert refs.get_commit(REPOSITORY, "v1").id == refs.get_branch(REPOSITORY, MAIN).commit_id
    lake.catalog.ref_changes.delete_tag(REPOSITORY, TagID("v1"))
    assert list(refs.list_tags(REPOSITORY)) == []


def test_a_log_begins_and_ends_at_refs(lake: Lake) -> None:
    refs = lake.catalog.refs
    first, second, third = (commit(lake, path) for path in (b"a", b"b", b"c"))

    def log(**query: object) -> list[str]:
        page = refs.log(REPOSITORY, "main", amount=10, **query)  # type: ignore[arg-type]
        return [each.id for each in page.commits]

    assert log()[:3] == [third, second, first]
    assert log(stop_at="main~1") == [third, second]
    assert log(after=third)[:2] == [second, first]
    assert log(paths=[b"b"]) == [second]
    now = lake.clock.now()
    assert log(since=datetime.fromtimestamp(now + 60, UTC)) == []
    without_zone = datetime.fromtimestamp(now - 60, UTC).replace(tzinfo=None)
    assert len(log(since=without_zone)) == 4


def test_a_merge_base_comes_with_both_commits(lake: Lake) -> None:
    base = lake.catalog.refs.get_commit(REPOSITORY, DEV).id
    ours, theirs = commit(lake, b"a"), commit(lake, b"b", DEV)
    found = lake.catalog.refs.find_merge_base(REPOSITORY, "dev", "main")
    assert (found.source.id, found.destination.id, found.base.id) == (theirs, ours, base)


def test_protection_rules_are_replaced_by_version(lake: Lake) -> None:
    refs = lake.catalog.refs
    before = refs.get_protection(REPOSITORY)
    assert (before.patterns, before.version) == ((), "none")
    refs.set_protection(REPOSITORY, ["release-*"], version="none")
    with pytest.raises(PreconditionFailed):
        refs.set_protection(REPOSITORY, ["main"], version="none")
    with pytest.raises(PreconditionFailed):
        refs.set_protection(REPOSITORY, ["main"], version="nonsense")
    found = refs.get_protection(REPOSITORY)
    assert found.patterns == ("release-*",)
    refs.set_protection(REPOSITORY, ["dev"], version=found.version)
    refs.add_protection(REPOSITORY, "main")
    refs.remove_protection(REPOSITORY, "dev")
    assert refs.get_protection(REPOSITORY).patterns == ("main",)


def test_a_dump_is_restored_into_a_bare_repository(lake: Lake) -> None:
    head = commit(lake, b"a")
    dump_id = lake.catalog.refs.dump(REPOSITORY)
    namespace = lake.repository.namespace
    lake.catalog.repositories.delete(REPOSITORY)
    lake.catalog.repositories.create_bare(REPOSITORY, namespace)
    assert list(lake.catalog.refs.list_branches(REPOSITORY)) == []
    lake.catalog.refs.restore(REPOSITORY, dump_id)
    assert lake.catalog.refs.get_branch(REPOSITORY, MAIN).commit_id == head
