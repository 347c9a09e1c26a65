"""Deleting in executors: a few objects at a time, with retries, and with a result for each."""

import logging
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import BlockError, BlockStore, Namespace, StorageUnavailable
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.gc_state import GCResultKind
from lakebed.gc.executors.read import Batches, Transform
from lakebed.gc.executors.write import PartWriter
from lakebed.gc.storage import Storage
from lakebed.runtime import Runtime, ThreadRuntime

_LOGGER: Final = logging.getLogger(__name__)

BATCH: Final = 1000
"""The owner of the namespace is checked before every so many deletes."""

_AT_ONCE: Final = 16
_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.5


def delete_due(storage: Storage, run_id: GCRunID) -> Transform:
    """From objects that are due to files that say what became of each.

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
                errors = runtime.map_parallel(
                    partial(delete_object, storage.block, storage.namespace, runtime),
                    some.column("path").to_pylist(),
                    limit=_AT_ONCE,
                )
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


def delete_object(block: BlockStore, namespace: Namespace, runtime: Runtime, path: str) -> str:
    """Delete one object; return why that failed, or an empty text. A missing object is deleted."""
    for attempt in range(_TRIES):
        try:
            block.delete(namespace.address(path))
        except StorageUnavailable as error:
            message = str(error)
            if attempt + 1 < _TRIES:
                runtime.sleep(_PAUSE_SECONDS * 2**attempt * (0.5 + runtime.random()))
        except BlockError as error:
            return str(error)
        else:
            return ""
    return message
