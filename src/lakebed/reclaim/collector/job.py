"""A garbage collection run, from the server's preparation to the report.

Its steps:

1. Take the lease of the repository: one run at a time.
2. Read the state of the previous run; let the server expire commits, and prepare.
3. Judge every object (`judging`).
4. Unless it is a dry run: delete the due objects, with a result for each.
5. Replace the state. A run that dies earlier has deleted garbage and changed nothing else.
6. Remove the files of old runs (`report.prune`).

The work beside the storage is done by an `Executor`: Spark, or this process.

The lease only saves work, and lets a long run end before another begins. Safety does not depend on
it: a suspended run may lose its lease unnoticed; the first run to replace the state wins, see
`storage.SavedState`.
"""

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from lakebed.base.errors import LakebedError
from lakebed.base.leases import RENEWALS, Lease, LeaseTable, heartbeat_thread
from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.block import BlockError, ObjectNotFound
from lakebed.formats.gc_files import (
    MANIFEST_NAME,
    SUMMARY_NAME,
    GCFile,
    GCFileKind,
    GCManifest,
    GCResultFile,
    GCRunID,
    GCState,
    decode_gc_record,
)
from lakebed.reclaim.collector import rules
from lakebed.reclaim.collector.errors import Busy, InvalidOption, NotQuiet, Overtaken, WrongStorage
from lakebed.reclaim.collector.executors.write import DUE_LABEL, FREED_LABEL
from lakebed.reclaim.collector.judging import Executor, Findings, Judging, repository_uids
from lakebed.reclaim.collector.report import (
    Progress,
    RunSummary,
    add_delete_results,
    prune,
    recording_failure,
    remove_files,
)
from lakebed.reclaim.collector.rules import ObservationTimes, Verdict
from lakebed.reclaim.collector.storage import SavedState, Storage

_LOGGER: Final = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0


class ServerSide(LeaseTable, Protocol):
    """The server's part of a run; `lakebed.clients.garbage.server` calls it by HTTP."""

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, object]:
        """Mark and expire commits by the rules of the repository; return counts."""

    def prepare(self, unique_id: str) -> GCRunID:
        """Write a snapshot of all references."""

    def write_old_commits(
        self, unique_id: str, run_id: GCRunID, *, since_us: int, dry_run: bool
    ) -> tuple[GCFile, ...]:
        """Write the commits expired since `since_us`, or for a dry run, about to expire."""

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        """Check that the same repository still exists, and that the caller may collect."""

    def end_run(self, holder: str, *, is_good: bool, next_us: int) -> None:
        """Release the lease; report the outcome and when the next run is useful."""


@dataclass(slots=True)
class RunOutcome:
    """Outcome of a run, reported at its end."""

    is_good: bool = False
    """Whether the run completed."""
    next_us: int = 0
    """No run before this time would find anything to delete; 0 if unknown."""


class RunLease:
    """Lease of a repository, for the runs of one process.

    If `is_patient`, wait for another run for a while, after telling `print_line`.
    """

    def __init__(
        self,
        server: ServerSide,
        runtime: Runtime,
        *,
        is_patient: bool,
        print_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._server = server
        self._lease = Lease(server, runtime)
        self._runtime = runtime
        self._is_patient = is_patient
        self._print_line = print_line

    @contextmanager
    def hold(self) -> Iterator[RunOutcome]:
        """Hold the lease, and report the outcome at the end; raise `Busy` if another run has it."""
        self._take()
        outcome = RunOutcome()
        try:
            with heartbeat_thread(self._renew, every_seconds=self._lease.seconds / RENEWALS):
                yield outcome
        finally:
            with suppress(LakebedError):  # it expires, and is taken over
                self._server.end_run(
                    self._lease.holder, is_good=outcome.is_good, next_us=outcome.next_us
                )

    def check(self) -> None:
        """Raise `Overtaken` if another run has taken over the lease."""
        if not self._lease.renew():
            raise Overtaken("another run has taken over the lease: nothing was deleted")

    def _take(self) -> None:
        begun, has_waited = self._runtime.monotonic(), False
        while not self._lease.acquire():
            # Long enough to detect a dead run, and for a short run to end.
            waited = self._runtime.monotonic() - begun
            if not self._is_patient or waited >= 2 * self._lease.seconds:
                raise Busy
            if not has_waited:
                self._print_line("Waiting for another run to end…")
                has_waited = True
            self._runtime.sleep(_RETRY_SECONDS)

    def _renew(self) -> bool:
        try:
            return self._lease.renew()  # `check` detects a lost lease, too
        except LakebedError as error:
            _LOGGER.warning("cannot renew the lease of a run: %s", error)
            return True


MAX_SHARE: Final = 0.5
"""Default for the largest share of all objects deleted by a run."""

_NEVER_US: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorOptions:
    """Options of a run."""

    dry_run: bool = False
    """Delete nothing, and leave the state unchanged."""
    clean: bool = False
    """Read all commits and list all objects; ignore the state of the previous run."""
    assume_quiet: bool = False
    """Find and delete in one run, regardless of age: for a repository without writers."""
    min_age_seconds: float | None = None
    """Keep younger objects; not less than the server allows."""
    max_share: float = MAX_SHARE


class CollectorJob:
    """Garbage collection runs of one repository.

    If `is_patient`, a run waits for another run for a while. `print_line` is called with a line
    about each step.
    """

    def __init__(
        self,
        executor: Executor,
        server: ServerSide,
        storage: Storage,
        *,
        runtime: Runtime | None = None,
        is_patient: bool = True,
        print_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._executor = executor
        self._server = server
        self._storage = storage
        self._print_line = print_line
        self._lease = RunLease(
            server, runtime or ThreadRuntime(), is_patient=is_patient, print_line=print_line
        )

    def run(self, options: CollectorOptions) -> RunSummary:
        """Make one run; raise `GCError` or another `LakebedError` if it ended early."""
        _check(options)
        # A dry run too: a server removes the files of its previous run after the next.
        with self._lease.hold() as outcome:
            summary = self._run(options)
            if not options.dry_run:
                outcome.is_good, outcome.next_us = summary.success, _useful_from_us(summary)
            return summary

    def _run(self, options: CollectorOptions) -> RunSummary:
        saved = SavedState.read(self._storage)
        commits = self._expire(options)
        self._note("Server: snapshotting referenced objects…")
        manifest = self._prepare()
        run_id, executor = manifest.run.run_id, self._executor.name
        with recording_failure(self._storage, run_id, executor) as progress:
            return self._run_prepared(saved, manifest, options, commits, progress)

    def _run_prepared(
        self,
        saved: SavedState,
        manifest: GCManifest,
        options: CollectorOptions,
        commits: dict[str, object],
        progress: Progress,
    ) -> RunSummary:
        times = _observation_times(manifest, options)
        optimized = not options.clean and rules.may_optimize(
            saved.state,
            began_us=times.began_us,
            repository_uids=repository_uids(manifest),
            expired_ids=manifest.run.expired_ids,
        )
        if options.assume_quiet:
            self._check_no_open_uploads(manifest)
        old = self._old_commits(saved, manifest, options, commits)
        judging = Judging(
            manifest=manifest,
            state=saved.state,
            times=times,
            # The state lacks references from old commits to objects known to stay.
            optimized=optimized and not old,
            old=old,
            quiet=options.assume_quiet,
        )
        _LOGGER.info(
            "run %s of %s begins, %s%s",
            manifest.run.run_id,
            manifest.run.repository,
            "optimized" if judging.optimized else "clean",
            ", dry" if options.dry_run else "",
        )
        self._note("Reading commits and listing objects…")
        findings = self._executor.judge(judging)
        summary = replace(
            _summary(judging, options, findings, self._executor.name),
            commits=commits,
            versions=self._storage.versions,
        )
        self._note(f"{summary.due} objects to delete, {summary.waiting} pending confirmation")
        if not options.dry_run:
            self._check_limits(saved, judging, summary, options)
            progress.has_begun = True
            summary = self._sweep_and_save(saved, judging, findings, summary)
        self._storage.block.put(
            self._storage.file(summary.run_id, SUMMARY_NAME), [summary.encode()]
        )
        if not options.dry_run:
            self._prune(summary.run_id)
        return summary

    def _prune(self, run_id: GCRunID) -> None:
        try:
            count = prune(self._storage, run_id)
        except LakebedError as error:
            # The run has done its work; the next run retries this.
            _LOGGER.warning("cannot remove the files of old runs: %s", error)
            self._print_line(f"Cannot remove the files of old runs: {error}")
        else:
            self._note(f"Removed the files of {count} old runs")

    def _note(self, line: str) -> None:
        _LOGGER.info("%s: %s", self._storage.namespace, line)
        self._print_line(line)

    def _check_limits(
        self, saved: SavedState, judging: Judging, summary: RunSummary, options: CollectorOptions
    ) -> None:
        """Check that the due objects may be deleted."""
        known, manifest = judging.known, judging.manifest
        count = known.objects if known is not None else summary.looked_at
        rules.check_share(summary.due, count, max_share=options.max_share)
        saved.check_latest()
        if options.assume_quiet:
            self._check_unchanged(manifest)
        # Judging may have taken hours.
        self._server.check_still_there(manifest.run.unique_id, summary.run_id)
        self._lease.check()

    def _sweep_and_save(
        self, saved: SavedState, judging: Judging, findings: Findings, summary: RunSummary
    ) -> RunSummary:
        """Delete the due objects, and save the state for the next run."""
        known, manifest = judging.known, judging.manifest
        summary, failed = self._sweep(manifest, findings, summary)
        left_closed = 0
        if failed:
            left_closed = self._executor.count_made_before(
                summary.run_id, failed, judging.closed_before_us
            )
        closed = (known.objects_closed if known is not None else 0) - findings.due_in("closed")
        saved.replace(
            GCState(
                run_id=summary.run_id,
                repository_uids=repository_uids(manifest),
                began_us=manifest.run.began_us,
                closed_before_us=judging.closed_before_us,
                objects_closed=closed + findings.kept_in("closing") + left_closed,
                objects_open=findings.kept_in("open")
                + summary.failed
                + summary.locked
                - left_closed,
                commits=tuple(manifest.of_kind(GCFileKind.COMMITS)),
                files=(*findings.objects, *findings.ranges, *failed),
                expired_ids=manifest.run.expired_ids,
            )
        )
        return summary

    def _expire(self, options: CollectorOptions) -> dict[str, object]:
        """Let the server expire commits; this run already excludes them."""
        done = self._server.expire(
            self._storage.repository_uid, max_share=options.max_share, dry_run=options.dry_run
        )
        if done["expired"] or done["marked"]:
            would = "would expire" if options.dry_run else "expired"
            self._note(f"{done['expired']} commits {would}, {done['marked']} newly marked")
        return done

    def _old_commits(
        self,
        saved: SavedState,
        manifest: GCManifest,
        options: CollectorOptions,
        commits: dict[str, object],
    ) -> tuple[GCFile, ...]:
        """Let the server write the commits whose expiry frees objects, if any."""
        before = saved.state.expired_ids if saved.state is not None else ()
        would = options.dry_run and any(commits[each] for each in ("expired", "waiting", "marked"))
        if not would and manifest.run.expired_ids == before:
            return ()
        return self._server.write_old_commits(
            manifest.run.unique_id,
            manifest.run.run_id,
            since_us=saved.state.began_us if saved.state is not None else 0,
            dry_run=would,
        )

    def _prepare(self) -> GCManifest:
        run_id = self._server.prepare(self._storage.repository_uid)
        address = self._storage.file(run_id, MANIFEST_NAME)
        try:
            data = self._storage.block.read(address)
        except ObjectNotFound as error:
            raise WrongStorage(
                f"{address}, just written by the server, is missing here: this is not the server's"
                " storage"
            ) from error
        manifest = decode_gc_record(GCManifest, data, run_id, file=str(address))
        if not manifest.run.with_uploads:
            raise WrongStorage(f"{address} lacks staged objects: it cannot be used to find garbage")
        return manifest

    def _sweep(
        self, manifest: GCManifest, findings: Findings, summary: RunSummary
    ) -> tuple[RunSummary, tuple[GCResultFile, ...]]:
        """Delete the due objects; return the undeleted objects for the next run."""
        if not findings.due:
            return summary, ()
        files = self._executor.sweep(manifest, findings.due)
        summary, stay = add_delete_results(self._storage, summary, files)
        self._note(
            f"{summary.deleted} objects deleted, {summary.failed} failed, {summary.locked} locked"
        )
        return summary, stay

    # Checks of a repository without concurrent writers

    def _check_no_open_uploads(self, manifest: GCManifest) -> None:
        count = self._executor.count_open_uploads(manifest)
        if count:
            raise NotQuiet(
                f"{count} unfinished uploads: list them with `lakebed gc uploads` and end them with"
                " `lakebed gc end-uploads`, or wait until they finish or expire"
            )

    def _check_unchanged(self, manifest: GCManifest) -> None:
        again = self._prepare()
        is_same = _contents(again) == _contents(manifest) or self._executor.have_same_content(
            again, manifest
        )
        with suppress(BlockError):  # the rest is removed with the old runs
            remove_files(self._storage, again.run.run_id)
        if not is_same:
            raise NotQuiet("the repository was written to during the run: nothing was deleted")


def _contents(manifest: GCManifest) -> list[tuple[str, int, str]]:
    return [(file.kind, file.rows, file.content_id) for file in manifest.files]


def _check(options: CollectorOptions) -> None:
    # Written so that NaN is refused too: every comparison with it is false.
    if not options.max_share >= 0:
        raise InvalidOption(f"invalid share {options.max_share:g}: use at least 0")
    if options.min_age_seconds is not None and not 0 <= options.min_age_seconds < math.inf:
        raise InvalidOption(
            f"invalid minimum age {options.min_age_seconds:g}: use a number of seconds"
        )


def _observation_times(manifest: GCManifest, options: CollectorOptions) -> ObservationTimes:
    """Return the times of a run; raise `InvalidOption` if the minimum age is too low."""
    run = manifest.run
    cutoff_us = run.cutoff_us
    if options.min_age_seconds is not None:
        cutoff_us = run.began_us - int(options.min_age_seconds * 1e6)
        if cutoff_us > run.cutoff_us:
            least = (run.began_us - run.cutoff_us) / 1e6
            raise InvalidOption(f"the server requires a minimum age of at least {least:g} seconds")
    return ObservationTimes(
        began_us=run.began_us,
        ended_us=manifest.ended_us,
        cutoff_us=_NEVER_US if options.assume_quiet else cutoff_us,
        closed_before_us=cutoff_us - run.partition_open_us,
        gap_us=run.gap_us,
    )


def _useful_from_us(summary: RunSummary) -> int:
    """Return the time before which no run would delete anything; 0 if unknown.

    Held objects may become garbage at any time. New objects must age first; marked commits must
    expire first. (Objects that come of age meanwhile can wait until then.)
    """
    if summary.held or summary.young or summary.failed:
        return 0
    grown_old_us = summary.began_us + (summary.began_us - summary.cutoff_us)
    found_again_us = summary.next_us if summary.waiting else grown_old_us
    expired_us = summary.commits.get("next_us") or grown_old_us
    return min(found_again_us, expired_us)


def _summary(
    judging: Judging, options: CollectorOptions, findings: Findings, executor: str
) -> RunSummary:
    manifest, times = judging.manifest, judging.times
    due, due_bytes = findings.of(DUE_LABEL)
    garbage, garbage_bytes = findings.of(Verdict.CANDIDATE)
    freed, freed_bytes = findings.of(FREED_LABEL)
    return RunSummary(
        run_id=manifest.run.run_id,
        repository=manifest.run.repository,
        mode="optimized" if judging.optimized else "clean",
        executor=executor,
        dry_run=options.dry_run,
        assume_quiet=options.assume_quiet,
        began_us=times.began_us,
        cutoff_us=min(times.cutoff_us, times.began_us),
        looked_at=sum(count.objects for count in findings.totals),
        listed=findings.listed,
        ranges_read=findings.ranges_read,
        rows_read=findings.rows_read,
        committed=findings.of(Verdict.COMMITTED)[0],
        held=findings.of(Verdict.HELD)[0],
        young=findings.of(Verdict.YOUNG)[0],
        waiting=garbage + freed,
        waiting_bytes=garbage_bytes + freed_bytes,
        freed=freed,
        freed_bytes=freed_bytes,
        next_us=times.ended_us + times.gap_us,
        due=due,
        due_bytes=due_bytes,
        deleted=0,
        deleted_bytes=0,
        failed=0,
        success=True,
        counts=findings.counts,
        left_alone=manifest.run.left_alone,
    )
