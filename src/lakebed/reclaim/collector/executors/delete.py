"""Deletion in executors: batches of objects, with retries and a result for each object."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import Runtime
from lakebed.block import DeleteResult, Locked, StorageUnavailable
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.gc_state import GC_RESULT_SCHEMAS, GCResultKind
from lakebed.reclaim.collector.executors.read import TALLY, Batches, Transform
from lakebed.reclaim.collector.executors.write import PartWriter
from lakebed.reclaim.collector.storage import Storage

_LOGGER: Final = logging.getLogger(__name__)

BATCH: Final = 1000
"""Number of deletes between two checks of the namespace's owner."""

_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.5


def delete_due(
    storage: Storage, run_id: GCRunID, count: Callable[[int], None] = TALLY.add
) -> Transform:
    """Map objects that are due to the files with their results; `count` gets their number.

    The rows have the columns of `frames.JUDGED`. Objects that could not be deleted are also written
    as objects for the next run.
    """

    def delete(batches: Batches) -> Batches:
        results = PartWriter(storage, run_id, GCResultKind.SWEPT)
        failed = PartWriter(storage, run_id, GCResultKind.OBJECTS)
        versions = PartWriter(storage, run_id, GCResultKind.VERSIONS)
        runtime = storage.runtime
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH):
                storage.check_owner()
                some = pa.Table.from_batches([batch.slice(start, BATCH)])
                paths = some.column("path").to_pylist()
                deleted = delete_objects(storage, runtime, paths)
                errors = [str(each.error or "") for each in deleted]
                count(len(errors))
                _log_failures(deleted)
                swept = some.append_column("error", pa.array(errors, pa.string()))
                yield from results.add(swept)
                yield from failed.add(swept.filter(pc.not_equal(swept.column("error"), "")))
                yield from versions.add(_of_versions(some, deleted))
        yield from results.flush()
        yield from failed.flush()
        yield from versions.flush()

    return delete


def _of_versions(objects: pa.Table, deleted: list[DeleteResult]) -> pa.Table:
    """Return the rows of `GCResultKind.VERSIONS`; none for a bucket without versions."""
    pairs = zip(objects.select(["path", "size"]).to_pylist(), deleted, strict=True)
    rows = [
        {
            "path": row["path"],
            "versions": each.versions,
            "bytes": each.bytes,
            "kept": each.leaves_versions,
            "kept_bytes": row["size"] if each.leaves_versions else 0,
            "locked": each.error.until if isinstance(each.error, Locked) else "",
        }
        for row, each in pairs
        if each.versions or each.leaves_versions or isinstance(each.error, Locked)
    ]
    return pa.Table.from_pylist(rows, schema=GC_RESULT_SCHEMAS[GCResultKind.VERSIONS])


def _log_failures(deleted: list[DeleteResult]) -> None:
    failures = [each.error for each in deleted if each.error and not isinstance(each.error, Locked)]
    if failures:
        _LOGGER.warning(
            "%d of %d objects could not be deleted: first error: %s",
            len(failures),
            len(deleted),
            failures[0],
        )


def delete_objects(storage: Storage, runtime: Runtime, paths: Sequence[str]) -> list[DeleteResult]:
    """Delete objects; return a result for each. A missing object counts as deleted.

    Transient failures of the storage are retried.
    """
    results: dict[str, DeleteResult] = {}
    left = list(paths)
    for attempt in range(_TRIES):
        if attempt:
            runtime.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1) * (0.5 + runtime.random()))
        deleted = storage.delete([storage.object_at(path) for path in left])
        for path, result in zip(left, deleted, strict=True):
            before = results.get(path, result)
            results[path] = result if before is result else _both(before, result)
        left = [
            path
            for path, result in zip(left, deleted, strict=True)
            if isinstance(result.error, StorageUnavailable)
        ]
        if not left:
            break
    return [results[path] for path in paths]


def _both(before: DeleteResult, again: DeleteResult) -> DeleteResult:
    """Return the sum of two attempts: a failed attempt may have deleted versions."""
    return replace(
        again, versions=before.versions + again.versions, bytes=before.bytes + again.bytes
    )
