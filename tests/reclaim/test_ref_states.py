"""Whatever deletes data keeps what a branch or a tag references, in any state but CREATING."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.keys import BRANCHES, LIVE, TAGS
from lakebed.engine.model import BranchID, CommitID
from lakebed.formats.gc_files import GCFileKind
from lakebed.kv.records import Records
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.cleaner import Cleaner
from lakebed.reclaim.references import PurgeSearch
from lakebed.reclaim.retention import RetentionRules
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, open_lake
from tests.reclaim.test_gc_prepare import address, addresses, end, prepare_pages

DAY = 86_400.0
STATES = [LIVE, pb.REF_STATE_DELETING, 9]
"""The last one is of a later version."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("memory", tmp_path) as lake:
        yield lake


def set_state(lake: Lake, kind: type[pb.Branch] | type[pb.Tag], name: str, state: int) -> None:
    records = (
        Records(lake.store, BRANCHES, lake.repository.partition)
        if kind is pb.Branch
        else Records(lake.store, TAGS, lake.repository.partition)
    )
    found = records.get(name.encode())
    found.message.state = state  # type: ignore[assignment]
    records.set_if(found.name, found.message, found.predicate)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", STATES)
def test_staged_objects_are_referenced(lake: Lake, state: int) -> None:
    lake.upload(b"staged", "text", DEV)
    staged = address(lake, DEV, b"staged")
    set_state(lake, pb.Branch, DEV, state)
    manifest = end(lake, prepare_pages(lake)[0])
    assert addresses(lake, manifest, GCFileKind.STAGED) == {staged: 1}
    tables = PurgeSearch(lake.engine, lake.store, lake.repository).tables()
    assert [key for table in tables for key in table.column("key").to_pylist()] == [b"staged"]


@pytest.mark.parametrize("state", STATES)
def test_the_cleaner_keeps_the_tokens(lake: Lake, state: int) -> None:
    lake.upload(b"staged", "text", DEV)
    branch = lake.engine.branches.get(lake.repository, DEV)
    lake.engine.branches.announce_drop(lake.repository, DEV, branch.tokens)
    set_state(lake, pb.Branch, DEV, state)
    cleaner = Cleaner(lake.store, lake.clock, grace_seconds=0)
    counts = [cleaner.run_once() for _ in range(4)]
    assert [(each.tokens_named, each.tokens_done) for each in counts] == [(1, 0)] * 4
    assert len(list(lake.store.scan(branch.staging_token.encode()))) == 1


@pytest.mark.parametrize("state", STATES)
def test_the_cleaner_ends_a_branch_with_its_repository(lake: Lake, state: int) -> None:
    lake.upload(b"staged", "text", DEV)
    token = lake.engine.branches.get(lake.repository, DEV).staging_token.encode()
    partition = lake.repository.partition
    set_state(lake, pb.Branch, DEV, state)
    lake.engine.repositories.delete(REPOSITORY)
    cleaner = Cleaner(lake.store, lake.clock, grace_seconds=0)
    for _ in range(5):
        cleaner.run_once()
    assert not list(lake.store.scan(partition))
    assert not list(lake.store.scan(token))


def an_old_commit(lake: Lake) -> CommitID:
    """Return a commit that nothing but tag `old` references."""
    request = CommitRequest(committer="", message="", allow_empty=True)
    lake.engine.refs.create_branch(REPOSITORY, "tmp", MAIN)
    made = HeadChanges(lake.engine).commit(REPOSITORY, BranchID("tmp"), request).commit.id
    lake.engine.refs.create_tag(REPOSITORY, "old", made)
    lake.engine.refs.delete_branch(REPOSITORY, BranchID("tmp"))
    return made


@pytest.mark.parametrize("state", [*STATES, pb.REF_STATE_CREATING])
def test_a_commit_expires_if_only_a_dead_creation_references_it(lake: Lake, state: int) -> None:
    commit_id = an_old_commit(lake)
    set_state(lake, pb.Tag, "old", state)
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(1))
    for _ in range(5):
        lake.clock.ahead_seconds += 3 * DAY
        lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)
    is_dead = state == pb.REF_STATE_CREATING
    assert lake.engine.marks.is_expired(lake.repository, commit_id) == is_dead
    left = [record.name for record in Records(lake.store, TAGS, lake.repository.partition).scan()]
    assert left == ([] if is_dead else [b"old"])
