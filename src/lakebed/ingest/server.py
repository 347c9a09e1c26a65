"""What an import on Spark asks a server for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lakebed.client.errors import UnexpectedAnswer
from lakebed.client.http import Client
from lakebed.formats.boundaries import Breaks
from lakebed.formats.gc_files import GCMark
from lakebed.ingest.plan import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An import that was begun, as the server answered."""

    id: str
    mark: GCMark
    local_root: Path | None
    """The folder of a storage on the server's own disk."""
    sources: tuple[Source, ...]
    """In order of their destinations."""
    breaks: Breaks

    @classmethod
    def parse(cls, answer: Mapping[str, Any]) -> Self:
        """Return what an answer says.

        Raises:
            UnexpectedAnswer: The server does not know imports on Spark.
        """
        if "spark" not in answer:
            raise UnexpectedAnswer("the server does not know imports on Spark: it is too old")
        spark = answer["spark"]
        mark, root = spark["mark"], spark["mark"].get("local_root")
        return cls(
            id=answer["id"],
            mark=GCMark(mark["storage_namespace"], mark["unique_id"], mark["nonce"]),
            local_root=None if root is None else Path(root),
            sources=tuple(
                Source(each["place"], each["is_prefix"], each["destination"].encode())
                for each in spark["sources"]
            ),
            breaks=Breaks(spark["mean_rows"], spark["max_rows"], spark["max_bytes"]),
        )


@dataclass(frozen=True, slots=True)
class Branch:
    """Where an import goes."""

    repository: str
    name: str

    @property
    def import_path(self) -> tuple[str, ...]:
        """The path of requests about its imports."""
        return "repositories", self.repository, "branches", self.name, "import"


class Server:
    """Reports on one import. All requests may be repeated, and raise `ClientError`."""

    def __init__(self, client: Client, branch: Branch, started: Started) -> None:
        """Report to a server; the client should wait while it starts again."""
        self._client = client
        self._branch = branch
        self._id = started.id
        self._paths = [
            {
                "type": "common_prefix" if source.is_prefix else "object",
                "path": source.place,
                "destination": source.destination.decode(),
            }
            for source in started.sources
        ]

    def report(self, **said: int | str | Sequence[str]) -> dict[str, Any]:
        """Say how far the job is; return how the import stands."""
        answer = self._client.call(
            "PUT",
            *self._branch.import_path,
            query={"id": self._id},
            body={"paths": self._paths, **said},
        )
        if not isinstance(answer, dict):
            raise UnexpectedAnswer("the answer to a report is not one of a Lakebed server")
        return answer
