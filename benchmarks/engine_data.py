"""An engine on sqlite and local storage, and entries staged in it by the million."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.committed_data import numbered_entries
from lakebed.block import LocalSettings, Namespace, open_block
from lakebed.engine.build_processes import Builders
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.engine import Engine
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import TOMBSTONE, encode
from lakebed.formats import ENTRY_SCHEMA, AddressType, Entry, entries_of
from lakebed.kv import Store, open_store
from lakebed.kv.registry import serves_one_process
from lakebed.kv.store import puts
from lakebed.lake.commits import HeadChanges

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
STAGED_AT_A_TIME = 10_000
REQUEST = CommitRequest(committer="benchmark", message="everything")


def changes(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys with values that stage these entries."""
    return ((entry.key, encode(entry)) for entry in entries_of(table))


def tombstones(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys with values that remove these entries."""
    return ((key, TOMBSTONE) for key in table.column("key").to_pylist())


@dataclass(frozen=True, slots=True)
class BenchLake:
    """A repository, its engine and its SQLite file."""

    store: Store
    engine: Engine
    repository: Repository
    file: Path

    def stage(
        self,
        tables: Iterable[pa.Table],
        branch: BranchID = MAIN,
        *,
        values: Callable[[pa.Table], Iterable[tuple[bytes, bytes]]] = changes,
    ) -> None:
        """Stage many entries under the token of a branch; faster than writers could."""
        token = self.token(branch)
        for table in tables:
            self.store.write(puts(token, ((STAGED_PREFIX + key, to) for key, to in values(table))))

    def token(self, branch: BranchID = MAIN) -> bytes:
        """The partition that writers write to now."""
        return self.engine.branches.get(self.repository, branch).staging_token.encode()

    def start_worker(self) -> None:
        """Make a large commit on another branch, to start the worker as on a running server."""
        branch = BranchID("elsewhere")
        self.engine.refs.create_branch(LAKE, branch, MAIN)
        self.stage(tables(EngineSettings().large_commit_keys), branch)
        HeadChanges(self.engine).commit(LAKE, branch, REQUEST)

    def bare(self) -> closing[sqlite3.Connection]:
        """Open the file without Lakebed."""
        return closing(sqlite3.connect(self.file))


@contextmanager
def open_lake(folder: Path, url: str | None = None) -> Iterator[BenchLake]:
    """Make an empty repository in a folder that is not there yet, on SQLite or another database."""
    folder.mkdir()
    file = folder / "lakebed.db"
    url, blocks = url or f"sqlite:///{file}", LocalSettings(folder / "blocks")
    with open_store(url) as store, Builders(url, blocks) as workers:
        build = None if serves_one_process(url) else workers.build
        engine = Engine(store, open_block(blocks), build_large=build)
        repository = engine.repositories.create(
            LAKE, Namespace.parse("local://lake/repo"), committer="benchmark"
        )
        yield BenchLake(store, engine, repository, file)


def tables(
    count: int, *, directories: int = 10, version: int = 0, first: int = 0, step: int = 1
) -> Iterator[pa.Table]:
    """Yield every `step`-th of `count` entries in order of their keys, some at a time.

    They are in `directories` directories at the top: ``0/data/…`` and so on.
    """
    for begin in range(0, count, STAGED_AT_A_TIME):
        numbers = pa.array(np.arange(begin + first, min(count, begin + STAGED_AT_A_TIME), step))
        table = numbered_entries(numbers, version=version)
        tops = pc.divide(pc.multiply(numbers, directories), count).cast(pa.string())
        keys = pc.binary_join_element_wise(tops.cast(pa.binary()), table.column("key"), b"/")
        yield table.set_column(0, ENTRY_SCHEMA.field("key"), keys)


def some_entry(key: bytes) -> Entry:
    """An entry that is not there yet."""
    return Entry(
        key=key,
        identity=key,
        address=f"repos/lake/branches/main/partition/{key.decode()}",
        address_type=AddressType.RELATIVE,
        size=1 << 20,
        checksum="d41d8cd98f00b204e9800998ecf8427e",
        mtime=datetime(2026, 1, 1, tzinfo=UTC),
        content_type="application/octet-stream",
        metadata={},
    )
