"""Garbage collection in the background process: every few minutes, repository by repository.

These are the runs of `lakebed.reclaim.collector`, with the same two-phase marking, state and
reports; this process does the work of Spark. A repository in which nothing can be garbage yet is
skipped until then (`LastRun.next_us`), so that idle repositories cost next to nothing.

- ``lakebed_gc_last_good_run_timestamp_seconds``: end of the last complete run by any collector.
"""

import logging
from collections.abc import Callable
from typing import Final

from prometheus_client import Gauge

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, UniqueID, now_us, to_us
from lakebed.block import BlockSettings
from lakebed.engine.engine import Engine
from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.model import Repository
from lakebed.formats.gc_files import GCState
from lakebed.kv import CorruptRecord
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.collector.errors import Busy
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.report import (
    SERVER,
    RunSummary,
    remove_refused_files,
    remove_superseded_files,
)
from lakebed.reclaim.collector.storage import SavedState, Storage
from lakebed.reclaim.service import OwnServer, Reclaim

_LOGGER: Final = logging.getLogger(__name__)
_LAST_GOOD: Final = Gauge(
    "lakebed_gc_last_good_run_timestamp_seconds",
    "Oldest time, over all repositories, at which a garbage collection run last completed",
    multiprocess_mode="mostrecent",
)


class RunsFailed(LakebedError):
    """Runs of some repositories failed; the log has the causes."""

    kind = "runs_failed"

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} runs failed: see the messages above")


class RunSchedule:
    """Schedule of runs of all repositories, with a minimum interval; used by one thread."""

    def __init__(
        self,
        reclaim: Reclaim,
        engine: Engine,
        runtime: Runtime,
        storage: BlockSettings,
        settings: CatalogSettings,
        *,
        interval_seconds: float,
        cause_of: Callable[[BaseException], str] = str,
    ) -> None:
        """Plan runs; `cause_of` returns the text of an error for the log."""
        self._reclaim = reclaim
        self._engine = engine
        self._runtime = runtime
        self._block_settings = storage
        self._interval_us = to_us(interval_seconds)
        self._cause_of = cause_of
        self._versions = settings.versions
        self._longest_us = to_us(
            settings.min_age_seconds + settings.skew_seconds + settings.gap_seconds
        )
        self._jobs: dict[UniqueID, CollectorJob] = {}
        self._not_before_us: dict[UniqueID, int] = {}

    def run_once(self) -> int:
        """Make a run of each repository that is due; return the number, or raise `RunsFailed`."""
        made = failed = 0
        for repository in self._repositories():
            try:
                if self._is_due(repository):
                    made += self.collect(repository) is not None
            except RepositoryNotFound:
                continue  # just deleted
            except LakebedError as error:
                failed += 1
                _LOGGER.warning(
                    "garbage collection of repository %s failed: %s: %s",
                    repository.id,
                    error.kind,
                    self._cause_of(error),
                )
        if failed:
            raise RunsFailed(failed)
        return made

    def _repositories(self) -> list[Repository]:
        """Return all repositories, and forget deleted ones."""
        found = list(self._engine.repositories.list_readable())
        existing = {repository.unique_id for repository in found}
        for remembered in (self._jobs, self._not_before_us):
            for deleted in remembered.keys() - existing:
                del remembered[deleted]
        return found

    def collect(self, repository: Repository) -> RunSummary | None:
        """Make a run, or return None if another is in progress; raise if the run ended early."""
        storage = self._storage(repository)
        before = SavedState.read(storage).state
        job = self._jobs.setdefault(repository.unique_id, self._new_job(repository, storage))
        try:
            summary = job.run(CollectorOptions())
        except Busy:
            _LOGGER.debug("another run of repository %s is in progress", repository.id)
            return None
        except LakebedError:
            self._remove_refused_files(storage, before)
            raise
        if before is not None and before.run_id != summary.run_id:
            remove_superseded_files(storage, before.run_id)
        _LOGGER.info(
            "garbage of repository %s: %d objects deleted, %d pending confirmation",
            repository.id,
            summary.deleted,
            summary.waiting,
        )
        return summary

    def _remove_refused_files(self, storage: Storage, before: GCState | None) -> None:
        """Remove the files of refused runs, except the reason of the last refusal."""
        try:
            remove_refused_files(storage, after=before.run_id if before is not None else None)
        except LakebedError as error:
            _LOGGER.warning("cannot remove the files of refused runs: %s", error)

    def _is_due(self, repository: Repository) -> bool:
        now = now_us(self._runtime)
        if now < self._not_before_us.get(repository.unique_id, 0):
            return False
        last = self._reclaim.leases.last_run(repository.id)
        # No correct run reports a later time.
        next_us = min(last.next_us, last.ended_us + self._longest_us)
        not_before = max(next_us, last.ended_us + self._interval_us)
        # Not for longer: new rules or expired commits make the repository due.
        self._not_before_us[repository.unique_id] = min(not_before, now + self._interval_us)
        return now >= not_before

    def _storage(self, repository: Repository) -> Storage:
        return Storage(
            self._block_settings,
            repository.namespace,
            repository.unique_id,
            self._versions,
            opened=self._reclaim.block,
        )

    def _new_job(self, repository: Repository, storage: Storage) -> CollectorJob:
        return CollectorJob(
            ArrowExecutor(storage, self._runtime, name=SERVER),
            OwnServer(self._reclaim, repository),
            storage,
            runtime=self._runtime,
            is_patient=False,
        )


def export_last_good(reclaim: Reclaim, engine: Engine) -> None:
    """Export when runs last completed; a repository without runs counts from its creation."""
    times = []
    for repository in engine.repositories.list_readable():
        try:
            good_us = reclaim.leases.last_run(repository.id).good_us
        except RepositoryNotFound:
            continue
        except CorruptRecord:
            good_us = 0  # unknown, and no run can be made
        times.append(max(good_us, repository.created_us))
    if times:
        _LAST_GOOD.set(min(times) / 1e6)
