"""Marks of objects purged or about to be purged.

A mark is a record keyed by the full address of an object. It is read

- when an object is missing from the storage, to explain why. Other reads cost nothing.
- by copies of bytes, *after* staging. A purge writes its marks first and searches entries
  afterwards. So either the copy was staged before the search, which finds it; or the copy sees the
  mark, marks its own address, removes its entry again and discards the bytes. (If a commit has
  taken the entry meanwhile, the mark explains the missing bytes.)
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import to_datetime
from lakebed.block import Address, BlockStore, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitExpired, TooManyTries
from lakebed.engine.model import Repository
from lakebed.formats.layout import purges_folder
from lakebed.formats.purge_files import decode_purge
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import MissingBytes, Purged
from lakebed.lake.keys import PURGES, PURGES_PARTITION, copy_of
from lakebed.lake.model import ObjectStats

_TRIES: Final = 10


class PurgeMarks:
    """The purge marks of all repositories."""

    def __init__(self, store: Store) -> None:
        self._records = Records(store, PURGES, PURGES_PARTITION)

    def find(self, address: Address) -> pb.Purge | None:
        """Return the mark of an object, or None."""
        record = self._records.find(_name(address))
        return None if record is None else record.message

    def add(self, address: Address, mark: pb.Purge) -> bool:
        """Mark an object; return False if it already has a mark, which is left unchanged.

        Raises `TooManyTries` or `StoreUnavailable` if the object may not be marked.
        """
        for _ in range(_TRIES):
            try:
                self._records.set_if(_name(address), mark, ABSENT)
            except PredicateFailed:
                return False
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                continue  # retry: if the write succeeded, the predicate fails
            return True
        raise TooManyTries(f"marking {address}", _TRIES)

    def record_purged(self, address: Address, purged_us: int) -> None:
        """Record the deletion time of a marked object; a repeat keeps the first time."""
        record = self._records.find(_name(address))
        if record is None or record.message.purged_us:
            return
        purged = copy_of(record.message)
        purged.purged_us = purged_us
        with suppress(PredicateFailed):  # recorded by a concurrent request
            self._records.set_if(record.name, purged, record.predicate)

    def why_missing(self, path: bytes, address: Address) -> MissingBytes:
        """Return the error for an object without bytes."""
        mark = self.find(address)
        if mark is None:
            return MissingBytes(path, address)
        day = to_datetime(mark.purged_us or mark.requested_us).date()
        return Purged(path, day.isoformat(), mark.reason)

    def check(self, path: bytes, address: Address) -> None:
        """Raise `Purged` if an object is marked."""
        why = self.why_missing(path, address)
        if isinstance(why, Purged):
            raise why

    def watch(self, sources: Iterable[Address], copy: Address) -> "CopyWatch":
        """Return a test, for after staging, that no source of a copy is marked."""
        return CopyWatch(self, list(sources), copy)

    def restore(self, repository: Repository, block: BlockStore) -> int:
        """Recreate the marks from the purge files of a namespace; return the number of new marks.

        Raises `DamagedFile` or `ForeignFile` for an invalid purge file.
        """
        return sum(
            self.add(address, mark)
            for file in _files(repository, block)
            for address, mark in _marks_in(block, file)
        )


class CopyWatch:
    """Test that the sources of a copy are not marked; marks the copy if one is."""

    def __init__(self, marks: PurgeMarks, sources: list[Address], copy: Address) -> None:
        self._marks = marks
        self._sources = sources
        self._copy = copy
        self.mark: pb.Purge | None = None
        """The mark found, or None. If set, the copy is marked too and must not be acknowledged."""

    def __call__(self) -> bool:
        for source in self._sources:
            mark = self._marks.find(source)
            if mark is not None:
                self._marks.add(self._copy, mark)  # before the entry is removed again
                self.mark = mark
                return False
        return True


def _files(repository: Repository, block: BlockStore) -> Iterator[Address]:
    folder = repository.namespace.folder(purges_folder())
    for batch in block.list_objects(folder):
        yield from map(Address.parse, batch.column("address").to_pylist())


def _marks_in(block: BlockStore, file: Address) -> Iterator[tuple[Address, pb.Purge]]:
    try:
        data = block.read(file)
    except ObjectNotFound:
        return
    content_id = file.path.rpartition("/")[2].removesuffix(".parquet")
    for row in decode_purge(data, content_id, file=str(file)).to_pylist():
        mark = pb.Purge(
            purge_id=row["purge_id"],
            reason=row["reason"],
            username=row["username"],
            requested_us=row["requested_us"],
            purged_us=row["purged_us"],
        )
        yield Address.parse(row["address"]), mark


def _name(address: Address) -> bytes:
    return str(address).encode()


def missing_error(engine: Engine, purge_marks: PurgeMarks, stats: ObjectStats) -> LakebedError:
    """Return the error for an object missing from the storage.

    `Purged` if the object was purged, `CommitExpired` if its commit has expired, otherwise
    `MissingBytes`.
    """
    why = purge_marks.why_missing(stats.path, stats.address)
    if stats.seen_at is not None and not isinstance(why, Purged):
        repository, ref = stats.seen_at.repository, stats.seen_at.ref
        try:
            commit = engine.resolver.commit(repository, ref)
            engine.marks.check_sources(repository, [commit.id])
        except CommitExpired as expired:
            return expired
        except LakebedError:
            pass  # the ref has been deleted: the cause is unknown
    return why
