"""Removing the files of old runs, so that nightly runs do not pile up for ever."""

import re
from typing import Final

from lakebed.block import Address
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.layout import gc_run_folder
from lakebed.gc.report import run_ids
from lakebed.gc.storage import Storage

KEPT_US: Final = 30 * 24 * 3600 * 1_000_000
"""How long the files of a run are kept, at least."""

_RUN_ID: Final = re.compile(r"[0-9a-f]{36}")
_TIME_DIGITS: Final = 16


def prune(storage: Storage, latest: GCRunID) -> int:
    """Remove the files of runs that began long before the latest one; return how many runs.

    The latest run is the one that the state names; what it goes by is in its own folder.

    Raises:
        NotTheOwner: The namespace belongs to another repository by now.
        BlockError: The storage refused or failed.
    """
    storage.check_owner()
    # Ids of runs begin with the time. What is no run's is left alone.
    first_kept = f"{int(latest[:_TIME_DIGITS], 16) - KEPT_US:016x}"
    old = [each for each in run_ids(storage) if _RUN_ID.fullmatch(each) and each < first_kept]
    for run_id in old:
        remove_files(storage, run_id)
    return len(old)


def remove_files(storage: Storage, run_id: GCRunID) -> None:
    """Remove the files of a run.

    Raises:
        BlockError: The storage refused or failed; some may be left.
    """
    folder = gc_run_folder(storage.repository_uid, run_id)
    for batch in storage.block.list_objects(storage.namespace.folder(folder)):
        addresses = [Address.parse(each) for each in batch.column("address").to_pylist()]
        for result in storage.block.delete_many(addresses):
            if result.error is not None:
                raise result.error
