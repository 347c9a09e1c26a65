"""Garbage collection runs of a repository, as seen by the server.

`RunFiles` reads and writes the files of a run. `GCLeases` has the lease under which a single run
works at a time, and the end of the last run. `GCMarkers` writes random bytes into the storage: a
job with access to these bytes reads the server's current storage, neither a folder of the same name
nor an older copy.

`GCRuns` tells the outcome of runs by their files (see `lakebed.formats.gc_files`): a summary is
written at the end of a run, a refusal if the run ended early. A run with neither is in progress, or
has died. The two cannot be told apart for certain; a run counts as dead after a later run began, or
after a day without either file. `GCFindings` returns the findings of runs for a single object.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.leases import LeaseState
from lakebed.base.runtime import Runtime, now_us, to_datetime
from lakebed.base.tracing import traced
from lakebed.block import Address, AlreadyExists, BlockStore, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.leases import LeaseRecords
from lakebed.engine.model import Repository, RepositoryID
from lakebed.formats.files import load_json
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    MANIFEST_NAME,
    REFUSAL_NAME,
    RUN_NAME,
    SUMMARY_NAME,
    GCFile,
    GCFileKind,
    GCManifest,
    GCMarker,
    GCPage,
    GCResultFile,
    GCResultKind,
    GCRun,
    GCRunID,
    RecordT,
    decode_gc_record,
    decode_result,
    decode_state,
    encode_gc_record,
    encode_gc_table,
    page_name,
)
from lakebed.formats.layout import gc_path, gc_run_folder, gc_runs_folder, marker_path, state_path
from lakebed.kv import Store
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import InvalidRun
from lakebed.lake.keys import GC
from lakebed.lake.settings import CatalogSettings

FILE_ROWS: Final = 100_000
"""Maximum number of rows of a file, and in memory."""


class RunFiles:
    """The files of a run.

    Run, pages and manifest are each written once: a second writer uses the existing file. Tables
    have random names, so concurrent writers of a page never mix up their files.
    """

    def __init__(
        self, block: BlockStore, runtime: Runtime, repository: Repository, run_id: GCRunID
    ) -> None:
        self.run_id = run_id
        self._block = block
        self._runtime = runtime
        self._repository = repository

    @property
    def location(self) -> str:
        """The folder of the run, as a URL."""
        path = gc_run_folder(self._repository.unique_id, self.run_id)
        return str(self._repository.namespace.folder(path))

    def create_run(self, run: GCRun) -> None:
        self._create(RUN_NAME, encode_gc_record(run))

    def read_run(self) -> GCRun:
        """Return the description of the run; raise `InvalidRun` if there is no such run."""
        run = self._find(GCRun, RUN_NAME)
        if run is None:
            raise InvalidRun(f"repository {self._repository.id} has no run '{self.run_id}'")
        return run

    def create_page(self, page: GCPage) -> GCPage:
        """Write a page unless already written; return the stored page."""
        self._create(page_name(page.number), encode_gc_record(page))
        found = self.find_page(page.number)
        assert found is not None, "it was just written"
        return found

    def find_page(self, number: int) -> GCPage | None:
        """Return a page, or None if not written yet."""
        return self._find(GCPage, page_name(number))

    def pages(self) -> Iterator[GCPage]:
        """Yield all pages; raise `InvalidRun` if the last page is not written yet."""
        following = True
        number = 0
        while following:
            page = self.find_page(number)
            if page is None:
                raise InvalidRun(
                    f"run {self.run_id} has {number} pages of uncommitted objects so far: prepare"
                    " the other pages first"
                )
            yield page
            following = page.following is not None
            number += 1

    def create_manifest(self, manifest: GCManifest) -> None:
        self._create(MANIFEST_NAME, encode_gc_record(manifest))

    def find_manifest(self) -> GCManifest | None:
        """Return the manifest, or None if not written yet."""
        return self._find(GCManifest, MANIFEST_NAME)

    def put_table(self, kind: GCFileKind, table: pa.Table) -> GCFile:
        """Write a table under a random name."""
        name = f"{kind}-{self._runtime.random_bytes(8).hex()}.parquet"
        data, file = encode_gc_table(kind, table, name)
        self._block.create(self._address(name), data)
        return file

    def _create(self, name: str, data: bytes) -> None:
        with suppress(AlreadyExists):
            self._block.create(self._address(name), data)

    def _find(self, of: type[RecordT], name: str) -> RecordT | None:
        try:
            data = self._block.read(self._address(name))
        except ObjectNotFound:
            return None
        return decode_gc_record(of, data, self.run_id, file=str(self._address(name)))

    def _address(self, name: str) -> Address:
        path = gc_path(self._repository.unique_id, self.run_id, name)
        return self._repository.namespace.address(path)


class TableWriter:
    """Buffered writer of rows of a kind, in files of bounded size."""

    def __init__(self, files: RunFiles, kind: GCFileKind) -> None:
        self._files = files
        self._kind = kind
        self._columns: list[list[object]] = [[] for _ in GC_SCHEMAS[kind]]
        self.written: list[GCFile] = []
        self.rows = 0

    def add(self, *columns: Sequence[object]) -> None:
        """Add rows, column by column in the order of the schema."""
        for column, more in zip(self._columns, columns, strict=True):
            column.extend(more)
        self.rows += len(columns[0])
        if len(self._columns[0]) >= FILE_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._columns[0]:
            return
        schema = GC_SCHEMAS[self._kind]
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(self._columns, schema, strict=True)
        ]
        self.written.append(self._files.put_table(self._kind, pa.table(arrays, schema=schema)))
        self._columns = [[] for _ in schema]


_NAME: Final = b"last_run"


@dataclass(frozen=True, slots=True)
class LastRun:
    """Results of the last runs of a repository."""

    good_us: int
    """End time of the last complete run; 0 if none has completed."""
    next_us: int
    """No run before this time would find anything to delete."""
    ended_us: int
    """End time of the last run, successful or not."""


class GCLeases:
    """Leases of repositories. All methods raise `RepositoryNotFound` and store errors."""

    def __init__(self, engine: Engine, store: Store, runtime: Runtime, *, seconds: float) -> None:
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self._seconds = seconds

    def take(self, repository_id: RepositoryID, holder: str, *, over: str = "") -> LeaseState:
        """Take the lease if it is free, or has the token `over`; return its current state."""
        return self._lease(repository_id).take_lease(holder, over)

    def renew(self, repository_id: RepositoryID, holder: str) -> LeaseState:
        """Renew the lease if `holder` has it; return its current state."""
        return self._lease(repository_id).renew_lease(holder)

    def end_run(
        self, repository_id: RepositoryID, holder: str, *, is_good: bool, next_us: int
    ) -> None:
        """Record the end of a run and release its lease, if `holder` has it.

        A run that loses its lease between the two writes records its end, too. That only moves
        `next_us`, before which no run would find anything to delete.
        """
        lease = self._lease(repository_id)
        if lease.renew_lease(holder).holder != holder:
            return
        ended_us = now_us(self._runtime)

        def end(message: pb.GCLastRun) -> None:
            message.next_us, message.ended_us = next_us, ended_us
            if is_good:
                message.good_us = ended_us

        self._records(repository_id).change(_NAME, end)
        lease.release_lease(holder)

    def expect_garbage(self, repository_id: RepositoryID) -> None:
        """Record that garbage may exist before the time given by the last run.

        Only saves waiting: a run ending concurrently may overwrite the record.
        """

        def expect(message: pb.GCLastRun) -> None:
            message.next_us = 0

        if self.last_run(repository_id).next_us:
            self._records(repository_id).change(_NAME, expect)

    def last_run(self, repository_id: RepositoryID) -> LastRun:
        record = self._records(repository_id).find(_NAME)
        message = record.message if record is not None else pb.GCLastRun()
        return LastRun(message.good_us, message.next_us, message.ended_us)

    def _lease(self, repository_id: RepositoryID) -> LeaseRecords:
        unique_id = self._engine.repositories.get(repository_id).unique_id
        return LeaseRecords(self._store, self._runtime, f"gc/{unique_id}".encode(), self._seconds)

    def _records(self, repository_id: RepositoryID) -> Records[pb.GCLastRun]:
        repository = self._engine.repositories.get(repository_id)
        return Records(self._store, GC, repository.partition)


_TIME_DIGITS: Final = 16
_LONGEST_US: Final = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class GarbageRun:
    """A run with its outcome."""

    id: GCRunID
    began: datetime
    state: str
    """``done``, ``incomplete`` (some objects could not be deleted, or the run ended while
    deleting), ``refused`` (nothing was deleted), ``running`` or ``died``."""
    message: str
    """Why the run ended early."""
    summary: dict[str, Any] | None
    """The figures of a finished run."""


class GCRuns:
    """The runs of all repositories."""

    def __init__(self, engine: Engine, block: BlockStore, runtime: Runtime) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime

    @traced("catalog.list_gc_runs")
    def list(self, repository_id: RepositoryID, *, after: str = "") -> Iterator[GarbageRun]:
        """Yield the runs of a repository whose files are kept, oldest first.

        Raises:
            RepositoryNotFound: The repository does not exist.
            DamagedFile: The summary or refusal of a run is unreadable.
            BlockError: The storage refused or failed.
        """
        repository = self._engine.repositories.get(repository_id)
        folder = repository.namespace.folder(gc_runs_folder(repository.unique_id))
        names = sorted(name for name in self._block.list_folders(folder) if _is_run(name))
        last = next((each for each in reversed(names) if self._collects(repository, each)), "")
        wanted = [GCRunID(name) for name in names if name > after]
        found = (self._outcome(repository, run_id, is_last=run_id == last) for run_id in wanted)
        return (run for run in found if run is not None)

    def _outcome(
        self, repository: Repository, run_id: GCRunID, *, is_last: bool
    ) -> GarbageRun | None:
        """Return a run with its outcome, or None if the run only wrote commits."""
        began_us = int(run_id[:_TIME_DIGITS], 16)
        began = to_datetime(began_us)
        summary = self._read(repository, run_id, SUMMARY_NAME)
        if summary is not None:
            state = "done" if summary.get("success") else "incomplete"
            return GarbageRun(run_id, began, state, "", summary)
        note = self._read(repository, run_id, REFUSAL_NAME)
        if note is not None:
            state = "incomplete" if note.get("has_begun") else "refused"
            return GarbageRun(run_id, began, state, str(note.get("message", "")), None)
        if not self._collects(repository, run_id):
            return None
        is_recent = now_us(self._runtime) - began_us < _LONGEST_US
        return GarbageRun(run_id, began, "running" if is_last and is_recent else "died", "", None)

    def _collects(self, repository: Repository, name: str) -> bool:
        """Return whether a run may delete. Clients of lakeFS also request commits alone."""
        address = repository.namespace.address(
            gc_path(repository.unique_id, GCRunID(name), RUN_NAME)
        )
        try:
            data = self._block.read(address)
        except ObjectNotFound:
            return True  # its files were removed, or it has just begun
        return decode_gc_record(GCRun, data, GCRunID(name), file=str(address)).with_uploads

    def _read(self, repository: Repository, run_id: GCRunID, name: str) -> dict[str, Any] | None:
        address = repository.namespace.address(gc_path(repository.unique_id, run_id, name))
        try:
            data = self._block.read(address)
        except ObjectNotFound:
            return None
        found: dict[str, Any] = load_json(data, file=str(address))
        return found


def _is_run(name: str) -> bool:
    digits = name[:_TIME_DIGITS]
    return len(digits) == _TIME_DIGITS and set(digits) <= set("0123456789abcdef")


class GCFindings:
    """Findings of runs on one repository."""

    def __init__(self, block: BlockStore, runs: GCRuns, repository: Repository) -> None:
        self._block = block
        self._runs = runs
        self._repository = repository

    def found_us(self, path: str) -> int:
        """Return the end of the first observation of an object as garbage; 0 if none."""
        address = self._repository.namespace.address(state_path(self._repository.unique_id))
        try:
            state = decode_state(self._block.read(address), file=str(address))
        except ObjectNotFound:
            return 0
        files = (file for file in state.files if file.kind is GCResultKind.OBJECTS)
        rows = self._rows(state.run_id, files, path)
        return max((row["found_us"] for row in rows), default=0)

    def deleted_by(self, path: str) -> tuple[GCRunID, datetime] | None:
        """Return the run that deleted an object, with its start time, or None if unknown."""
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
        except ObjectNotFound:  # just removed by a later run
            return pa.table({"path": pa.array([], pa.string())})
        return decode_result(data, file.kind, file.content_id, file=str(address))


class GCMarkers:
    """Writer of storage markers."""

    def __init__(
        self, engine: Engine, block: BlockStore, runtime: Runtime, settings: CatalogSettings
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._versions = settings.versions

    @traced("catalog.leave_gc_mark")
    def leave(self, repository_id: RepositoryID) -> GCMarker:
        """Write a storage marker, and return it; raise `RepositoryNotFound` or `BlockError`."""
        repository = self._engine.repositories.get(repository_id)
        nonce = self._runtime.random_bytes(16).hex()
        namespace = str(repository.namespace)
        marker = GCMarker(namespace, repository.unique_id, nonce, self._versions)
        self._block.put(repository.namespace.address(marker_path(marker)), [nonce.encode()])
        return marker
