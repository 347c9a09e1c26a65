"""A repository to collect garbage in: a tree of empty files, and the files that name them.

What a server prepares is written here as it would write it, so that runs of garbage collection can
be measured alone. Files are made without fsync.
"""

import os
import stat
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakebed.base.leases import LeaseState
from lakebed.clients.garbage.server import GarbageServer
from lakebed.formats import (
    OWNER_PATH,
    AddressType,
    Owner,
    RangeRef,
    conform_entries,
    encode_metarange,
    encode_owner,
    encode_range,
    metarange_id,
    metarange_path,
    metarange_table,
    range_id,
    range_path,
)
from lakebed.formats.gc_files import (
    GC_SCHEMAS,
    MANIFEST_NAME,
    GCFile,
    GCFileKind,
    GCManifest,
    GCRun,
    GCRunID,
    encode_gc_record,
    encode_gc_table,
)
from lakebed.formats.layout import gc_path
from lakebed.formats.object_paths import ObjectPath, new_object_uid, new_partition

NAMESPACE: Final = "local://lake/data"
UID: Final = "ab" * 10
BRANCHES: Final = 100
FILE_ROWS: Final = 100_000
DAY_US: Final = 24 * 3600 * 1_000_000

_MADE_US: Final = int(datetime(2030, 1, 1, tzinfo=UTC).timestamp() * 1e6)
"""When the first objects are said to have come: later than the files are made."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Some objects that came together: numbers of objects, spread over all branches."""

    start: int
    stop: int
    made_us: int

    @property
    def paths(self) -> list[str]:
        """Their paths in the namespace."""
        return [self._path(number) for number in range(self.start, self.stop)]

    def _path(self, number: int) -> str:
        branch = number % BRANCHES
        partition = new_partition(self.made_us, branch.to_bytes(6))
        uid = new_object_uid(self.made_us + number, number.to_bytes(10))
        return str(ObjectPath(UID, f"branch-{branch}", partition, uid))


@dataclass
class GarbageLake:
    """A repository in a folder; days pass before every preparation."""

    root: Path
    now_us: int = _MADE_US
    objects: int = 0
    _staged: list[Objects] = field(default_factory=list)
    _ranges: list[RangeRef] = field(default_factory=list)
    _commits: list[str] = field(default_factory=list)
    """The metarange of each commit."""

    def __post_init__(self) -> None:
        self._write(OWNER_PATH, encode_owner(Owner("installation", "lake", UID)))

    @property
    def data(self) -> Path:
        """The folder of the namespace."""
        return self.root / "lake" / "data"

    def commit(self, count: int, commits: int) -> None:
        """Add objects by so many commits. Each has a new range, and shares those before."""
        for number in range(commits):
            self._ranges.append(
                self._write_range(
                    self._add(count * (number + 1) // commits - count * number // commits)
                )
            )
            table = metarange_table(self._ranges)
            metarange = metarange_id(table)
            self._write(metarange_path(metarange), encode_metarange(table))
            self._commits.append(metarange)

    def stage(self, count: int) -> None:
        """Add objects that are not committed."""
        self._staged.append(self._add(count))

    def litter(self, count: int) -> None:
        """Add objects that nothing names."""
        self._add(count)

    def prepare(self) -> GCRunID:
        """Write down what is in use, as a server does, when all objects are old enough."""
        self.now_us += 11 * DAY_US
        run_id = GCRunID(f"{self.now_us:036x}")
        addresses = [f"{NAMESPACE}/{path}" for each in self._staged for path in each.paths]
        commits = {
            "id": [f"{number:064}" for number in range(len(self._commits))],
            "metarange_id": self._commits,
        }
        files = [
            *self._write_tables(run_id, GCFileKind.STAGED, {"address": addresses}),
            *self._write_tables(run_id, GCFileKind.COMMITS, commits),
        ]
        run = GCRun(
            run_id=run_id,
            installation_id="installation",
            repository="lake",
            unique_id=UID,
            adopted_unique_ids=(),
            storage_namespace=NAMESPACE,
            began_us=self.now_us,
            cutoff_us=self.now_us - DAY_US,
            gap_us=DAY_US // 24,
            partition_open_us=DAY_US,
            with_uploads=True,
        )
        manifest = GCManifest(run=run, ended_us=self.now_us + 1, files=tuple(files))
        self._write(gc_path(UID, run_id, MANIFEST_NAME), encode_gc_record(manifest))
        return run_id

    def _add(self, count: int) -> Objects:
        added = Objects(self.objects, self.objects + count, self.now_us)
        self.objects += count
        for path in added.paths:
            place = f"{self.data}/{path}"
            try:
                os.mknod(place, stat.S_IFREG | 0o644)
            except FileNotFoundError:
                Path(place).parent.mkdir(parents=True)
                os.mknod(place, stat.S_IFREG | 0o644)
        return added

    def _write_range(self, objects: Objects) -> RangeRef:
        paths, count = objects.paths, objects.stop - objects.start
        keys = [f"{number:012}".encode() for number in range(objects.start, objects.stop)]
        entries = conform_entries(
            pa.table(
                {
                    "key": keys,
                    "identity": keys,
                    "address": paths,
                    "address_type": pa.array([int(AddressType.RELATIVE)] * count, pa.int8()),
                    "size": [0] * count,
                    "checksum": [path[-32:] for path in paths],
                    "mtime": pa.array([objects.made_us] * count).cast(pa.timestamp("us", tz="UTC")),
                    "content_type": ["application/octet-stream"] * count,
                    "metadata": pa.array([[]] * count, pa.map_(pa.string(), pa.string())),
                }
            )
        )
        found = range_id(entries)
        self._write(range_path(found), encode_range(entries))
        return RangeRef(found, keys[0], keys[-1], count, 0)

    def _write_tables(
        self, run_id: GCRunID, kind: GCFileKind, columns: dict[str, list[str]]
    ) -> list[GCFile]:
        table = pa.table(columns, schema=GC_SCHEMAS[kind])
        files = []
        for start in range(0, table.num_rows, FILE_ROWS):
            name = f"{kind}-{start}.parquet"
            data, file = encode_gc_table(kind, table.slice(start, FILE_ROWS), name)
            self._write(gc_path(UID, run_id, name), data)
            files.append(file)
        return files

    def _write(self, path: str, data: bytes) -> None:
        file = self.data / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


class PreparedServer(GarbageServer):
    """A server that has prepared a run of a `GarbageLake`."""

    def __init__(self, run_id: GCRunID) -> None:
        self._run_id = run_id

    def prepare(self, unique_id: str) -> GCRunID:
        assert unique_id == UID
        return self._run_id

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, Any]:
        del unique_id, max_share, dry_run
        return {"ran": True, "commits": 0, "marked": 0, "rescued": 0, "waiting": 0, "expired": 0}

    def take_lease(self, holder: str, over: str) -> LeaseState:
        return LeaseState(holder, over, 3600.0)

    def renew_lease(self, holder: str) -> LeaseState:
        return LeaseState(holder, "", 3600.0)

    def end_run(self, holder: str, *, is_good: bool, next_us: int) -> None:
        pass

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        assert (unique_id, run_id) == (UID, self._run_id)
