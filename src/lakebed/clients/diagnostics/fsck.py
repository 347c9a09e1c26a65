"""The deep check of a repository: read every file of every commit and verify its id.

Also check that every address is valid in the storage. The check is read-only and uncached. A file
shared by several commits is read once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import Message

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import Address, BlockStore, InvalidAddress, Namespace, StorageUnavailable
from lakebed.clients.diagnostics.records import DamagedRecord, as_text, decode
from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed.files import Cache, Files
from lakebed.engine.committed.walk import map_ahead
from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.keys import (
    BRANCHES,
    COMMITS,
    CREATING,
    GRAVELER,
    REPOSITORIES,
    STAGED_PREFIX,
    TAGS,
)
from lakebed.engine.model import FilesRoot, RepositoryID, repository_partition
from lakebed.engine.refs.commits import TRUSTED_VERSION, compute_id
from lakebed.formats import AddressType, MetaRange, MetaRangeID, RangeID, RangeRef
from lakebed.formats.boundaries import ref_of
from lakebed.formats.layout import metarange_path, range_path
from lakebed.formats.object_paths import WHOLE_PATH_PATTERN
from lakebed.kv import Store
from lakebed.kv.records import Records
from lakebed.lake.keys import PURGES, PURGES_PARTITION

_AT_ONCE: Final = 1000


class Missing(NamedTuple):
    """Entries whose objects are missing in the storage."""

    objects: int = 0
    example: tuple[bytes, str] = (b"", "")
    """The key and the address of the first."""


class StoredObjects:
    """The objects in the namespace of a repository, at the time of one listing.

    Imported objects, outside of the namespace, are not checked. Only a 64-bit hash of each address
    is kept in memory, for hundreds of millions of objects. A hash collision could hide a missing
    object, with a probability of about 1e-9 a check.
    """

    def __init__(self, store: Store, block: BlockStore, namespace: Namespace) -> None:
        self._store = store
        self._namespace = namespace
        batches = block.list_objects(namespace)
        hashes = [_hashes(batch.column("address").to_pylist()) for batch in batches]
        self._listed = np.sort(np.concatenate([np.empty(0, np.int64), *hashes]))

    def missing(self, entries: pa.Table) -> Missing:
        """Return the entries whose objects are missing and not purged."""
        own = entries.filter(pc.equal(entries["address_type"], int(AddressType.RELATIVE)))
        addresses = [f"{self._namespace}{each}" for each in own["address"].to_pylist()]
        wanted = _hashes(addresses)
        places = np.searchsorted(self._listed, wanted)
        is_there = np.zeros(len(wanted), bool)
        inside = places < len(self._listed)
        is_there[inside] = self._listed[places[inside]] == wanted[inside]
        rows = np.flatnonzero(~is_there).tolist()
        keys = own["key"].take(pa.array(rows, pa.int64())).to_pylist()
        found = zip(keys, [addresses[row] for row in rows], strict=True)
        unpurged = self._unpurged(found)
        first = next(unpurged, None)
        return Missing() if first is None else Missing(1 + sum(1 for _ in unpurged), first)

    def _unpurged(self, missing: Iterable[tuple[bytes, str]]) -> Iterator[tuple[bytes, str]]:
        missing = iter(missing)
        while some := list(islice(missing, _AT_ONCE)):
            places = [(PURGES_PARTITION, PURGES.prefix + address.encode()) for _, address in some]
            marks = self._store.get_many(places)
            yield from (each for each, mark in zip(some, marks, strict=True) if mark is None)


def _hashes(addresses: list[str]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(hash, addresses), np.int64, len(addresses))


ItemT = TypeVar("ItemT")
MessageT = TypeVar("MessageT", bound=Message)

COMMITS_NAMED: Final = 100
"""The most commits listed for a damage; all are counted."""


@dataclass(slots=True)
class Damage:
    """A detected problem."""

    what: str
    """``commit``, ``metarange``, ``range``, ``branch``, ``tag`` or ``record``."""
    name: str
    """An id, the name of a ref, or the key of a record."""
    problem: str
    commits: list[str] = field(default_factory=list)
    """The first affected commits."""
    commits_touched: int = 0


@dataclass(slots=True)
class FsckReport:
    """Result of a check."""

    repository: str
    commits: int = 0
    unproved: int = 0
    """Commits migrated from lakeFS with an id that cannot be computed from their fields."""
    metaranges: int = 0
    ranges: int = 0
    entries: int = 0
    sampled: bool = False
    """Whether only a sample of the files was read."""
    damages: list[Damage] = field(default_factory=list)


class RepositoryCheck:
    """A check of one repository; with `sample`, of so many random metaranges and ranges."""

    def __init__(
        self,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        repository: str,
        *,
        sample: int | None = None,
    ) -> None:
        record = Records(store, REPOSITORIES, GRAVELER).find(repository.encode())
        if record is None:
            raise RepositoryNotFound(RepositoryID(repository))
        unique_id = UniqueID(record.message.unique_id)
        files_root = FilesRoot(Namespace.parse(record.message.storage_namespace), unique_id)
        self._partition = repository_partition(RepositoryID(repository), unique_id)
        self._store = store
        self._block = block
        self._namespace = files_root.namespace
        self._runtime = runtime
        self._files = Files(block, files_root, runtime, Cache(runtime))
        self._sample = sample
        self._report = FsckReport(repository, sampled=sample is not None)
        self._commits: set[str] = set()
        self._heads: dict[str, list[tuple[str, str]]] = defaultdict(list)
        """The branches and tags at each commit."""
        self._commits_of: dict[MetaRangeID, list[str]] = defaultdict(list)
        """The commits of each metarange."""

    def run(self) -> FsckReport:
        """Read everything; return the damages.

        Raises:
            StoreUnavailable: The database did not respond.
            StorageUnavailable: The storage did not respond, which is not reported as damage.
        """
        self._check_commits()
        self._check_refs()
        refs = self._check_metaranges()
        self._check_ranges(refs)
        if self._sample is None:
            self._check_heads()
        return self._report

    # Records

    def _check_commits(self) -> None:
        parents: dict[str, list[str]] = defaultdict(list)
        for name, commit in self._readable(self._partition, COMMITS.prefix, pb.Commit):
            self._report.commits += 1
            self._commits.add(name)
            if commit.version == TRUSTED_VERSION:
                self._report.unproved += 1
            if not _has_id(commit, name):
                self._add("commit", name, "the id does not match the record", [name])
            for parent in commit.parents:
                parents[parent].append(name)
            self._commits_of[MetaRangeID(commit.metarange_id)].append(name)
        for missing in sorted(parents.keys() - self._commits):
            self._add("commit", missing, "missing parent commit", parents[missing])

    def _check_refs(self) -> None:
        for name, branch in self._readable(self._partition, BRANCHES.prefix, pb.Branch):
            if branch.state != CREATING:
                self._note_head("branch", name, branch.commit_id)
            for token in (branch.staging_token, *branch.sealed_tokens):
                self._check_staged(token.encode())
        for name, tag in self._readable(self._partition, TAGS.prefix, pb.Tag):
            if tag.state != CREATING:
                self._note_head("tag", name, tag.commit_id)

    def _note_head(self, what: str, name: str, commit_id: str) -> None:
        if commit_id in self._commits:
            self._heads[commit_id].append((what, name))
        else:
            self._add(what, name, f"its commit {commit_id} is missing")

    def _check_staged(self, token: bytes) -> None:
        for name, cell in self._readable(token, STAGED_PREFIX, Message) if token else ():
            if isinstance(cell, pb.ProposedEntry):
                self._check_entry(token, name, cell.value)
                self._check_entry(token, name, cell.proposal)
            elif isinstance(cell, pb.StagedEntry):
                self._check_entry(token, name, cell)

    def _check_entry(self, token: bytes, name: str, staged: pb.StagedEntry) -> None:
        entry = staged.entry
        problem = self._address_problem(entry.address, entry.address_type)
        if staged.identity and problem:
            record = f"{as_text(token)} {as_text(STAGED_PREFIX)}{name}"
            self._add("record", record, f"invalid address {entry.address!r}: {problem}")

    def _readable(
        self, partition: bytes, prefix: bytes, message_type: type[MessageT]
    ) -> Iterator[tuple[str, MessageT]]:
        """Yield the readable records of a kind; report the others."""
        for item in self._store.scan(partition, prefix):
            if not item.key.startswith(prefix):
                return
            try:
                message = decode(partition, item)
            except DamagedRecord as error:
                self._add("record", f"{as_text(partition)} {as_text(item.key)}", str(error))
                continue
            assert isinstance(message, message_type)
            yield as_text(item.key[len(prefix) :]), message

    # Files

    def _check_metaranges(self) -> dict[RangeID, RangeRef]:
        """Read the metaranges; return their ranges."""
        refs: dict[RangeID, RangeRef] = {}
        wanted = self._drawn(sorted(self._commits_of))
        for metarange_id, read in map_ahead(self._runtime, self._read_metarange, wanted):
            if isinstance(read, str):
                path, commits = metarange_path(metarange_id), self._commits_of[metarange_id]
                self._add("metarange", str(metarange_id), f"{path}: {read}", commits)
                continue
            self._report.metaranges += 1
            refs.update((ref.range_id, ref) for ref in read.refs)
        return refs

    def _read_metarange(self, metarange_id: MetaRangeID) -> tuple[MetaRangeID, MetaRange | str]:
        try:
            return metarange_id, self._files.load_metarange(metarange_id)
        except StorageUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - reported as damage
            return metarange_id, _error_text(error)

    def _check_ranges(self, refs: dict[RangeID, RangeRef]) -> None:
        damaged: dict[RangeID, str] = {}
        wanted = self._drawn(sorted(refs))
        for range_id, read in map_ahead(
            self._runtime, lambda each: self._read_range(refs[each]), wanted
        ):
            self._report.ranges += 1
            if isinstance(read, str):
                damaged[range_id] = read
            else:
                self._report.entries += read
        touched = self._commits_with(damaged) if damaged else {}
        for range_id, problem in damaged.items():
            path = range_path(range_id)
            self._add("range", str(range_id), f"{path}: {problem}", touched[range_id])

    def _read_range(self, ref: RangeRef) -> tuple[RangeID, int | str]:
        try:
            entries = self._files.load_range(ref.range_id).combine_chunks()
            if not entries.num_rows or ref_of(entries) != ref:
                return ref.range_id, "the content does not match its metarange"
        except StorageUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - reported as damage
            return ref.range_id, _error_text(error)
        unreadable = self._unreadable(entries)
        return ref.range_id, unreadable or entries.num_rows

    def _unreadable(self, entries: pa.Table) -> str:
        """Describe the entries with invalid addresses; empty if none."""
        addresses, types = entries.column("address"), entries.column("address_type")
        is_issued = pc.and_(
            pc.equal(types, int(AddressType.RELATIVE)),
            pc.match_substring_regex(addresses, WHOLE_PATH_PATTERN),
        )
        others = entries.select(["key", "address", "address_type"]).filter(pc.invert(is_issued))
        problems = [
            f"entry {quoted(row['key'])} has the invalid address {row['address']!r}: {problem}"
            for row in others.to_pylist()
            if (problem := self._address_problem(row["address"], row["address_type"]))
        ]
        more = f", and {len(problems) - 1:,} more such entries" if len(problems) > 1 else ""
        return f"{problems[0]}{more}" if problems else ""

    def _address_problem(self, text: str, kind: int) -> str:
        relative = kind == int(AddressType.RELATIVE)
        try:
            address = self._namespace.address(text) if relative else Address.parse(text)
            self._block.check_address(address)
        except InvalidAddress as error:
            return str(error)
        return ""

    # Objects

    def _check_heads(self) -> None:
        """Find the branches and tags with objects that are missing in the storage."""
        # Listed after the refs were read, so their objects were stored before the listing.
        stored = StoredObjects(self._store, self._block, self._namespace)
        missing_in: dict[RangeID, Missing] = {}
        for metarange_id, commit_ids in self._commits_of.items():
            refs = [ref for commit_id in commit_ids for ref in self._heads[commit_id]]
            _, read = self._read_metarange(metarange_id) if refs else (metarange_id, "")
            if isinstance(read, str):
                continue  # no refs, or already reported
            new = [each.range_id for each in read.refs if each.range_id not in missing_in]
            missing_in.update(
                map_ahead(self._runtime, lambda each: self._missing_in(stored, each), new)
            )
            missing = [missing_in[ref.range_id] for ref in read.refs]
            count = sum(each.objects for each in missing)
            if count:
                key, address = next(each.example for each in missing if each.objects)
                problem = (
                    f"the data of {count} of its objects is missing in the storage, such as"
                    f" {quoted(key)} at {address}"
                )
                for what, name in refs:
                    self._add(what, name, problem)

    def _missing_in(self, stored: StoredObjects, range_id: RangeID) -> tuple[RangeID, Missing]:
        try:
            return range_id, stored.missing(self._files.load_range(range_id))
        except StorageUnavailable:
            raise
        except Exception:  # noqa: BLE001 - already reported
            return range_id, Missing()

    def _commits_with(self, damaged: Iterable[RangeID]) -> dict[RangeID, list[str]]:
        """Map damaged ranges to their commits, by reading the metaranges again."""
        touched: dict[RangeID, list[str]] = {range_id: [] for range_id in damaged}
        for metarange_id, read in map_ahead(
            self._runtime, self._read_metarange, sorted(self._commits_of)
        ):
            if not isinstance(read, str):
                for ref in read.refs:
                    if ref.range_id in touched:
                        touched[ref.range_id] += self._commits_of[metarange_id]
        return touched

    def _drawn(self, items: list[ItemT]) -> list[ItemT]:
        if self._sample is None or len(items) <= self._sample:
            return items
        places = {int(self._runtime.random() * len(items)) for _ in range(self._sample)}
        return [items[place] for place in sorted(places)]

    def _add(self, what: str, name: str, problem: str, commits: Iterable[str] = ()) -> None:
        touched = sorted(commits)
        self._report.damages.append(
            Damage(what, name, problem, touched[:COMMITS_NAMED], len(touched))
        )


def _has_id(commit: pb.Commit, name: str) -> bool:
    """Return whether the id of a commit record matches its fields."""
    try:
        return compute_id(commit) == name
    except UnicodeDecodeError:  # the nonce of a lakeFS commit is a text
        return False


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__
