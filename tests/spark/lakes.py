"""Repositories on a real storage, a server's preparation, and a clock that tests can turn.

Preparation runs in this process, by the same code that a server calls; `test_server` has it done by
a real server.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakebed.base.leases import LeaseState
from lakebed.base.runtime import UniqueID
from lakebed.block import BlockSettings, BlockStore, LocalSettings, open_block
from lakebed.clients.garbage.server import GarbageServer
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID
from lakebed.formats.gc_files import GCFile, GCMarker, GCRunID
from lakebed.kv import Store, open_store
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.judging import Executor
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.report import RunSummary
from lakebed.reclaim.collector.storage import Storage, open_storage
from tests.kit import staging
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, make_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600.0


class LocalServer(GarbageServer):
    """A server's part, without HTTP in between."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def close(self) -> None:
        pass

    def write_marker(self) -> tuple[GCMarker, Path | None]:
        return self._lake.reclaim.storage_markers.leave(self._lake.name), None

    def min_age_seconds(self) -> int:
        return int(self._lake.settings.min_age_seconds)

    def prepare(self, unique_id: str) -> GCRunID:
        gc = self._lake.reclaim.preparation
        prepared = gc.prepare_uncommitted(self._lake.name, unique_id=UniqueID(unique_id))
        while prepared.continuation_token is not None:
            prepared = gc.prepare_uncommitted(
                self._lake.name, unique_id=UniqueID(unique_id), token=prepared.continuation_token
            )
        self.write_commits(unique_id, prepared.run_id)
        return prepared.run_id

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, Any]:
        done = self._lake.reclaim.retention.expire(
            self._lake.name, unique_id=UniqueID(unique_id), max_share=max_share, dry_run=dry_run
        )
        return asdict(done)

    def write_old_commits(
        self, unique_id: str, run_id: GCRunID, *, since_us: int, dry_run: bool
    ) -> tuple[GCFile, ...]:
        return self._lake.reclaim.preparation.write_old_commits(
            self._lake.name,
            unique_id=UniqueID(unique_id),
            run_id=run_id,
            since_us=since_us,
            dry_run=dry_run,
        )

    def take_lease(self, holder: str, over: str) -> LeaseState:
        return self._lake.reclaim.leases.take(self._lake.name, holder, over=over)

    def renew_lease(self, holder: str) -> LeaseState:
        return self._lake.reclaim.leases.renew(self._lake.name, holder)

    def end_run(self, holder: str, *, is_good: bool, next_us: int) -> None:
        leases = self._lake.reclaim.leases
        leases.end_run(self._lake.name, holder, is_good=is_good, next_us=next_us)

    def write_commits(self, unique_id: str, run_id: GCRunID) -> None:
        gc = self._lake.reclaim.preparation
        gc.prepare_commits(self._lake.name, unique_id=UniqueID(unique_id), run_id=run_id)


@dataclass
class GCLake:
    """A repository, and runs of garbage collection over it."""

    lake: Lake
    settings: BlockSettings
    spark: "SparkSession | None"
    """None: this process does the work."""

    def run(self, options: CollectorOptions | None = None) -> RunSummary:
        return self.job().run(options or CollectorOptions())

    def job(self, server: "LocalServer | None" = None) -> CollectorJob:
        server = server or LocalServer(self.lake)
        storage = open_storage(server, self.settings)
        return CollectorJob(self.executor(storage), server, storage, runtime=self.lake.clock)

    def executor(self, storage: Storage) -> Executor:
        if self.spark is None:
            return ArrowExecutor(storage, self.lake.clock)
        from lakebed.reclaim.collector.on_spark import SparkExecutor  # not installed everywhere

        return SparkExecutor(self.spark, storage)

    def later(self, hours: float = 2.0) -> None:
        """Let time pass on the server."""
        self.lake.clock.ahead_seconds += hours * HOUR

    def collect(self) -> tuple[RunSummary, RunSummary]:
        """Let everything grow old, and make two runs."""
        self.later(24 * 9)
        first = self.run()
        self.later()
        return first, self.run()

    def upload(self, path: str, text: str = "text", branch: BranchID = MAIN) -> str:
        """Upload an object; return its address."""
        before = set(self.lake.stored())
        self.lake.upload(path.encode(), text, branch)
        (address,) = set(self.lake.stored()) - before
        return address

    def delete(self, path: str, branch: BranchID = MAIN) -> None:
        staging.delete(self.lake.engine, REPOSITORY, branch, path.encode())

    def commit(self, branch: BranchID = MAIN) -> str:
        request = CommitRequest(committer="ann", message="m")
        return HeadChanges(self.lake.engine).commit(REPOSITORY, branch, request).commit.id

    def stored(self) -> set[str]:
        """The addresses of all objects below ``repos/``."""
        return set(self.lake.stored())


def gc_lake(
    store: Store,
    block: BlockStore,
    settings: BlockSettings,
    spark: "SparkSession | None",
    *,
    namespace: str,
) -> GCLake:
    """A new repository with the branches main and dev."""
    return GCLake(make_lake(store, block, namespace=namespace), settings, spark)


@contextmanager
def local_lake(folder: Path, spark: "SparkSession | None") -> Iterator[GCLake]:
    """A repository on the local disk."""
    settings = LocalSettings(folder / "objects")
    with open_store(f"sqlite:///{folder}/lake.db") as store, open_block(settings) as block:
        yield gc_lake(store, block, settings, spark, namespace="local://lake/data")


__all__ = ["DEV", "HOUR", "MAIN", "REPOSITORY", "GCLake", "LocalServer", "gc_lake", "local_lake"]
