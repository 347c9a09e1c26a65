"""Deleting in executors: many objects at a time, with retries, and with a result for each."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import BlockStore, Namespace, StorageUnavailable
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.gc_state import GCResultKind
from lakebed.gc.executors.read import Batches, Transform
from lakebed.gc.executors.tally import TALLY
from lakebed.gc.executors.write import PartWriter
from lakebed.gc.storage import Storage
from lakebed.runtime import Runtime, ThreadRuntime

_LOGGER: Final = logging.getLogger(__name__)

BATCH: Final = 1000
"""The owner of the namespace is checked before every so many deletes."""

_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.5


def delete_due(
    storage: Storage, run_id: GCRunID, count: Callable[[int], None] = TALLY.add
) -> Transform:
    """From objects that are due to files that say what became of each; `count` gets how many.

    The rows have the columns of `lakebed.gc.frames.JUDGED`. Those that could not be deleted are
    written once more as objects that the next run must know.
    """

    def delete(batches: Batches) -> Batches:
        results = PartWriter(storage, run_id, GCResultKind.SWEPT)
        failed = PartWriter(storage, run_id, GCResultKind.OBJECTS)
        runtime = ThreadRuntime()
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH):
                storage.check_owner()
                some = pa.Table.from_batches([batch.slice(start, BATCH)])
                paths = some.column("path").to_pylist()
                errors = delete_objects(storage.block, storage.namespace, runtime, paths)
                count(len(errors))
                _log_failures(errors)
                swept = some.append_column("error", pa.array(errors, pa.string()))
                yield from results.add(swept)
                yield from failed.add(swept.filter(pc.not_equal(swept.column("error"), "")))
        yield from results.flush()
        yield from failed.flush()

    return delete


def _log_failures(errors: list[str]) -> None:
    failures = [error for error in errors if error]
    if failures:
        _LOGGER.warning(
            "%d of %d objects could not be deleted, the first one: %s",
            len(failures),
            len(errors),
            failures[0],
        )


def delete_objects(
    block: BlockStore, namespace: Namespace, runtime: Runtime, paths: Sequence[str]
) -> list[str]:
    """Delete objects; return for each why that failed, or an empty text. A missing one is deleted.

    What the storage could not do just now is tried again.
    """
    errors = dict.fromkeys(paths, "")
    left = list(paths)
    for attempt in range(_TRIES):
        if attempt:
            runtime.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1) * (0.5 + runtime.random()))
        results = block.delete_many([namespace.address(path) for path in left])
        for path, result in zip(left, results, strict=True):
            errors[path] = "" if result.error is None else str(result.error)
        left = [
            path
            for path, result in zip(left, results, strict=True)
            if isinstance(result.error, StorageUnavailable)
        ]
        if not left:
            break
    return list(errors.values())
