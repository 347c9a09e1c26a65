"""Marks of objects that were purged, or are about to be.

A mark is a record under the whole address of an object. Two kinds of readers look at it:

- who finds that an object is not in the storage, to say why. Nobody else pays for it.
- who copies bytes, *after* the copy is staged. The purge writes its marks first and searches
  afterwards. So either the copy was staged before the search, which finds it; or it sees the mark,
  marks its own address, takes the entry back and discards the bytes. (A commit may have taken the
  entry meanwhile. Then the mark says why there are no bytes.)
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from lakebed.base.runtime import to_datetime
from lakebed.block import Address, BlockStore, ObjectNotFound
from lakebed.engine.errors import TooManyTries
from lakebed.engine.model import Repository
from lakebed.formats.layout import purges_folder
from lakebed.formats.purge_files import decode_purge
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import MissingBytes, Purged
from lakebed.lake.keys import PURGES, PURGES_PARTITION, copy_of

_TRIES: Final = 10


class PurgeMarks:
    """The marks of all repositories."""

    def __init__(self, store: Store) -> None:
        self._records = Records(store, PURGES, PURGES_PARTITION)

    def find(self, address: Address) -> pb.Purge | None:
        """Return the mark of an object, if it has one."""
        record = self._records.find(_name(address))
        return None if record is None else record.message

    def add(self, address: Address, mark: pb.Purge) -> bool:
        """Mark an object; return False if it has a mark, which stays as it is.

        Raises:
            TooManyTries, StoreUnavailable: It may not be marked.
        """
        for _ in range(_TRIES):
            try:
                self._records.set_if(_name(address), mark, ABSENT)
            except PredicateFailed:
                return False
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                continue  # if it was written, the next try finds it
            return True
        raise TooManyTries(f"marking {address}", _TRIES)

    def note_purged(self, address: Address, purged_us: int) -> None:
        """Note that the bytes of a marked object are gone; a repeat keeps the first time."""
        record = self._records.find(_name(address))
        if record is None or record.message.purged_us:
            return
        purged = copy_of(record.message)
        purged.purged_us = purged_us
        with suppress(PredicateFailed):  # another request has noted it
            self._records.set_if(record.name, purged, record.predicate)

    def why_missing(self, path: bytes, address: Address) -> MissingBytes:
        """Return the error that the bytes of an object are not there."""
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
        """Return a test for the freshness of a copy: none of its sources is marked."""
        return CopyWatch(self, list(sources), copy)

    def restore(self, repository: Repository, block: BlockStore) -> int:
        """Mark again what the files in a namespace say was purged there; return how many.

        Raises:
            DamagedFile, ForeignFile: A file does not say what was purged.
            BlockError: The storage refused or failed.
        """
        return sum(
            self.add(address, mark)
            for file in _files(repository, block)
            for address, mark in _marks_in(block, file)
        )


class CopyWatch:
    """Looks whether what was copied is to be purged, each time it is called."""

    def __init__(self, marks: PurgeMarks, sources: list[Address], copy: Address) -> None:
        self._marks = marks
        self._sources = sources
        self._copy = copy
        self.mark: pb.Purge | None = None
        """The mark that it saw: the copy has it too by now, and must not be acknowledged."""

    def __call__(self) -> bool:
        for source in self._sources:
            mark = self._marks.find(source)
            if mark is not None:
                self._marks.add(self._copy, mark)  # before the entry is taken back
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
