"""Garbage collection in the background process: what it deletes, when, and what it leaves alone."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import REGISTRY

from lakebed.block import Address, LocalSettings, StorageUnavailable
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.keys import GRAVELER, REPOSITORIES
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.formats.layout import gc_runs_folder
from lakebed.lake.commits import HeadChanges
from lakebed.lake.keys import GC
from lakebed.lake.places import parse_namespace
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.collector.errors import MissingHistory
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.expirer import Clocks
from lakebed.reclaim.retention import RetentionRules
from lakebed.reclaim.schedule import RunsFailed, export_last_good
from lakebed.reclaim.service import OwnServer
from lakebed.server import quickstart
from lakebed.server.app import open_services
from lakebed.server.background import schedule_of
from lakebed.server.config_files import load
from lakebed.server.services import Services
from lakebed.server.settings import (
    AuthSettings,
    BlockstoreSettings,
    DatabaseSettings,
    ReclaimSettings,
    ServerSettings,
    SettingsError,
)
from tests.kit import staging
from tests.kit.lake import TurnableClock, compare_no_clocks

LAKE, OTHER = RepositoryID("lake"), RepositoryID("other")
MAIN = BranchID("main")
HOUR = 3600.0
INTERVAL = ReclaimSettings().interval_seconds


class Server:
    """The parts of a server process, and a clock that can be turned."""

    def __init__(self, services: Services, clock: TurnableClock) -> None:
        self.services = services
        self.clock = clock
        self.reclaim = schedule_of(services)

    def upload(self, path: str, text: str, repository: RepositoryID = LAKE) -> None:
        self.services.catalog.uploads.upload(repository, MAIN, path.encode(), [text.encode()])

    def commit(self) -> None:
        request = CommitRequest(committer="ann", message="m")
        HeadChanges(self.services.foundation.engine).commit(LAKE, MAIN, request)

    def later(self, hours: float) -> int:
        """Let time pass, and look; return how many runs were made."""
        self.clock.ahead_seconds += hours * HOUR
        return self.reclaim.run_once()

    def objects(self, repository: RepositoryID = LAKE) -> int:
        return sum(batch.num_rows for batch in self._listed(repository, "repos"))

    def run_files(self) -> dict[str, set[str]]:
        """The kinds of files of each run that is kept."""
        found: dict[str, set[str]] = {}
        uid = self.services.catalog.repositories.get(LAKE).unique_id
        for batch in self._listed(LAKE, gc_runs_folder(uid)):
            for address in batch.column("address").to_pylist():
                *_, run_id, name = address.split("/")
                found.setdefault(run_id, set()).add(name.partition("-")[0])
        return found

    def _listed(self, repository: RepositoryID, folder: str) -> Iterator[pa.RecordBatch]:
        namespace = self.services.catalog.repositories.get(repository).namespace
        return self.services.foundation.block.list_objects(namespace.folder(folder))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    clock = TurnableClock()
    monkeypatch.setattr("lakebed.installation.opening.ThreadRuntime", lambda: clock)
    settings = ServerSettings(
        database=DatabaseSettings(url=f"sqlite:///{tmp_path}/lake.db"),
        blockstore=BlockstoreSettings(local=LocalSettings(tmp_path / "objects")),
        auth=AuthSettings(secret_key="0123456789abcdef"),
    )
    services = open_services(settings)
    compare_no_clocks(services.reclaim)
    for name in (LAKE, OTHER):
        services.catalog.repositories.create(
            name, parse_namespace(f"local://{name}"), committer="ann"
        )
    yield Server(services, clock)
    services.close()


def test_no_run_is_made_by_a_clock_that_is_days_ahead(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    gc = server.services.settings.gc
    check = Clocks(server.services.foundation.block, server.clock, gc).check
    server.services.reclaim.clocks.check = check  # type: ignore[method-assign]
    with pytest.raises(RunsFailed):
        server.later(48)
    assert "seconds ahead of the storage's" in caplog.text
    assert server.run_files() == {}


def test_unreferenced_objects_are_deleted_after_two_observations(server: Server) -> None:
    server.upload("a", "1")
    server.commit()
    for number in range(3):
        server.upload("b", str(number))
    # The one that was replaced last may be put back; it stays.
    assert server.later(0) == 2
    assert (server.later(25), server.objects()) == (2, 4)
    assert (server.later(0.5), server.objects()) == (1, 4)  # too early
    assert (server.later(0.6), server.objects()) == (1, 3)
    assert server.services.catalog.objects.stat(LAKE, "main", b"b").size == 1
    kept = server.run_files()
    assert len(kept) == 1
    # The report of what was deleted outlives the runs that come after; they themselves do not.
    assert (server.later(0.6), server.later(0.6)) == (1, 1)
    after = server.run_files()
    assert after[next(iter(kept))] == {"summary.json", "swept", "counts"}
    assert len(after) == 2


def test_a_repository_without_garbage_is_left_alone_until_there_could_be_some(
    server: Server,
) -> None:
    assert server.later(0) == 2
    before = server.run_files()
    age = CatalogSettings().min_age_seconds / HOUR
    assert server.later(age - 1) == 0
    server.upload("a", "1")
    staging.delete(server.services.foundation.engine, LAKE, MAIN, b"a")
    # By another process too, which knows of no run.
    server.reclaim = schedule_of(server.services)
    assert (server.later(0.9), server.run_files()) == (0, before)
    assert server.later(0.3) == 2
    # From now on something may become garbage at any time.
    assert server.later(INTERVAL / HOUR) == 1
    assert server.later(0) == 0
    server.later(age)
    server.later(2)
    assert server.objects() == 0


def test_quickstart_collects_as_soon_as_is_safe(tmp_path: Path) -> None:
    quickstart.create_key(tmp_path)
    flags = quickstart.flags_of(tmp_path, "127.0.0.1", 8000)
    settings = load(environment={}, flags=flags)
    assert settings.reclaim.enabled
    assert "within 90 minutes, at an age of 60 minutes" in quickstart.garbage_notice(settings)
    for shorter in ({"gc.min_age_seconds": 3599.0}, {"gc.gap_seconds": 1199.0}):
        with pytest.raises(SettingsError, match="must be at least"):
            load(environment={}, flags=flags | shorter)


def test_nobody_can_put_it_off_for_ever(server: Server) -> None:
    leases = server.services.reclaim.leases
    leases.take(LAKE, "liar")
    leases.end_run(LAKE, "liar", is_good=True, next_us=1 << 62)
    assert server.later(0) == 1  # of the other repository
    assert server.later(24.5) == 1
    assert server.later(1.5) == 1


def test_it_waits_for_runs_of_others(server: Server) -> None:
    leases = server.services.reclaim.leases
    leases.take(LAKE, "c0")
    assert server.later(0) == 1  # of the other repository
    for _ in range(3):
        assert server.later(0.5 / 60) == 0
        leases.renew(LAKE, "c0")
    # It died: nobody renews the lease any more.
    assert (server.later(0.1 / 60), server.later(2 / 60)) == (0, 1)
    assert leases.renew(LAKE, "c0").holder == ""


def lose_a_range(server: Server) -> tuple[Address, bytes]:
    """Commit something whose range then goes missing, and return that: no run can go on."""
    server.upload("a", "1")
    server.commit()
    namespace = server.services.catalog.repositories.get(LAKE).namespace
    block = server.services.foundation.block
    (batch,) = block.list_objects(namespace.folder("_lakebed/ranges"))
    (lost,) = batch.column("address").to_pylist()
    address = Address.parse(lost)
    data = block.read(address)
    block.delete(address)
    return address, data


def test_of_runs_that_are_refused_the_last_reason_is_left(server: Server) -> None:
    server.services.catalog.repositories.delete(OTHER)
    address, data = lose_a_range(server)
    storage = server.reclaim._storage(server.services.catalog.repositories.get(LAKE))
    own_server = OwnServer(server.services.reclaim, server.services.catalog.repositories.get(LAKE))
    # Of a run that somebody else made, all is left to look at.
    with pytest.raises(MissingHistory):
        CollectorJob(ArrowExecutor(storage, server.clock), own_server, storage).run(
            CollectorOptions()
        )
    by_hand = server.run_files()
    for _ in range(3):
        with pytest.raises(RunsFailed):
            server.later(INTERVAL / HOUR)
    *before, last = sorted(server.run_files().items())
    assert dict(before) == by_hand
    assert last[1] == {"refused.json"}
    server.services.foundation.block.create(address, data)
    assert server.later(INTERVAL / HOUR) == 1
    runs = server.services.reclaim.runs.list(LAKE)
    assert [run.state for run in runs] == ["refused", "refused", "done"]


def test_the_files_of_a_run_that_has_begun_to_delete_stay(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have replaced the state, though it was told that this failed."""
    server.services.catalog.repositories.delete(OTHER)
    server.upload("a", "1")
    assert server.later(0) == 1
    before = server.run_files()
    replace = LocalBlockStore.replace

    def replace_and_fail(store: LocalBlockStore, address: Address, *rest: Any) -> object:
        replace(store, address, *rest)
        raise StorageUnavailable("the answer was lost")

    monkeypatch.setattr(LocalBlockStore, "replace", replace_and_fail)
    with pytest.raises(RunsFailed):
        server.later(INTERVAL / HOUR)
    (begun,) = server.run_files().keys() - before.keys()
    assert {"manifest.json", "commits", "refused.json"} <= server.run_files()[begun]
    monkeypatch.undo()
    assert server.later(INTERVAL / HOUR) == 1


def test_a_repository_that_fails_does_not_stop_the_others(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    address, data = lose_a_range(server)
    block = server.services.foundation.block
    with pytest.raises(RunsFailed, match="1 runs failed"):
        server.later(0)
    assert "garbage collection of repository lake failed: missing_history" in caplog.text
    leases = server.services.reclaim.leases
    assert leases.last_run(LAKE).good_us == 0
    assert leases.last_run(OTHER).good_us > 0

    def age() -> float:
        export_last_good(server.services.reclaim, server.services.foundation.engine)
        good = REGISTRY.get_sample_value("lakebed_gc_last_good_run_timestamp_seconds")
        assert good is not None
        return server.clock.now() - good

    # It counts as collected when it was made.
    server.clock.ahead_seconds += HOUR
    assert HOUR <= age() < 2 * HOUR
    block.create(address, data)
    assert server.later(0) == 1
    assert HOUR <= age() < 2 * HOUR  # the other one has nothing to collect
    assert server.later(26) == 2
    assert age() < HOUR


@pytest.mark.parametrize("record", ["lease", "repository"])
def test_a_damaged_record_does_not_stop_the_collection_of_others(
    record: str, server: Server
) -> None:
    """It comes first in the list of repositories."""
    store = server.services.foundation.store
    if record == "lease":
        repository = server.services.catalog.repositories.get(LAKE)
        store.set(repository.partition, GC.prefix + b"last_run", b"\xff\xff\xff")
    else:
        store.set(GRAVELER, REPOSITORIES.prefix + b"!", b"\xff\xff\xff")
    with pytest.raises(RunsFailed) if record == "lease" else nullcontext():
        server.later(0)
    leases = server.services.reclaim.leases
    assert leases.last_run(OTHER).good_us > 0
    export_last_good(server.services.reclaim, server.services.foundation.engine)


def test_commits_that_expire_are_collected_without_waiting_for_new_garbage(server: Server) -> None:
    """Nothing is staged, so nothing else could become garbage for a day."""
    server.services.catalog.repositories.delete(OTHER)
    for number in range(3):
        server.upload("a", str(number))
        server.commit()
    server.clock.ahead_seconds += 24 * 9 * HOUR
    assert (server.later(0), server.objects()) == (1, 3)
    # Rules come, by whichever process: the next pass marks what they do not keep.
    server.services.reclaim.retention.set_rules(LAKE, RetentionRules(2))
    assert server.later(INTERVAL / HOUR) == 1
    # It is of no use to look again before the marks are old enough.
    assert (server.later(1), server.later(22.5)) == (0, 0)
    assert server.later(0.7) == 1
    assert (server.later(0.5), server.objects()) == (0, 3)  # found, and too early
    assert (server.later(0.6), server.objects()) == (1, 1)
