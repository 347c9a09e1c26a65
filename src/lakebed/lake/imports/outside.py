"""Imports whose metarange is built outside of the server, by a Spark job.

The record of such an import says so. The job reports its progress, which is its heartbeat, and
finally hands in the metarange. From then on the import continues as others do: a process of the
server leases it, validates the metarange (`lakebed.lake.imports.validation`), and publishes it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime, now_us
from lakebed.base.tracing import traced
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.kv import OutcomeUnknown, PredicateFailed, StoreUnavailable
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import ImportOver, InvalidImport
from lakebed.lake.imports.imports import ImportID, ImportProgress, Imports
from lakebed.lake.imports.run import SKIPPED_SHOWN_MAX
from lakebed.lake.imports.sources import ImportSource, in_order, source_messages
from lakebed.lake.keys import copy_of

_TRIES: Final = 10
_METARANGE_ID: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """Progress of a job."""

    objects: int = 0
    """Number of objects found so far."""
    skipped: int = 0
    skipped_addresses: Sequence[str] = ()
    current: str = ""
    """Location of the last objects found."""
    metarange_id: str = ""
    """The complete metarange, or empty while the job is running."""
    error: str = ""
    """Reason for the job's failure, or empty."""


class OutsideImports:
    """Receives the reports of jobs outside of the server."""

    def __init__(self, imports: Imports, runtime: Runtime, on_handed: Callable[[], object]) -> None:
        """`on_handed` is called when an import is ready to be published."""
        self._imports = imports
        self._runtime = runtime
        self._on_handed = on_handed

    @traced("catalog.report_import")
    def report(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        import_id: ImportID,
        sources: Sequence[ImportSource],
        report: JobReport,
        *,
        committer: str,
    ) -> ImportProgress:
        """Record the progress of a job, and return the status of the import; idempotent.

        `sources` and `committer` must equal those of the start.

        Raises:
            TaskNotFound: The branch has no such import, or its record was removed.
            InvalidImport: Another user started it, its sources differ, or the server runs it.
            ImportOver: A different metarange was handed in before.
            OutcomeUnknown: The report may have been recorded.
        """
        if report.metarange_id and not _METARANGE_ID.fullmatch(report.metarange_id):
            raise InvalidImport(
                f"{report.metarange_id!r} is not a metarange id: ids have 64 hexadecimal digits"
            )
        for left in reversed(range(_TRIES)):
            records, record = self._imports.find(repository_id, branch, import_id)
            found = record.message
            _check(import_id, found, sources, report, committer)
            if found.state != pb.IMPORT_STATE_RUNNING or found.handed_metarange_id:
                break
            changed = copy_of(found)
            _note(changed, report)
            changed.updated_us = now_us(self._runtime)
            try:
                records.set_if(record.name, changed, record.predicate)
            except PredicateFailed:
                continue  # canceled, or changed by another request: read the record again
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                if not left:
                    raise
            else:
                break
        if report.metarange_id:
            self._on_handed()
        return self._imports.status(repository_id, branch, import_id)


def _check(
    import_id: ImportID,
    found: pb.Import,
    sources: Sequence[ImportSource],
    report: JobReport,
    committer: str,
) -> None:
    if not found.outside:
        raise InvalidImport(f"import {import_id} is run by the server, which accepts no reports")
    if found.committer != committer:
        raise InvalidImport(f"import {import_id} was started by {found.committer}, not {committer}")
    if source_messages(in_order(sources)) != list(found.sources):
        raise InvalidImport(f"import {import_id} was started with other sources or destinations")
    handed = found.handed_metarange_id
    if handed and report.metarange_id not in {"", handed}:
        raise ImportOver(import_id, f"already has metarange {handed}")


def _note(message: pb.Import, report: JobReport) -> None:
    message.objects, message.skipped = report.objects, report.skipped
    message.current = report.current
    del message.skipped_addresses[:]
    message.skipped_addresses.extend(report.skipped_addresses[:SKIPPED_SHOWN_MAX])
    message.handed_metarange_id = report.metarange_id
    if report.error:
        message.state = pb.IMPORT_STATE_FAILED
        message.error_kind, message.error = "job_failed", report.error
