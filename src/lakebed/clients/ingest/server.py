"""What an import on Spark asks a server for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lakebed.clients.http.errors import UnexpectedAnswer
from lakebed.clients.http.http import Client
from lakebed.clients.ingest.plan import IngestSource
from lakebed.formats.boundaries import Breaks
from lakebed.formats.gc_files import GCMark
from lakebed.wire.imports import ImportInfo, ImportLocation, ImportQuery, ImportReport, ImportStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An import that was begun, as the server answered."""

    id: str
    mark: GCMark
    local_root: Path | None
    """The folder of a storage on the server's own disk."""
    sources: tuple[IngestSource, ...]
    """In order of their destinations."""
    breaks: Breaks

    @classmethod
    def of(cls, answer: ImportInfo) -> Self:
        """Return what an answer says.

        Raises:
            UnexpectedAnswer: The server does not know imports on Spark.
        """
        if answer.spark is None:
            raise UnexpectedAnswer("the server does not know imports on Spark: it is too old")
        spark = answer.spark
        mark, root = spark.mark, spark.mark.local_root
        return cls(
            id=answer.id,
            mark=GCMark(mark.storage_namespace, mark.unique_id, mark.nonce),
            local_root=None if root is None else Path(root),
            sources=tuple(
                IngestSource(each.place, each.is_prefix, each.destination.encode())
                for each in spark.sources
            ),
            breaks=Breaks(spark.mean_rows, spark.max_rows, spark.max_bytes),
        )


@dataclass(frozen=True, slots=True)
class ImportBranch:
    """Where an import goes."""

    repository: str
    name: str


class ImportReporter:
    """Reports on one import. All requests may be repeated, and raise `ClientError`."""

    def __init__(self, client: Client, branch: ImportBranch, started: Started) -> None:
        """Report to a server; the client should wait while it starts again."""
        self._client = client
        self._branch = branch
        self._id = started.id
        self.paths = [
            ImportLocation(
                type="common_prefix" if source.is_prefix else "object",
                path=source.place,
                destination=source.destination.decode(),
            )
            for source in started.sources
        ]
        """What is imported: a part of each report."""

    def report(self, said: ImportReport) -> ImportStatus:
        """Say how far the job is; return how the import stands."""
        query = ImportQuery(id=self._id)
        return self._client.imports.report(self._branch.repository, self._branch.name, query, said)
