"""Files of a garbage collection run, in the repository's namespace."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.block import Address, AlreadyExists, BlockStore, ObjectNotFound
from lakebed.engine.model import Repository
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    MANIFEST_NAME,
    RUN_NAME,
    GCFile,
    GCFileKind,
    GCManifest,
    GCPage,
    GCRun,
    GCRunID,
    decode_gc_manifest,
    decode_page,
    decode_run,
    encode_gc_manifest,
    encode_gc_table,
    encode_page,
    encode_run,
    page_name,
)
from lakebed.formats.layout import gc_path, gc_run_folder
from lakebed.lake.errors import InvalidRun

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
        self._create(RUN_NAME, encode_run(run))

    def read_run(self) -> GCRun:
        """Return the description of the run.

        Raises:
            InvalidRun: The repository has no such run.
        """
        data = self._read(RUN_NAME)
        if data is None:
            raise InvalidRun(f"repository {self._repository.id} has no run '{self.run_id}'")
        return decode_run(data, self.run_id, file=str(self._address(RUN_NAME)))

    def create_page(self, page: GCPage) -> GCPage:
        """Write a page unless already written; return the stored page."""
        self._create(page_name(page.number), encode_page(page))
        found = self.find_page(page.number)
        assert found is not None, "it was just written"
        return found

    def find_page(self, number: int) -> GCPage | None:
        """Return a page, or None if not written yet."""
        data = self._read(page_name(number))
        if data is None:
            return None
        return decode_page(data, self.run_id, file=str(self._address(page_name(number))))

    def pages(self) -> Iterator[GCPage]:
        """Yield all pages.

        Raises:
            InvalidRun: The last page is not written yet.
        """
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
        self._create(MANIFEST_NAME, encode_gc_manifest(manifest))

    def find_manifest(self) -> GCManifest | None:
        """Return the manifest, or None if not written yet."""
        data = self._read(MANIFEST_NAME)
        if data is None:
            return None
        return decode_gc_manifest(data, self.run_id, file=str(self._address(MANIFEST_NAME)))

    def put_table(self, kind: GCFileKind, table: pa.Table) -> GCFile:
        """Write a table under a random name."""
        name = f"{kind}-{self._runtime.random_bytes(8).hex()}.parquet"
        data, file = encode_gc_table(kind, table, name)
        self._block.create(self._address(name), data)
        return file

    def _create(self, name: str, data: bytes) -> None:
        with suppress(AlreadyExists):
            self._block.create(self._address(name), data)

    def _read(self, name: str) -> bytes | None:
        try:
            return self._block.read(self._address(name))
        except ObjectNotFound:
            return None

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
