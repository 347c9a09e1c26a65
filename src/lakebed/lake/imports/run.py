"""Execution of one import: list, write ranges, publish.

Listings are sorted by path, and a destination is a prefix of these paths. So entries arrive in
order of their keys and are written directly to ranges, without sorting, and with only a few pages
and the open ranges in memory.

A checkpoint, the metarange of the closed ranges, is regularly stored and recorded. A process that
takes over the import continues after the checkpoint's last key.

The record of the import is leased:

- *Canceling* makes the next change by the running process fail.
- *Publishing.* The id of each commit is recorded before the branch is swapped to it. From then on
  the import cannot be canceled, and a process that takes it over first searches for that commit
  (`Publisher.find_published`), so that it is never published twice.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import Address, BlockStore, Namespace, ObjectInfo, ObjectNotFound
from lakebed.engine.commits.requests import CommitRequest, Replacement
from lakebed.engine.committed import Ingest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import BranchNotFound
from lakebed.engine.leases import LeasedRecord
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository
from lakebed.formats import MetaRangeID
from lakebed.formats.files import one_array
from lakebed.formats.imported import ImportedPage, imported_object, imported_page
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import InvalidImport, NothingToImport
from lakebed.lake.imports.listing import list_in_order
from lakebed.lake.imports.sources import ImportSource, check_places, source_of
from lakebed.lake.imports.validation import check_entries

SKIPPED_SHOWN_MAX: Final = 100
"""Maximum number of skipped objects whose addresses are stored; others are only counted."""

Edit = Callable[[pb.Import], None]
"""Changes a record; must be idempotent."""


class LeasedImport(LeasedRecord[pb.Import]):
    """An import leased by this process."""

    def take_up(self) -> bool:
        """Take the lease of the import; return False if another process was faster."""

        def count(message: pb.Import) -> None:
            message.attempts += 1

        return self.take(count)

    def _is_running(self, message: pb.Import) -> bool:
        return message.state == pb.IMPORT_STATE_RUNNING


PAGE_ROWS: Final = 1 << 16
PAGE_SECONDS: Final = 1.0
"""A page ends after this many rows or this time; then progress is recorded."""

# Write a checkpoint after this many more ranges, but at least a sixteenth more: little work is lost
# when a process dies, and checkpoints cost less than the ranges themselves.
_SAVE_RANGES_MIN: Final = 4
_SAVE_PART: Final = 16

LAST_IMPORT_KEY: Final = ".lakefs.last.import.timestamp"

_LOGGER: Final = logging.getLogger(__name__)


class ImportRun:
    """One import, executed by this process."""

    def __init__(
        self,
        engine: Engine,
        block: BlockStore,
        runtime: Runtime,
        repository: Repository,
        leased: LeasedImport,
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._repository = repository
        self._leased = leased
        self._sources = [source_of(each) for each in leased.message.sources]

    def run(self) -> None:
        """Complete the import.

        Raises `LeaseLostError` if the import was canceled, or taken over by another process.
        """
        record = self._leased.message
        branch = self._engine.branches.get(self._repository, BranchID(record.branch))
        if branch.unique_id != record.branch_unique_id:
            raise BranchNotFound(branch.id)
        if record.dry_run:
            self._count_all()
            return
        published = self._find_published(branch)
        if published is None:
            check_places(self._engine, self._sources)
            metarange_id = MetaRangeID(record.metarange_id) or self._make_metarange()
            check_places(self._engine, self._sources)
            published = self._publish(metarange_id)
        commit_id = published
        # New commits are recorded before publishing: any other is the previous head.
        is_unchanged = commit_id not in self._leased.message.offered_commit_ids
        if not is_unchanged:
            self._note_time(commit_id)

        def end(message: pb.Import) -> None:
            message.state = pb.IMPORT_STATE_DONE
            message.commit_id = commit_id
            message.unchanged = is_unchanged

        self._leased.change(end)

    def _count_all(self) -> None:
        """End a dry run: list the objects, and write nothing but the record."""
        check_places(self._engine, self._sources)
        self._note_strays()
        count, skipped = 0, _Skipped(self._leased.message)
        for page in self._pages(b""):
            self._skip(skipped, page)
            count += page.entries.num_rows
            self._note_progress(count, skipped, page.last_folder)

        def end(message: pb.Import) -> None:
            message.state = pb.IMPORT_STATE_DONE

        self._leased.change(end)

    def _note_time(self, commit_id: CommitID) -> None:
        """Record the time of the import in the repository's metadata, where clients read it."""
        created_us = self._engine.commits.get(self._repository, commit_id).created_us
        # The import is published: failing to record the time must not fail the import.
        with suppress(LakebedError):
            self._engine.repositories.set_metadata(
                self._repository.id, put={LAST_IMPORT_KEY: str(created_us // 1_000_000)}
            )

    def _find_published(self, branch: Branch) -> CommitID | None:
        """Return the commit published by an earlier process, or None."""
        offered = [CommitID(each) for each in self._leased.message.offered_commit_ids]
        publisher = self._engine.publisher
        return publisher.find_published(self._repository, branch, offered) if offered else None

    def _make_metarange(self) -> MetaRangeID:
        """Return the metarange of all imported objects, after recording it."""
        self._note_strays()
        record = self._leased.message
        if record.outside:
            metarange_id = MetaRangeID(record.handed_metarange_id)
            count = check_entries(
                self._engine.committed(self._repository).examine(metarange_id), self._sources
            )
        else:
            metarange_id, count = self._ingest()

        def complete(message: pb.Import) -> None:
            message.metarange_id = metarange_id
            message.objects = count

        self._leased.change(complete)
        return metarange_id

    def _note_strays(self) -> None:
        """Count the files at all sources that are not objects.

        Raises `InvalidImport` if the import is strict and such files exist.
        """
        found: dict[str, pb.Strays] = {}
        for source in self._sources:
            if isinstance(source.place, Namespace):
                for place, kind in self._block.list_strays(source.place):
                    if source.selects(place):
                        found.setdefault(kind, pb.Strays(kind=kind, example=place)).count += 1
        if found and self._leased.message.strict:
            raise InvalidImport(
                f"{describe_strays(found.values())} cannot be imported: nothing was imported;"
                " without --strict such files are skipped"
            )

        def note(message: pb.Import) -> None:
            del message.strays[:]
            message.strays.extend(found.values())

        if found or self._leased.message.strays:
            self._leased.change(note)

    def _ingest(self) -> tuple[MetaRangeID, int]:
        """Write the ranges of all imported objects; return their metarange and number."""
        record = self._leased.message
        saved = record.saved_metarange_id
        ingest = self._engine.committed(self._repository).ingest(
            MetaRangeID(saved) if saved else None
        )
        skipped = _Skipped(record)
        next_save = _next_save(ingest)

        def use(page: ImportedPage) -> None:
            nonlocal next_save
            self._skip(skipped, page)
            ingest.add(page.entries)
            self._note_progress(ingest.count, skipped, page.last_folder)
            if ingest.closed_ranges >= next_save:
                self._save(ingest, skipped)
                next_save = _next_save(ingest)

        prefetch(self._runtime, self._pages(ingest.last_key), use)
        return ingest.finish(), ingest.count

    def _note_progress(self, count: int, skipped: "_Skipped", folder: str) -> None:
        def note(message: pb.Import) -> None:
            message.objects = count
            message.current = folder or message.current
            skipped.note(message)

        self._leased.change(note)

    def _save(self, ingest: Ingest, skipped: "_Skipped") -> None:
        saved = ingest.save()
        skipped.fold(saved.last_key)

        def note(message: pb.Import) -> None:
            message.saved_metarange_id = saved.metarange_id
            message.saved_skipped = skipped.saved

        self._leased.change(note)

    def _skip(self, skipped: "_Skipped", page: ImportedPage) -> None:
        if len(page.skipped_keys) and self._leased.message.strict:
            first = page.skipped_addresses[0].as_py()
            raise InvalidImport(
                f"cannot import the object {first!r}, and nothing was imported: its path is too"
                " long, ends in a slash, or has an empty component, '.', '..' or control"
                " characters; use no --strict to skip such objects"
            )
        skipped.add(page)

    def _pages(self, after: bytes) -> Iterator[ImportedPage]:
        """Yield the imported objects after a key, in order of their keys."""
        for source in self._sources:
            interval = source.interval
            if interval.end is not None and interval.end <= after:
                continue
            found = after in interval if after else False
            for page in self._pages_of(source, after if found else b""):
                found = found or page.entries.num_rows > 0
                yield page
            if not found:
                strays = describe_strays(self._leased.message.strays)
                patterns = " that matches the patterns" * bool(source.include or source.exclude)
                raise NothingToImport(f"{source.place}{patterns}", strays)

    def _pages_of(self, source: ImportSource, after: bytes) -> Iterator[ImportedPage]:
        """Yield the objects of a source after a key."""
        place, destination = source.place, source.destination
        if isinstance(place, Address):
            if not after:
                yield imported_object(
                    pa.Table.from_batches([self._head(place).as_listed()]), destination
                )
            return
        start = place.address(after[len(destination) :].decode()) if after else None
        for listed in self._listed(place, start):
            yield imported_page(source.selected(listed), str(place), destination)

    def _head(self, address: Address) -> ObjectInfo:
        try:
            return self._block.head(address)
        except ObjectNotFound as error:
            raise NothingToImport(address) from error

    def _listed(self, namespace: Namespace, after: Address | None) -> Iterator[pa.Table]:
        """Yield the objects of a namespace after an address, in pages."""
        waiting: list[pa.RecordBatch] = []
        begun, rows = self._runtime.monotonic(), 0
        for batch in list_in_order(self._block, self._runtime, namespace, after):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= PAGE_ROWS or self._runtime.monotonic() - begun > PAGE_SECONDS:
                yield pa.Table.from_batches(waiting)
                waiting, rows, begun = [], 0, self._runtime.monotonic()
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _publish(self, metarange_id: MetaRangeID) -> CommitID:
        """Commit the metarange; return the new commit, or the head if nothing changed."""
        record = self._leased.message
        replacement = Replacement(metarange_id, [source.interval for source in self._sources])
        request = CommitRequest(
            committer=record.committer,
            message=record.message,
            metadata=dict(record.metadata),
            allow_empty=not self._sources,  # as in lakeFS
        )

        def note(commit: Commit) -> None:
            def offer(message: pb.Import) -> None:
                if commit.id not in message.offered_commit_ids:
                    message.offered_commit_ids.append(commit.id)

            self._leased.change(offer)

        branch = BranchID(record.branch)
        repository = self._engine.readings.to_write(
            self._repository.id, branch, unique_id=self._repository.unique_id
        ).repository
        commit = self._engine.merger.replace(
            repository,
            branch,
            replacement,
            request,
            branch_unique_id=UniqueID(record.branch_unique_id),
            note=note,
        )
        _LOGGER.info(
            "imported %d objects into branch %s of repository %s, by commit %s",
            record.objects,
            branch,
            self._repository.id,
            commit.id,
        )
        return commit.id


def describe_strays(strays: Iterable[pb.Strays]) -> str:
    """Describe files that are not objects: the number of each kind, with an example."""
    return ", ".join(f"{each.kind} ({each.count}, such as {each.example})" for each in strays)


def prefetch(
    runtime: Runtime, pages: Iterator[ImportedPage], use: Callable[[ImportedPage], None]
) -> None:
    """Use pages in order; prefetch the next page while one is used."""
    page = next(pages, None)
    while page is not None:
        steps: list[Callable[[], ImportedPage | None]] = [
            partial(use, page),
            partial(next, pages, None),
        ]
        _, page = runtime.map_parallel(lambda step: step(), steps, limit=len(steps))


class _Skipped:
    """Skipped objects: their number, and the addresses of the first.

    A checkpoint ends with an entry. So for the objects skipped between two entries, of which there
    may be any number, only the first key and the number are stored.
    """

    def __init__(self, record: pb.Import) -> None:
        self.saved = record.saved_skipped
        """Number of skipped objects before the last checkpoint."""
        self._since: list[tuple[bytes, int]] = []
        self._is_open = False
        """Whether the last row was a skipped object."""
        self._count = self.saved
        self._addresses = list(record.skipped_addresses)[: self.saved]

    def add(self, page: ImportedPage) -> None:
        if not len(page.skipped_keys):
            self._is_open = self._is_open and not page.entries.num_rows
            return
        entries, skipped = one_array(page.entries, "key"), page.skipped_keys.combine_chunks()
        self._count += len(skipped)
        available = SKIPPED_SHOWN_MAX - len(self._addresses)
        self._addresses += page.skipped_addresses.slice(0, max(0, available)).to_pylist()
        keys = pa.concat_arrays([entries, skipped])
        order = pc.sort_indices(keys).to_numpy()
        is_skipped = order >= len(entries)
        begins = np.flatnonzero(is_skipped & ~np.concatenate([[False], is_skipped[:-1]]))
        before = np.cumsum(is_skipped)[begins] - 1
        counts = np.diff(np.append(before, len(skipped))).tolist()
        runs = list(zip(keys.take(pa.array(order[begins])).to_pylist(), counts, strict=True))
        if self._is_open and begins[0] == 0:
            key, count = self._since.pop()
            runs[0] = key, count + runs[0][1]
        self._since += runs
        self._is_open = bool(is_skipped[-1])

    def fold(self, last_key: bytes) -> None:
        """Move objects up to a key into the checkpoint: a takeover continues after that key."""
        self.saved += sum(count for key, count in self._since if key <= last_key)
        self._since = [(key, count) for key, count in self._since if key > last_key]
        self._is_open = self._is_open and bool(self._since)

    def note(self, message: pb.Import) -> None:
        message.skipped = self._count
        del message.skipped_addresses[:]
        message.skipped_addresses.extend(self._addresses)


def _next_save(ingest: Ingest) -> int:
    closed = ingest.closed_ranges
    return closed + max(_SAVE_RANGES_MIN, closed // _SAVE_PART)
