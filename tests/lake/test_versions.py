"""Versions of objects: random histories against a model that compares whole commits."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random
from typing import NamedTuple

import pytest

from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import CommonPrefix, EntryQuery
from lakebed.engine.errors import (
    BranchNotFound,
    DirtyBranch,
    EntryNotFound,
    Invalid,
    MergeConflict,
    NoChanges,
    RefNotFound,
)
from lakebed.engine.expiry_marks import EXPIRED
from lakebed.engine.model import BranchID, Commit, CommitID
from lakebed.engine.refs.log import LogQuery
from lakebed.formats.boundaries import Breaks
from lakebed.lake.commits import merge_request
from lakebed.lake.errors import InvalidVersion, VersionNotFound
from lakebed.lake.model import ObjectStats
from lakebed.lake.versions import ObjectVersion, Versions, reading_version
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake
from tests.kit.rounds import rounds

SEEDS = rounds(60, long=1000, fast=15)
PATHS = [b"a", b"a/b", b"a/c/d", b"ab", b"b/", b"b/1", b"b/2", b"c", b"\xc3\xbc", b"z/z/z"]
REQUEST = CommitRequest(committer="ann", message="change", allow_empty=True)

Item = tuple[bytes, str, bool, bool, str]
"""Path, version id (empty: a common prefix), whether latest, whether a removal, checksum."""


class Place(NamedTuple):
    path: bytes
    version_id: str


@pytest.fixture
def lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with few entries in a range."""
    monkeypatch.setattr(
        "lakebed.engine.committed.store.Breaks", partial(Breaks, mean_rows=2, max_rows=4)
    )
    return lake


def commit(lake: Lake, branch: BranchID = MAIN) -> Commit:
    return lake.catalog.commits.commit(REPOSITORY, branch, REQUEST).commit


def expire(lake: Lake, commit_id: CommitID) -> None:
    records = lake.engine.marks.records(lake.repository)
    records.set(commit_id.encode(), pb.Expiry(state=EXPIRED, expired_us=1))


def take_step(lake: Lake, random: Random) -> None:
    """Change something on one of the branches."""
    branch = random.choice([MAIN, MAIN, DEV])
    step = random.randrange(12)
    if step < 5:
        # Few contents, so that some uploads bring back what was there before.
        lake.upload(random.choice(PATHS), random.choice("xyz"), branch)
    elif step < 7:
        lake.catalog.objects.delete(REPOSITORY, branch, random.choice(PATHS))
    elif step < 10:
        commit(lake, branch)
    elif step == 10:
        merge = merge_request(
            "dev",
            "main",
            committer="ann",
            message="",
            metadata={},
            strategy=random.choice(["source-wins", "dest-wins"]),
            squash=random.random() < 0.2,
            allow_empty=True,
        )
        with suppress(DirtyBranch, NoChanges):
            lake.catalog.commits.merge(REPOSITORY, "dev", MAIN, merge)
    else:
        with suppress(DirtyBranch, NoChanges, MergeConflict, Invalid, RefNotFound):
            lake.catalog.commits.revert(REPOSITORY, MAIN, "main~1", REQUEST, parent_number=1)


def tree_of(lake: Lake, ref: str) -> dict[bytes, str]:
    """The checksums of all objects of a ref, by their paths."""
    page = lake.catalog.objects.list_objects(REPOSITORY, ref, EntryQuery())
    return {item.path: item.checksum for item in page.items if isinstance(item, ObjectStats)}


def model(lake: Lake, ref: str, commits_max: int) -> list[Item]:
    """All versions of a ref, in the order of S3."""
    repository = lake.repository
    commits = [lake.engine.resolver.commit(repository, ref)]
    while commits[-1].parents and len(commits) < commits_max:
        commits.append(lake.engine.commits.get(repository, commits[-1].parents[0]))
    expired = set(lake.engine.marks.expired(repository))
    ids = [each.id for each in commits[:1]] + [e.id for e in commits[1:] if e.id not in expired]
    states = [("null", tree_of(lake, ref)), *((each, tree_of(lake, each)) for each in ids)]
    if ref != "main":
        states = states[1:]
    trees = [*states, ("", {})]
    found: list[Item] = []
    for path in sorted({path for _, tree in states for path in tree}):
        is_latest = True
        for (version_id, tree), (_, before) in pairwise(trees):
            if tree.get(path) != before.get(path):
                removed = path not in tree
                checksum = before[path] if removed else tree[path]
                found.append((path, version_id, is_latest, removed, checksum))
                is_latest = False
    return found


def selected(
    items: list[Item], query: EntryQuery, after_id: str, age: dict[str, int]
) -> list[Item]:
    """The items of a query, without its limit."""
    found: list[Item] = []
    skipped = query.folded(query.after)
    for item in items:
        path, version_id = item[:2]
        if not path.startswith(query.prefix) or path < query.after:
            continue
        if skipped is not None and path.startswith(skipped):
            continue
        if path == query.after and not (after_id and age[version_id] > age[after_id]):
            continue
        common = query.folded(path)
        if common is None:
            found.append(item)
        elif not found or found[-1][:2] != (common, ""):
            found.append((common, "", False, False, ""))
    return found


def shown(item: ObjectVersion | CommonPrefix) -> Item:
    if isinstance(item, CommonPrefix):
        return (item.key, "", False, False, "")
    return (item.path, item.id, item.is_latest, item.is_removal, item.checksum)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_page_of_any_history(lake: Lake, seed: int) -> None:
    random = Random(seed)
    for _ in range(random.randrange(5, 60)):
        take_step(lake, random)
    head = lake.engine.resolver.commit(lake.repository, "main")
    history = lake.engine.history.page(
        lake.repository,
        lake.engine.committed(lake.repository),
        head.id,
        LogQuery(first_parent=True),
        amount=1000,
    ).commits
    for each in history[1:]:
        if random.random() < 0.15:
            expire(lake, each.id)
    age = {"null": -1000} | {str(each.id): -each.generation for each in history}
    age = {each: number for number, each in enumerate(sorted(age, key=age.__getitem__))}
    for _ in range(12):
        commits_max = random.choice([1, 2, 3, 5, 1000])
        ref = random.choice(["main", "main", "main@", "main~1"])
        versions = Versions(lake.engine, lake.clock, commits_max=commits_max)
        try:
            expected = model(lake, ref, commits_max)
        except RefNotFound:
            continue
        query = EntryQuery(
            prefix=random.choice([b"", b"", b"a", b"a/", b"b/", b"ab"]),
            delimiter=random.choice([b"", b"/"]),
            amount=random.choice([1, 1, 2, 3, 1000]),
        )
        # As a client pages:
        found: list[Item] = []
        after = Place(b"", "")
        while True:
            asked = replace(query, after=after.path)
            page = versions.list_versions(REPOSITORY, ref, asked, after_id=after.version_id)
            found += map(shown, page.items)
            assert len(page.items) <= query.amount
            if not page.has_more:
                break
            assert page.items
            after = Place(*found[-1][:2])
        assert found == selected(expected, query, "", age)
        # And from any place:
        for path in [*PATHS, b"a/c/", b"0", b"zz"]:
            for after_id in ["", *random.sample(sorted(age), min(3, len(age)))]:
                asked = replace(query, after=path, amount=1000)
                page = versions.list_versions(REPOSITORY, ref, asked, after_id=after_id)
                assert [shown(item) for item in page.items] == selected(
                    expected, asked, after_id, age
                )


def versions_of(lake: Lake, path: bytes, ref: str = "main") -> list[ObjectVersion]:
    page = lake.catalog.versions.list_versions(REPOSITORY, ref, EntryQuery(prefix=path))
    assert not page.has_more
    return [item for item in page.items if isinstance(item, ObjectVersion)]


def test_a_version_is_read_by_its_id(lake: Lake) -> None:
    before = commit(lake)
    ids = []
    for text in ["one", "two"]:
        lake.upload(b"a", text)
        ids.append(commit(lake).id)
    lake.upload(b"a", "three")
    lake.upload(b"b", "new")
    found = versions_of(lake, b"a")
    assert [each.id for each in found] == ["null", ids[1], ids[0]]
    texts = []
    for each in found:
        with reading_version("main", each.id) as ref:
            texts.append(lake.text(ref, b"a"))
    assert texts == ["three", "two", "one"]
    # Another path has not changed in this commit, but the commit has it.
    with reading_version("main", ids[1]) as ref:
        assert ref == ids[1]
    for missing in [before.id, "0" * 64]:
        with pytest.raises(VersionNotFound, match=missing), reading_version("main", missing) as ref:
            lake.text(ref, b"a")
    with pytest.raises(EntryNotFound), reading_version("main", "null") as ref:
        lake.text(ref, b"missing")
    for wrong in ["", "main", ids[0][:8], "a" * 65]:
        with (
            pytest.raises(InvalidVersion, match="is no version id"),
            reading_version("main", wrong),
        ):
            raise AssertionError


def test_a_merge_is_one_change_of_its_destination(lake: Lake) -> None:
    for text in ["one", "two"]:
        lake.upload(b"a", text, DEV)
        commit(lake, DEV)
    request = merge_request(
        "dev",
        "main",
        committer="ann",
        message="",
        metadata={},
        strategy="",
        squash=False,
        allow_empty=False,
    )
    merged = lake.catalog.commits.merge(REPOSITORY, "dev", MAIN, request)
    assert [each.id for each in versions_of(lake, b"a")] == [merged.id]
    assert len(versions_of(lake, b"a", "dev")) == 2


def test_dates_fall_from_version_to_version(lake: Lake) -> None:
    """As clients expect that choose versions by a time."""
    lake.upload(b"a", "one", DEV)  # uploaded before, and merged after the deletion
    commit(lake, DEV)
    for step in [partial(lake.upload, b"a", "main"), partial(delete, lake)]:
        lake.clock.ahead_seconds += 60
        step()
        commit(lake)
    lake.clock.ahead_seconds += 60
    request = merge_request(
        "dev",
        "main",
        committer="ann",
        message="",
        metadata={},
        strategy="source-wins",
        squash=False,
        allow_empty=False,
    )
    lake.catalog.commits.merge(REPOSITORY, "dev", MAIN, request)
    lake.clock.ahead_seconds += 60
    delete(lake)
    found = versions_of(lake, b"a")
    assert [each.is_removal for each in found] == [True, False, True, False]
    dates = [each.changed for each in found]
    assert dates == sorted(dates, reverse=True)
    assert len(set(dates)) == len(dates)


def delete(lake: Lake) -> None:
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")


def test_what_is_not_listed(lake: Lake) -> None:
    lake.upload(b"a", "one")
    commit(lake)
    listing = lake.catalog.versions.list_versions
    with pytest.raises(Invalid, match="cannot be listed"):
        listing(REPOSITORY, "main$", EntryQuery())
    with pytest.raises((RefNotFound, BranchNotFound)):
        listing(REPOSITORY, "missing", EntryQuery())
    with pytest.raises(InvalidVersion):
        listing(REPOSITORY, "main", EntryQuery(after=b"a"), after_id="0" * 64)
    assert not listing(REPOSITORY, "main", EntryQuery(amount=0)).items
    # Written again with the same content: no change.
    lake.upload(b"a", "one")
    assert len(versions_of(lake, b"a")) == 1


def test_a_marker_whose_commit_left_the_history(lake: Lake) -> None:
    ids = []
    for text in ["one", "two", "three"]:
        lake.upload(b"a", text)
        ids.append(commit(lake).id)
    lake.catalog.commits.hard_reset(REPOSITORY, MAIN, "main~2")
    after = EntryQuery(after=b"a")
    for marker in ids[1:]:
        page = lake.catalog.versions.list_versions(REPOSITORY, "main", after, after_id=marker)
        assert [shown(item)[1] for item in page.items] == [ids[0]]
