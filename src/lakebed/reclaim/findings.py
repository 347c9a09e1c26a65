"""What runs of garbage collection have found of one object, by the files that they left."""

from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import BlockStore, ObjectNotFound
from lakebed.engine.model import Repository
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.gc_state import GCResultFile, GCResultKind, decode_result, decode_state
from lakebed.formats.layout import gc_path, state_path
from lakebed.reclaim.runs import GCRuns


class GCFindings:
    """The files that runs left in one repository."""

    def __init__(self, block: BlockStore, runs: GCRuns, repository: Repository) -> None:
        self._block = block
        self._runs = runs
        self._repository = repository

    def found_us(self, path: str) -> int:
        """Return when the look ended that first found an object to be garbage; 0: none has."""
        address = self._repository.namespace.address(state_path(self._repository.unique_id))
        try:
            state = decode_state(self._block.read(address), file=str(address))
        except ObjectNotFound:
            return 0
        files = (file for file in state.files if file.kind is GCResultKind.OBJECTS)
        rows = self._rows(state.run_id, files, path)
        return max((row["found_us"] for row in rows), default=0)

    def deleted_by(self, path: str) -> tuple[GCRunID, datetime] | None:
        """Return the run that deleted an object, and when it began; None: no report says so."""
        for run in reversed([*self._runs.list(self._repository.id)]):
            swept = (run.summary or {}).get("swept", ())
            files = (GCResultFile(**file | {"kind": GCResultKind.SWEPT}) for file in swept)
            if any(not row["error"] for row in self._rows(run.id, files, path)):
                return run.id, run.began
        return None

    def _rows(
        self, run_id: GCRunID, files: Iterator[GCResultFile], path: str
    ) -> Iterator[dict[str, Any]]:
        tables = (self._table(run_id, file) for file in files)
        found = (each.filter(pc.equal(each.column("path"), path)).to_pylist() for each in tables)
        return chain.from_iterable(found)

    def _table(self, run_id: GCRunID, file: GCResultFile) -> pa.Table:
        path = gc_path(self._repository.unique_id, run_id, file.name)
        address = self._repository.namespace.address(path)
        try:
            data = self._block.read(address)
        except ObjectNotFound:  # a later run has removed it just now
            return pa.table({"path": pa.array([], pa.string())})
        return decode_result(data, file.kind, file.content_id, file=str(address))
