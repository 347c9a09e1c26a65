"""Pull requests through the catalog: their life, what a merge finds, who comes in between."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event

import pytest

from lakebed.base.actor import Actor, acting_as
from lakebed.base.runtime import ItemT, ResultT
from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.errors import BranchNotFound, DirtyBranch, MergeConflict, NoChanges, ReadOnly
from lakebed.engine.model import BranchID, Commit, RepositoryID
from lakebed.kv.records import Records
from lakebed.lake.catalog import Catalog
from lakebed.lake.commits import PULL_REQUEST_KEY
from lakebed.lake.errors import (
    InvalidMetadata,
    InvalidPull,
    PullBusy,
    PullNotFound,
    PullStatusRefused,
)
from lakebed.lake.imports.sources import ImportSource
from lakebed.lake.keys import PULLS_MERGING
from lakebed.lake.pulls.model import PullID, PullRequest, PullStatus, check_pull_id
from lakebed.lake.settings import CatalogSettings
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit.engines import new_engine
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, TurnableClock

REQUEST = MergeRequest(committer="bob", message="merge it", metadata={"why": "because"})


def commit(lake: Lake, branch: BranchID, path: bytes, text: str = "x") -> Commit:
    lake.upload(path, text, branch)
    request = CommitRequest(committer="ann", message="change")
    return lake.catalog.commits.commit(REPOSITORY, branch, request).commit


def create(lake: Lake, title: str = "a change") -> PullID:
    return lake.catalog.pulls.create(
        REPOSITORY, source=DEV, destination=MAIN, title=title, description="long", author="ann"
    )


def get(lake: Lake, pull_id: PullID) -> PullRequest:
    return lake.catalog.pulls.get(REPOSITORY, pull_id)


def announced(lake: Lake) -> int:
    """How many merges are announced."""
    return len(list(Records(lake.store, PULLS_MERGING, lake.repository.partition).scan()))


def merges(lake: Lake) -> list[Commit]:
    """The commits on main that merged a pull request."""
    page = lake.catalog.refs.log(REPOSITORY, MAIN, amount=100)
    return [each for each in page.commits if PULL_REQUEST_KEY in each.metadata]


@pytest.fixture
def pull_id(lake: Lake) -> PullID:
    """A pull request with a change to merge."""
    commit(lake, DEV, b"new")
    return create(lake)


# Their life


def test_it_is_made_and_merged(lake: Lake, pull_id: PullID) -> None:
    source = lake.catalog.refs.get_branch(REPOSITORY, DEV).commit_id
    destination = commit(lake, MAIN, b"meanwhile").id
    merged = lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    found = get(lake, pull_id)
    assert (found.status, found.merged_commit_id) == (PullStatus.MERGED, merged)
    assert (found.title, found.description, found.author) == ("a change", "long", "ann")
    assert found.closed is not None
    assert found.closed >= found.created
    head = lake.catalog.refs.get_commit(REPOSITORY, MAIN)
    assert (head.id, head.committer, head.parents) == (merged, "bob", (destination, source))
    assert head.metadata == {"why": "because", PULL_REQUEST_KEY: pull_id}
    commit(lake, MAIN, b"later")
    mergeability = lake.catalog.pulls.mergeability(REPOSITORY, found)
    assert (mergeability.source_commit_id, mergeability.destination_commit_id) == (
        source,
        destination,
    )
    assert mergeability.mergeable is None
    assert not announced(lake)


def test_it_is_closed_and_opened_again(lake: Lake, pull_id: PullID) -> None:
    pulls = lake.catalog.pulls
    pulls.update(REPOSITORY, pull_id, status=PullStatus.CLOSED, title="not now")
    closed = get(lake, pull_id)
    assert (closed.status, closed.title, closed.description) == (
        PullStatus.CLOSED, "not now", "long",
    )  # fmt: skip
    assert closed.closed is not None
    with pytest.raises(PullStatusRefused, match="is closed: only an open pull request"):
        pulls.merge(REPOSITORY, pull_id, REQUEST)
    pulls.update(REPOSITORY, pull_id, status=PullStatus.OPEN)
    assert get(lake, pull_id).closed is None
    pulls.merge(REPOSITORY, pull_id, REQUEST)
    for status in PullStatus:
        with pytest.raises(PullStatusRefused):
            pulls.update(REPOSITORY, pull_id, status=status)
    with pytest.raises(PullStatusRefused, match="is merged"):
        pulls.merge(REPOSITORY, pull_id, REQUEST)
    pulls.update(REPOSITORY, pull_id, description="as it was")
    assert get(lake, pull_id).description == "as it was"


def test_only_a_merge_makes_it_merged(lake: Lake, pull_id: PullID) -> None:
    with pytest.raises(PullStatusRefused, match="merge it"):
        lake.catalog.pulls.update(REPOSITORY, pull_id, status=PullStatus.MERGED)
    assert get(lake, pull_id).status is PullStatus.OPEN


def test_the_newest_come_first(lake: Lake) -> None:
    made = []
    for number in range(4):
        made.append(create(lake, f"number {number}"))
        lake.clock.ahead_seconds += (0.000_01, 1.5, 0)[number % 3]
    pulls = lake.catalog.pulls
    newest = made[::-1]
    assert all(check_pull_id(each) == each for each in made)
    pulls.update(REPOSITORY, made[1], status=PullStatus.CLOSED)
    assert [each.id for each in pulls.list(REPOSITORY)] == newest
    assert [each.id for each in pulls.list(REPOSITORY, after=newest[1])] == newest[2:]
    assert [each.id for each in pulls.list(REPOSITORY, is_open=False)] == [made[1]]
    assert [each.id for each in pulls.list(REPOSITORY, is_open=True, after=made[2])] == [made[0]]
    assert [each.id for each in pulls.list(REPOSITORY, prefix=made[0])] == [made[0]]


# Mistakes


def test_what_cannot_be_made(lake: Lake) -> None:
    create_pull = lake.catalog.pulls.create
    for title in ("", "  ", "two\nlines", "x" * 256):
        with pytest.raises(InvalidPull, match="title of a pull request"):
            create(lake, title)
    with pytest.raises(InvalidPull, match="both 'dev'"):
        create_pull(REPOSITORY, source=DEV, destination=DEV, title="t", author="")
    with pytest.raises(InvalidPull, match="20001 characters"):
        create_pull(
            REPOSITORY, source=DEV, destination=MAIN, title="t", author="", description="x" * 20001
        )
    for source, destination in ((BranchID("none"), MAIN), (MAIN, BranchID("none"))):
        with pytest.raises(BranchNotFound):
            create_pull(REPOSITORY, source=source, destination=destination, title="t", author="")
    assert not list(lake.catalog.pulls.list(REPOSITORY))


def test_what_is_not_there(lake: Lake) -> None:
    missing = PullID("0" * 20)
    for ask in (
        lambda: get(lake, missing),
        lambda: lake.catalog.pulls.update(REPOSITORY, missing, title="t"),
        lambda: lake.catalog.pulls.merge(REPOSITORY, missing, REQUEST),
    ):
        with pytest.raises(PullNotFound):
            ask()
    for text in ("", "x", "0" * 19 + "1", "z" * 20, "0" * 21):
        with pytest.raises(InvalidPull):
            check_pull_id(text)


@pytest.mark.parametrize("gone", [DEV, BranchID("other")])
def test_a_branch_that_is_gone(lake: Lake, gone: BranchID) -> None:
    lake.catalog.ref_changes.create_branch(REPOSITORY, "other", DEV)
    commit(lake, DEV, b"new")
    pulls = lake.catalog.pulls
    pull_id = pulls.create(
        REPOSITORY, source=DEV, destination=BranchID("other"), title="t", author=""
    )
    lake.catalog.ref_changes.delete_branch(REPOSITORY, gone)
    with pytest.raises(BranchNotFound, match=gone):
        pulls.merge(REPOSITORY, pull_id, REQUEST)
    pull = get(lake, pull_id)
    mergeability = pulls.mergeability(REPOSITORY, pull)
    assert (pull.status, pull.is_merging) == (PullStatus.OPEN, False)
    assert (mergeability.mergeable, mergeability.reason) == (False, f"branch {gone} was deleted")


# What a merge would find


def test_mergeability(lake: Lake) -> None:
    pulls = lake.catalog.pulls
    pull_id = create(lake)

    def mergeability() -> tuple[bool | None, int | None, str]:
        found = pulls.mergeability(REPOSITORY, get(lake, pull_id))
        return found.mergeable, found.conflicts, found.reason

    assert mergeability() == (
        False,
        None,
        "nothing to merge: source is up to date with destination",
    )
    with pytest.raises(NoChanges):
        pulls.merge(REPOSITORY, pull_id, REQUEST)
    for path in (b"a", b"b", b"c"):
        commit(lake, DEV, path, "dev")
    assert mergeability() == (True, 0, "")
    commit(lake, MAIN, b"a", "main")
    commit(lake, MAIN, b"b", "main")
    commit(lake, MAIN, b"c", "dev")
    assert mergeability() == (False, 2, "2 conflicting objects")
    with pytest.raises(MergeConflict):
        pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert not get(lake, pull_id).is_merging
    pulls.update(REPOSITORY, pull_id, status=PullStatus.CLOSED)
    assert mergeability() == (None, None, "")


def test_a_destination_with_uncommitted_changes(lake: Lake, pull_id: PullID) -> None:
    lake.upload(b"staged", "x", MAIN)
    with pytest.raises(DirtyBranch):
        lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert get(lake, pull_id).status is PullStatus.OPEN
    commit(lake, MAIN, b"staged")
    lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)


# Deleting the source


def test_the_source_is_deleted(lake: Lake, pull_id: PullID) -> None:
    lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert lake.catalog.pulls.delete_source(REPOSITORY, pull_id) is None
    with pytest.raises(BranchNotFound):
        lake.catalog.refs.get_branch(REPOSITORY, DEV)
    assert lake.catalog.pulls.delete_source(REPOSITORY, pull_id) is None


def test_a_source_with_more_than_was_merged_is_kept(lake: Lake, pull_id: PullID) -> None:
    pulls = lake.catalog.pulls
    pulls.merge(REPOSITORY, pull_id, REQUEST)
    lake.upload(b"staged", "x", DEV)
    kept = pulls.delete_source(REPOSITORY, pull_id)
    assert kept == str(DirtyBranch("dev"))
    commit(lake, DEV, b"staged")
    assert pulls.delete_source(REPOSITORY, pull_id) == "branch dev has unmerged commits"
    lake.catalog.refs.get_branch(REPOSITORY, DEV)


def test_a_default_branch_is_kept(lake: Lake) -> None:
    commit(lake, MAIN, b"new")
    pulls = lake.catalog.pulls
    pull_id = pulls.create(REPOSITORY, source=MAIN, destination=DEV, title="t", author="")
    pulls.merge(REPOSITORY, pull_id, REQUEST)
    kept = pulls.delete_source(REPOSITORY, pull_id)
    assert kept is not None
    assert "default branch" in kept


# Metadata that only Lakebed writes


def test_our_metadata_is_refused_from_clients(lake: Lake) -> None:
    commits, bad = lake.catalog.commits, {PULL_REQUEST_KEY: "forged"}
    wanted = CommitRequest(committer="", message="", metadata=bad)
    source = ImportSource.of_prefix(lake.repository.namespace.folder("outside"), b"")
    for ask in (
        lambda: commits.commit(REPOSITORY, MAIN, wanted),
        lambda: commits.revert(REPOSITORY, MAIN, MAIN, wanted),
        lambda: commits.cherry_pick(REPOSITORY, MAIN, MAIN, committer="", metadata=bad),
        lambda: commits.merge(
            REPOSITORY, DEV, MAIN, MergeRequest(committer="", message="", metadata=bad)
        ),
        lambda: lake.catalog.imports.start(
            REPOSITORY, MAIN, [source], committer="", message="", metadata=bad
        ),
    ):
        with pytest.raises(InvalidMetadata, match=PULL_REQUEST_KEY):
            ask()


def test_a_cherry_pick_does_not_copy_it(lake: Lake, pull_id: PullID) -> None:
    lake.catalog.ref_changes.create_branch(REPOSITORY, "other", MAIN)
    lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    picked = lake.catalog.commits.cherry_pick(
        REPOSITORY, BranchID("other"), MAIN, committer="", parent_number=1
    )
    assert picked.metadata["why"] == "because"
    assert PULL_REQUEST_KEY not in picked.metadata


# Who comes in between


def other_process(lake: Lake, *meetings: tuple[bytes, Callable[[], object]]) -> Catalog:
    """A process before whose writes others act.

    The first of them does so before the first write to its key, the next one before the first write
    to its own key after that, and so on.
    """
    left = list(meetings)

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if left and call.writes and call.key == left[0][0]:
            left.pop(0)[1]()
        return apply()

    store = FaultyStore(lake.store, intercept)
    engine = new_engine(store, lake.block, runtime=lake.clock)
    return Catalog(engine, store, lake.block, lake.clock, lake.settings)


def take_over(lake: Lake) -> None:
    """A Cleaner that has seen no sign of life for long enough."""
    assert lake.reclaim.expired.run_once().pulls == 0
    lake.clock.ahead_seconds += 2 * lake.settings.task_heartbeat_seconds
    assert lake.reclaim.expired.run_once().pulls == 1


def test_a_swap_on_its_way_fails_once_the_merge_was_taken_over(lake: Lake, pull_id: PullID) -> None:
    merger = other_process(lake, (b"branches/main", lambda: take_over(lake)))
    with pytest.raises(PullBusy, match="taken over"):
        merger.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert get(lake, pull_id).status is PullStatus.OPEN
    assert not merges(lake)
    lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert len(merges(lake)) == 1


def test_edits_do_not_stop_a_merge(lake: Lake, pull_id: PullID) -> None:
    def rename() -> None:
        lake.catalog.pulls.update(REPOSITORY, pull_id, title="better")
        for status in (PullStatus.CLOSED, PullStatus.OPEN):
            with pytest.raises(PullBusy, match="being merged"):
                lake.catalog.pulls.update(REPOSITORY, pull_id, status=status)
        with pytest.raises(PullBusy, match="being merged"):
            lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
        assert get(lake, pull_id).is_merging

    merger = other_process(lake, (b"branches/main", rename))
    merged = merger.pulls.merge(REPOSITORY, pull_id, REQUEST)
    found = get(lake, pull_id)
    assert (found.title, found.merged_commit_id) == ("better", merged)


def test_a_merge_of_whom_nothing_was_heard_again(lake: Lake, pull_id: PullID) -> None:
    """The process dies after the branch was swapped, and before it could write that down."""

    class Died(BaseException):
        pass

    def die() -> None:
        raise Died

    record = b"pulls/" + pull_id.encode()
    merger = other_process(lake, (b"branches/main", lambda: None), (record, die))
    with pytest.raises(Died):
        merger.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert len(merges(lake)) == 1
    found = get(lake, pull_id)
    assert (found.status, found.is_merging) == (PullStatus.OPEN, True)
    assert lake.reclaim.expired.run_once().pulls == 0  # it may be alive
    take_over(lake)
    assert get(lake, pull_id).merged_commit_id == merges(lake)[0].id
    assert not announced(lake)


def test_a_commit_right_before_the_source_is_deleted(lake: Lake, pull_id: PullID) -> None:
    lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    other = other_process(lake, (b"branches/dev", lambda: commit(lake, DEV, b"newer")))
    kept = other.pulls.delete_source(REPOSITORY, pull_id)
    assert kept is not None
    assert "the branch has changed" in kept
    assert lake.exists(b"newer", DEV)


def test_a_long_merge_gives_signs_of_life(lake: Lake, pull_id: PullID) -> None:
    settings = CatalogSettings(task_heartbeat_seconds=0.1)
    record, seen, waits = b"pulls/" + pull_id.encode(), Event(), Event()

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation == "set_if" and call.key == b"branches/main":
            waits.set()
            assert seen.wait(timeout=60)
        applied = apply()
        if waits.is_set() and call.operation == "set_if" and call.key == record:
            seen.set()
        return applied

    store = FaultyStore(lake.store, intercept)
    engine = new_engine(store, lake.block, runtime=lake.clock)
    catalog = Catalog(engine, store, lake.block, lake.clock, settings)
    catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert get(lake, pull_id).status is PullStatus.MERGED


class OneThreadEach(TurnableClock):
    """Does none of the parallel work in the thread that asks for it."""

    def map_parallel(
        self, function: Callable[[ItemT], ResultT], items: Iterable[ItemT], *, limit: int = 16
    ) -> list[ResultT]:
        with ThreadPoolExecutor(limit) as pool:
            calls = [pool.submit(copy_context().run, function, item) for item in items]
            return [call.result() for call in calls]


def test_a_merge_knows_what_its_request_may_do(lake: Lake) -> None:
    """That it may write to a read-only repository, for example, and for whom hooks run."""
    name = RepositoryID("archive")
    runtime = OneThreadEach()
    engine = new_engine(lake.store, lake.block, runtime=runtime)
    catalog = Catalog(engine, lake.store, lake.block, runtime)
    place = Namespace.parse(f"{lake.block.scheme}://lake/{name}")
    engine.repositories.create(name, place, committer="", read_only=True)
    with acting_as(Actor(force=True)):
        engine.refs.create_branch(name, DEV, MAIN)
        catalog.uploads.upload(name, DEV, b"new", [b"x"])
        catalog.commits.commit(name, DEV, CommitRequest(committer="", message=""))
        made = catalog.pulls.create(name, source=DEV, destination=MAIN, title="t", author="")
    with pytest.raises(ReadOnly):
        catalog.pulls.merge(name, made, REQUEST)
    with acting_as(Actor(force=True)):
        catalog.pulls.merge(name, made, REQUEST)


def test_a_cleaner_between_the_announcement_and_the_merge(lake: Lake, pull_id: PullID) -> None:
    """It removes the announcement, so the merge does not begin before it has announced it again."""
    record = b"pulls/" + pull_id.encode()

    def clean() -> None:
        lake.catalog.pulls.merger.recover_all(lake.repository)
        assert not announced(lake)

    def look() -> None:
        assert announced(lake)

    merger = other_process(lake, (record, clean), (b"branches/main", look))
    merger.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert len(merges(lake)) == 1


def test_a_refused_merge_leaves_nothing_behind(lake: Lake, pull_id: PullID) -> None:
    lake.upload(b"staged", "x", MAIN)
    with pytest.raises(DirtyBranch):
        lake.catalog.pulls.merge(REPOSITORY, pull_id, REQUEST)
    assert lake.reclaim.expired.run_once().pulls == 0
    assert not announced(lake)
