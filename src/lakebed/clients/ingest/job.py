"""An import on Spark, from the listing to the metarange.

1. Executors list the objects, directory by directory, into files. These files are the only input
   of the next steps, so later changes of the objects do not matter.
2. The driver splits the files into parts, after keys that end a range.
3. Executors turn each part into entries, cut these into ranges and store the ranges.
4. The driver stores the metarange, reports it to the server, and removes the files of step 1.

Meanwhile, a thread reports the progress every two seconds, and ends the job if the import was
canceled. A job that dies has published nothing: the server fails its import after a minute. The
driver's memory grows with the number of ranges and files, not of objects.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from lakebed.base.errors import LakebedError
from lakebed.block import Address
from lakebed.clients.http.errors import ClientError
from lakebed.clients.ingest.errors import ImportEnded
from lakebed.clients.ingest.executors import (
    FOUND,
    LISTING_RANGES,
    PARTS,
    REFS,
    SKIPPED_SHOWN_MAX,
    cut_parts,
    list_found,
)
from lakebed.clients.ingest.plan import ListedFile, ListingRange, in_order, listing_ranges, parts
from lakebed.clients.ingest.server import ImportReporter, Started, heartbeats
from lakebed.formats import (
    MetaRangeID,
    RangeRef,
    encode_metarange,
    metarange_id,
    metarange_path,
    metarange_table,
)
from lakebed.formats.layout import import_folder
from lakebed.reclaim.collector.executors.read import Transform
from lakebed.reclaim.collector.spark import explained
from lakebed.reclaim.collector.storage import Storage
from lakebed.wire.imports import ImportReport

_PIECES: Final = 8
"""Tasks per core, for even distribution and visible progress."""

_LOGGER: Final = logging.getLogger(__name__)


class IngestJob:
    """One import."""

    def __init__(
        self,
        spark: SparkSession,
        server: ImportReporter,
        storage: Storage,
        started: Started,
        *,
        strict: bool = False,
        print_line: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._spark = spark
        self._server = server
        self._storage = storage
        self._started = started
        self._strict = strict
        self._print_line = print_line
        self._listed = spark.sparkContext.accumulator(0)
        self._cut = spark.sparkContext.accumulator(0)
        self._step = "listing objects"
        self._found: list[ListedFile] = []
        self._ended = ""

    def run(self) -> MetaRangeID:
        """Build the metarange and report it to the server, which publishes it.

        Raises:
            IngestError: The import was aborted; see `lakebed.clients.ingest.errors`.
            ExecutorFailed: An executor failed.
            LakebedError: The storage or the server failed.
        """
        try:
            with self._alive(), explained():
                made = self._make()
            self._hand(made)
        except LakebedError as error:
            self._report_failure(str(error))
            raise
        except BaseException:
            self._report_failure("the Spark job failed: see its own output")
            raise
        finally:
            self._remove_listing()
        return made

    def _make(self) -> MetaRangeID:
        planned = list(listing_ranges(self._storage.block, self._started.sources, self._width))
        self._note(f"Listing objects in {len(planned)} key ranges…")
        self._found = self._list(planned)
        files = in_order(self._found, planned, self._started.sources)
        cut = list(parts(files, self._width))
        self._step = "writing ranges"
        self._note(f"Found {self._count} objects. Writing ranges in {len(cut)} parts…")
        rows = [
            (
                part.after,
                part.upto,
                [
                    (planned[file.listing_range].source, file.name, file.content_id)
                    for file in part.files
                ],
            )
            for part in cut
        ]
        transform = cut_parts(
            self._storage,
            self._started.id,
            self._started.sources,
            self._started.breaks,
            self._cut.add,
        )
        refs = [RangeRef(*row) for row in self._mapped(rows, PARTS, transform, REFS).collect()]
        return self._store_metarange(sorted(refs, key=lambda ref: ref.min_key))

    def _list(self, planned: Sequence[ListingRange]) -> list[ListedFile]:
        rows = [
            (number, listing_range.source, listing_range.after, listing_range.upto)
            for number, listing_range in enumerate(planned)
        ]
        transform = list_found(
            self._storage,
            self._started.id,
            self._started.sources,
            self._started.breaks,
            self._listed.add,
            strict=self._strict,
        )
        found = self._mapped(rows, LISTING_RANGES, transform, FOUND).collect()
        return [ListedFile(**row.asDict()) for row in found]

    def _mapped(
        self, rows: Sequence[tuple[object, ...]], schema: str, transform: Transform, result: str
    ) -> DataFrame:
        """Apply a transform to a few rows, distributed over all executors."""
        self._check_not_ended()
        frame = self._spark.createDataFrame(rows, schema)
        return frame.repartition(min(len(rows), self._width)).mapInArrow(transform, result)

    @property
    def _width(self) -> int:
        return self._spark.sparkContext.defaultParallelism * _PIECES

    @property
    def _count(self) -> int:
        return sum(each.rows for each in self._found)

    def _store_metarange(self, refs: Sequence[RangeRef]) -> MetaRangeID:
        table = metarange_table(refs)
        made = metarange_id(table)
        address = self._storage.namespace.address(metarange_path(made))
        self._storage.block.create_by_content([(address, encode_metarange(table))])
        return made

    # Reports to the server

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Send heartbeats to the server, and end the job if the import has ended."""
        context, group = self._spark.sparkContext, f"lakebed import {self._started.id}"

        def end(why: str) -> None:
            self._ended = why
            context.cancelJobGroup(group)

        context.setJobGroup(group, group, interruptOnCancel=True)
        try:
            with heartbeats(self._server, self._progress, end):
                yield
        except Exception:
            self._check_not_ended()
            raise
        self._check_not_ended()

    def _check_not_ended(self) -> None:
        if self._ended:
            raise ImportEnded(f"the import has ended: {self._ended}") from None

    def _progress(self, *, metarange_id: str = "", error: str = "") -> ImportReport:
        addresses = (address for each in self._found for address in each.skipped_addresses)
        return ImportReport(
            paths=self._server.paths,
            objects=self._count or int(self._listed.value),
            current_prefix=self._step,
            skipped_objects=sum(each.skipped for each in self._found),
            skipped=list(islice(addresses, SKIPPED_SHOWN_MAX)),
            metarange_id=metarange_id,
            error=error,
        )

    def _hand(self, made: MetaRangeID) -> None:
        self._note("Server: checking and publishing the ranges…")
        status = self._server.report(self._progress(metarange_id=made))
        if error := status.error:
            raise ImportEnded(f"the import has ended: {error.message}")

    def _report_failure(self, why: str) -> None:
        """Report a failure; without the report, the server times out."""
        with suppress(ClientError):
            self._server.report(self._progress(error=why))

    def _remove_listing(self) -> None:
        """Remove the listing files; the server removes leftovers later."""
        block, namespace = self._storage.block, self._storage.namespace
        try:
            for batch in block.list_objects(namespace.folder(import_folder(self._started.id))):
                for address in batch.column("address").to_pylist():
                    block.delete(Address.parse(address))
        except LakebedError as error:
            _LOGGER.warning("cannot remove the files of the listing: %s", error)

    def _note(self, line: str) -> None:
        _LOGGER.info("import %s: %s", self._started.id, line)
        self._print_line(line)
