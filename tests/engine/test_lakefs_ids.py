"""Commits from lakeFS keep their ids, which can be verified."""

import hashlib

import pytest

from lakebed.engine.model import CommitID
from lakebed.formats import MetaRangeID
from tests.engine.test_dump import Dumps, small


def number(count: int) -> bytes:
    return bytes([2, 8]) + count.to_bytes(8, "big")


def text(content: bytes) -> bytes:
    return bytes([1]) + number(len(content)) + content


def id_of(parents: list[str]) -> CommitID:
    """The id of the commit below, byte by byte from the description of the format."""
    listed = bytes([3]) + number(len(parents)) + b"".join(text(each.encode()) for each in parents)
    whole = text(b"commit:v1") + text(b"ann") + text(b"hi") + text(b"m") + number(1_700_000_000)
    whole += bytes([4]) + number(1) + text(b"k") + text(b"v")
    whole += bytes([5, 0]) + number(32) + hashlib.sha256(listed).digest()
    return CommitID(hashlib.sha256(whole).hexdigest())


def adopt(world: Dumps, commit_id: CommitID, *, swapped: bool = False) -> bool:
    main, *_, first = world.commits.list(world.repository)
    return world.commits.adopt(
        world.repository,
        commit_id,
        committer="ann",
        message="hi",
        metarange_id=MetaRangeID(""),
        parents=[main, first],
        metadata={"k": "v"},
        created_us=1_700_000_000_999_999,
        source_metarange_id="m",
        swapped=swapped,
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_an_adopted_commit_has_its_id_and_survives_a_dump(*, swapped: bool) -> None:
    world = small()
    main, *_, first = [commit.id for commit in world.commits.list(world.repository)]
    commit_id = id_of([first, main] if swapped else [main, first])
    assert adopt(world, commit_id, swapped=swapped)
    found = world.commits.get(world.repository, commit_id)
    assert found.parents == (main, first)
    bare = world.make_repository("bare")
    world.restore(world.dump(), bare)
    assert world.commits.get(bare, commit_id) == found


def test_a_commit_whose_id_cannot_be_proved_is_kept_under_it() -> None:
    world = small()
    assert not adopt(world, CommitID("c0ffee"))
    assert world.commits.get(world.repository, CommitID("c0ffee")).message == "hi"
    bare = world.make_repository("bare")
    world.restore(world.dump(), bare)
    assert world.commits.get(bare, CommitID("c0ffee")).message == "hi"
