"""Runs over a real storage: what goes, what stays, seen by looking at the storage."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.base.leases import LeaseState
from lakebed.block import Address, DeleteResult, Forbidden
from lakebed.clients.http.errors import Refused
from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.model import BranchID
from lakebed.formats import OWNER_PATH, Owner, encode_owner
from lakebed.formats.gc_files import (
    GCFile,
    GCFileKind,
    GCResultFile,
    GCResultKind,
    GCRunID,
    GCState,
)
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.collector import rules
from lakebed.reclaim.collector.errors import (
    ExecutorFailed,
    GCError,
    InvalidOption,
    NotQuiet,
    NotTheOwner,
    Overtaken,
    TooMuchGarbage,
    WrongStorage,
)
from lakebed.reclaim.collector.executors import write
from lakebed.reclaim.collector.job import CollectorOptions
from lakebed.reclaim.collector.report import run_ids
from lakebed.reclaim.collector.storage import SavedState, Storage, open_storage
from lakebed.reclaim.prepare import PageLimits
from tests.kit.engines import dump, restore
from tests.spark.lakes import DEV, HOUR, MAIN, REPOSITORY, GCLake, LocalServer, local_lake

pytestmark = pytest.mark.timeout(600)

DEV_2 = BranchID("dev-2")
WORK = BranchID("work")


@pytest.fixture(params=["spark", "arrow"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GCLake]:
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    with local_lake(tmp_path, spark) as lake:
        yield lake


def put_strangers(lake: GCLake) -> list[Address]:
    """Put files of others into the namespace."""
    namespace, uid = lake.lake.repository.namespace, lake.lake.repository.unique_id
    paths = (f"repos/{uid}/branches/main/notes.txt", f"repos/{uid}0/branches/x/y/z", "mine")
    addresses = [namespace.address(path) for path in paths]
    for address in addresses:
        lake.lake.block.put(address, [b"mine"])
    return addresses


def saved_state(lake: GCLake) -> GCState:
    state = SavedState.read(open_storage(LocalServer(lake.lake), lake.settings)).state
    assert state is not None
    return state


def ripe_garbage(lake: GCLake) -> str:
    """Make an object that the next run deletes."""
    garbage = lake.upload("a", "1")
    lake.delete("a")
    lake.later(24 * 9)
    assert lake.run().waiting == 1
    lake.later()
    return garbage


def test_deleted_and_retained_objects(lake: GCLake) -> None:
    engine, catalog = lake.lake.engine, lake.lake.catalog
    engine.refs.create_branch(REPOSITORY, DEV_2, MAIN)
    engine.refs.create_branch(REPOSITORY, WORK, MAIN)
    stays, goes = set(), set()
    # Committed, then deleted, dropped by a hard reset, or merged from a branch that is gone.
    stays |= {lake.upload("a", "1"), lake.upload("b", "2")}
    first = lake.commit()
    lake.delete("a")
    stays.add(lake.upload("c", "3"))
    lake.commit()
    HeadChanges(engine).hard_reset(REPOSITORY, MAIN, first)
    stays.add(lake.upload("merged", "4", WORK))
    lake.commit(WORK)
    HeadChanges(engine).merge(REPOSITORY, WORK, MAIN, MergeRequest(committer="ann", message="m"))
    goes.add(lake.upload("never committed", "5", WORK))
    engine.refs.delete_branch(REPOSITORY, WORK)
    # Overwritten before it was committed; staged, and what that replaced, for its writer may put it
    # back; deleted; deleted but shared by a copy; identical to what is committed.
    goes.add(lake.upload("d", "6", DEV))
    stays.add(lake.upload("d", "7", DEV))
    lake.commit(DEV)
    stays |= {lake.upload("g", "11", DEV), lake.upload("g", "12", DEV)}
    goes.add(lake.upload("e", "8", DEV_2))
    lake.delete("e", DEV_2)
    stays.add(lake.upload("shared", "9", DEV_2))
    catalog.copies.copy(REPOSITORY, DEV_2, b"copy", source_ref="dev-2", source_path=b"shared")
    lake.delete("shared", DEV_2)
    goes.add(lake.upload("b", "2"))
    stays.add(lake.upload("f", "10"))
    lake.commit()
    strangers = put_strangers(lake)
    everything = lake.stored()

    assert lake.run().waiting == 0  # all is young
    lake.later(24 * 9)
    link = catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")
    lake.lake.block.put(link.address, [b"linked"])
    look = lake.run()
    assert (look.waiting, look.due, look.deleted) == (len(goes), 0, 0)
    assert lake.stored() == everything | {str(link.address)}
    too_soon = lake.run()
    assert (too_soon.waiting, too_soon.deleted) == (len(goes), 0)
    lake.later()
    before = saved_state(lake)
    dry = lake.run(CollectorOptions(dry_run=True))
    assert (dry.mode, dry.waiting, dry.due, dry.deleted) == ("optimized", 0, len(goes), 0)
    assert (saved_state(lake), lake.stored()) == (before, everything | {str(link.address)})
    swept = lake.run()
    assert (swept.mode, swept.deleted, swept.waiting, swept.failed) == (
        "optimized",
        len(goes),
        0,
        0,
    )
    assert everything - lake.stored() == goes
    assert lake.lake.block.exists(link.address)
    assert all(lake.lake.block.exists(address) for address in strangers)
    assert lake.lake.text(first, b"a") == "1"
    assert lake.lake.text("main", b"merged") == "4"


def test_optimized_runs_read_and_list_what_is_new(
    lake: GCLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [lake.upload(f"old/{number}", str(number)) for number in range(20)]
    lake.commit()
    held = lake.upload("staged", "s")
    lake.later(24 * 9)
    clean = lake.run()
    assert (clean.mode, clean.looked_at, clean.ranges_read) == ("clean", 21, 1)
    lake.delete("staged")
    new = lake.upload("new", "n")
    lake.commit()
    lake.later(24 * 9)
    look = lake.run()
    # The new object, and the one that was staged when its partition was closed.
    assert (look.mode, look.looked_at, look.committed, look.waiting) == ("optimized", 2, 1, 1)
    assert (clean.listed, look.listed) == (21, 1)
    # Entries of one range each, what is staged, commit records; then what the run before left: two
    # commits, a range, an object.
    assert (clean.rows_read, look.rows_read) == (20 + 1 + 2, 21 + 0 + 3 + 2 + 1 + 1)
    lake.later()
    monkeypatch.setattr(rules, "UNCHECKED_OBJECTS_MAX", 0)
    with pytest.raises(TooMuchGarbage, match="1 of 22 objects"):
        lake.run(CollectorOptions(max_share=0.01))
    assert held in lake.stored()
    assert lake.run(CollectorOptions(max_share=0.1)).deleted == 1
    assert lake.stored() == {*old, new}
    again = lake.run(CollectorOptions(clean=True))
    assert (again.mode, again.looked_at, again.committed, again.waiting) == ("clean", 21, 21, 0)


def test_files_of_old_runs_go(lake: GCLake) -> None:
    lake.upload("a")
    lake.commit()
    repository = lake.lake.repository
    storage = Storage(lake.settings, repository.namespace, repository.unique_id)
    first = lake.run().run_id
    lake.later(24 * 31)
    dry = lake.run(CollectorOptions(dry_run=True)).run_id
    assert list(run_ids(storage)) == [first, dry]
    second = lake.run()
    assert (second.mode, list(run_ids(storage))) == ("optimized", [dry, second.run_id])
    lake.later(24 * 31)
    third = lake.run()
    assert (third.mode, third.looked_at) == ("optimized", 0)
    assert list(run_ids(storage)) == [third.run_id]


def test_a_quiet_repository_is_cleaned_at_once(lake: GCLake) -> None:
    kept = lake.upload("a", "1")
    lake.upload("b", "2")
    lake.delete("b")
    link = lake.lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")
    with pytest.raises(NotQuiet, match="1 unfinished uploads"):
        lake.run(CollectorOptions(assume_quiet=True))
    unfinished = lake.lake.reclaim.unfinished
    for upload in list(unfinished.list(REPOSITORY)):
        unfinished.end(REPOSITORY, upload.id)
    summary = lake.run(CollectorOptions(assume_quiet=True))
    assert (summary.deleted, lake.stored()) == (1, {kept})
    assert not lake.lake.block.exists(link.address)


def test_a_repository_that_is_not_quiet(lake: GCLake) -> None:
    lake.upload("a", "1")
    lake.delete("a")
    before = lake.stored()

    class Busy(LocalServer):
        def prepare(self, unique_id: str) -> GCRunID:
            lake.lake.upload(b"meanwhile", "2")
            return super().prepare(unique_id)

    server = Busy(lake.lake)
    job = lake.job(server)
    with pytest.raises(NotQuiet, match="was written to during the run"):
        job.run(CollectorOptions(assume_quiet=True))
    assert before < lake.stored()


def test_refs_restored_into_a_new_repository(lake: GCLake) -> None:
    engine, namespace = lake.lake.engine, lake.lake.repository.namespace
    kept = {lake.upload("a", "1"), lake.upload("b", "2")}
    lake.commit()
    never_committed = lake.upload("c", "3")
    dumped = dump(engine, REPOSITORY)
    former = lake.lake.repository.unique_id
    engine.repositories.delete(REPOSITORY)
    engine.repositories.create_bare(REPOSITORY, namespace)
    lake.later(24 * 9)
    assert lake.run().looked_at == 0  # a repository with nothing in it
    restore(engine, REPOSITORY, dumped.dump_id)
    assert lake.lake.repository.unique_id != former
    lake.later()
    look = lake.run()
    assert (look.mode, look.committed, look.waiting) == ("clean", 2, 1)
    lake.later()
    assert lake.run().deleted == 1
    assert lake.stored() == kept
    assert never_committed not in kept
    assert lake.lake.text("main", b"a") == "1"


def test_a_repository_made_again_while_a_run_is_under_way(lake: GCLake) -> None:
    garbage = ripe_garbage(lake)

    class Reborn(LocalServer):
        def prepare(self, unique_id: str) -> GCRunID:
            run_id = super().prepare(unique_id)
            owner = encode_owner(Owner("installation", REPOSITORY, "another"))
            address = lake.lake.repository.namespace.address(OWNER_PATH)
            lake.lake.block.put(address, [owner])
            return run_id

    server = Reborn(lake.lake)
    job = lake.job(server)
    with pytest.raises(GCError, match="deleted and created again") as caught:
        job.run(CollectorOptions())
    error = caught.value
    assert isinstance(error, NotTheOwner) or (
        isinstance(error, ExecutorFailed)
        and error.error == "lakebed.reclaim.collector.errors.NotTheOwner"
    )
    assert garbage in lake.stored()


def test_a_server_that_refuses_before_anything_is_deleted(lake: GCLake) -> None:
    garbage = ripe_garbage(lake)

    class Refusing(LocalServer):
        """Credentials are revoked as soon as a run is prepared."""

        prepared = False

        def prepare(self, unique_id: str) -> GCRunID:
            run_id = super().prepare(unique_id)
            self.prepared = True
            return run_id

        def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
            assert self.prepared
            raise Refused(401, "not any more")

    server = Refusing(lake.lake)
    job = lake.job(server)
    with pytest.raises(Refused):
        job.run(CollectorOptions())
    assert garbage in lake.stored()
    assert lake.run().deleted == 1


def test_younger_objects_than_the_server_allows(lake: GCLake) -> None:
    with pytest.raises(InvalidOption, match="a minimum age of at least 86700 seconds"):
        lake.run(CollectorOptions(min_age_seconds=60))


def test_two_runs_at_once(lake: GCLake) -> None:
    storage = open_storage(LocalServer(lake.lake), lake.settings)
    before = SavedState.read(storage)
    assert before.state is None
    state = GCState(
        run_id=GCRunID("run"),
        repository_uids=(storage.repository_uid,),
        began_us=1,
        closed_before_us=2,
        objects_closed=3,
        objects_open=4,
        commits=(GCFile("commits", GCFileKind.COMMITS, 5, "id"),),
        files=(GCResultFile("objects", GCResultKind.OBJECTS, 6, 7, "id"),),
    )
    before.replace(state)
    saved = SavedState.read(storage)
    assert saved.state == state
    saved.check_latest()
    saved.replace(replace(state, began_us=9))
    for stale in (before, saved):
        with pytest.raises(Overtaken):
            stale.check_latest()
        with pytest.raises(Overtaken):
            stale.replace(state)


def refuse(storage: Storage, _runtime: object, paths: Sequence[str]) -> list[DeleteResult]:
    address = storage.namespace.address
    return [DeleteResult(address(path), Forbidden("hands off")) for path in paths]


def test_undeletable_objects_stay_in_the_state(
    lake: GCLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload("a", "1")
    lake.delete("a")
    kept = lake.upload("b", "2")
    lake.commit()
    lake.later(24 * 9)
    assert lake.run().waiting == 1
    with monkeypatch.context() as patch:
        patch.setattr(write, "delete_objects", refuse)
        for _ in range(2):
            lake.later()
            summary = lake.run()
            assert (summary.due, summary.deleted, summary.failed) == (1, 0, 1)
            assert saved_state(lake).objects == 2
    summary = lake.run()
    assert (summary.deleted, summary.failed, lake.stored()) == (1, 0, {kept})
    assert saved_state(lake).objects == 1


def test_a_clock_that_was_ahead(lake: GCLake) -> None:
    lake.upload("a", "1")
    lake.delete("a")
    lake.later(24 * 400)
    assert lake.run().waiting == 1
    lake.later(-24 * 400)
    lake.upload("b", "2")
    lake.delete("b")
    lake.later(24 * 9)
    first = lake.run()
    assert (first.mode, first.waiting, first.deleted) == ("clean", 2, 0)
    lake.upload("c", "3")
    lake.delete("c")
    second, third = lake.collect()
    assert (second.mode, second.waiting, second.deleted) == ("optimized", 1, 2)
    assert (third.mode, third.deleted, lake.stored()) == ("optimized", 1, set())


@pytest.mark.parametrize(
    "options",
    [
        CollectorOptions(max_share=math.nan),
        CollectorOptions(max_share=-0.1),
        CollectorOptions(min_age_seconds=math.nan),
        CollectorOptions(min_age_seconds=math.inf),
        CollectorOptions(min_age_seconds=-1),
    ],
)
def test_options_that_are_no_numbers(lake: GCLake, options: CollectorOptions) -> None:
    with pytest.raises(InvalidOption, match=r"invalid (share|minimum age)"):
        lake.run(options)


def test_a_quiet_repository_that_is_prepared_in_other_pages(
    lake: GCLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one page ends and the next begins is also a matter of time."""
    monkeypatch.setattr("lakebed.reclaim.prepare._RECORDS", 1)
    kept = {lake.upload("a", "1"), lake.upload("b", "2")}
    lake.upload("c", "3")
    lake.delete("c")

    class Slow(LocalServer):
        objects = 0

        def prepare(self, unique_id: str) -> GCRunID:
            gc, token = lake.lake.reclaim.preparation, None
            self.objects += 1
            while True:
                page = gc.prepare_uncommitted(
                    REPOSITORY, token=token, limits=PageLimits(objects=self.objects)
                )
                token = page.continuation_token
                if token is None:
                    break
            self.write_commits(unique_id, page.run_id)
            return page.run_id

    server = Slow(lake.lake)
    job = lake.job(server)
    assert job.run(CollectorOptions(assume_quiet=True)).deleted == 1
    assert lake.stored() == kept


class Careless(LocalServer):
    """Gives the lease to everyone."""

    def take_lease(self, holder: str, over: str) -> LeaseState:
        return LeaseState(holder, over, 60.0)

    def renew_lease(self, holder: str) -> LeaseState:
        return LeaseState(holder, "", 60.0)


def test_a_run_that_is_overtaken_deletes_nothing(lake: GCLake) -> None:
    """Between its look and its deletions another run found, perhaps, that something is in use."""
    garbage = ripe_garbage(lake)

    class Overtaking(LocalServer):
        def prepare(self, unique_id: str) -> GCRunID:
            run_id = super().prepare(unique_id)
            # It does not ask for the lease; to this one, the garbage is young.
            lake.job(Careless(lake.lake)).run(CollectorOptions(min_age_seconds=24 * 20 * HOUR))
            return run_id

    server = Overtaking(lake.lake)
    job = lake.job(server)
    with pytest.raises(Overtaken):
        job.run(CollectorOptions())
    assert lake.stored() == {garbage}


def test_nothing_is_judged_by_commits_alone(lake: GCLake) -> None:
    class Short(LocalServer):
        def prepare(self, unique_id: str) -> GCRunID:
            return lake.lake.reclaim.preparation.prepare_commits(REPOSITORY).run_id

    server = Short(lake.lake)
    job = lake.job(server)
    with pytest.raises(WrongStorage, match="lacks staged objects"):
        job.run(CollectorOptions())


def test_longer_times_than_before(lake: GCLake) -> None:
    """What was closed stays closed: that commits name objects there is not known any more."""
    kept = lake.upload("a", "1")
    lake.commit()
    lake.later(24 * 9)
    lake.run()
    summary = lake.run(CollectorOptions(min_age_seconds=24 * 20 * HOUR))
    assert (summary.mode, summary.looked_at) == ("optimized", 0)
    first, second = lake.collect()
    assert (first.mode, first.looked_at, second.mode) == ("optimized", 0, "optimized")
    assert lake.stored() == {kept}
