"""A recorded lakeFS: its storage, and its answers over a real connection; see README.md."""

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from tests.clients.migrate.served import answering

FOLDER: Final = Path(__file__).parent
NAMESPACE: Final = "old/lake"
"""The folder of the repository in the storage."""
_API: Final = "/api/v1"
_REPOSITORY: Final = "/repositories/lake"


class Recording:
    """What was recorded, with the storage below a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        with tarfile.open(FOLDER / name) as archive:
            archive.extractall(folder, filter="data")
        self.objects = folder / "objects"
        self.told: dict[str, Any] = json.loads((folder / "recorded.json").read_text())
        self.root: str = self.told["root"]
        """The root of the storage where it was recorded."""
        self.truth: dict[str, dict[str, Any]] = self.told["truth"]
        """What lakeFS answered at the end, by request."""
        self.sha256: dict[str, str] = self.told["sha256"]
        """Checksums of the objects at the end, by ref and path."""
        self.phase = "last"
        """The answers to give: those of "first", "last" or "users"."""
        self.asked: list[str] = []
        """Requests that were answered."""

    def ask(self, path: str, **query: str) -> Any:
        """Return what lakeFS answered at the end."""
        return self.truth[name_of("GET", path, query)]["body"]

    def results(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return the items of a listing at the end."""
        results: list[dict[str, Any]] = self.ask(path, **query)["results"]
        return results

    def canonical(self, address: str) -> str:
        """Return an address of lakeFS with a path below the root instead of one on the disk.

        lakeFS tells the root twice if the entry has an absolute path.
        """
        below = address.removeprefix(f"local://{self.root}")
        return address if below == address else f"local:/{below.removeprefix(self.root)}"

    @contextmanager
    def served(self) -> Iterator[str]:
        """Answer as lakeFS did; yield the endpoint."""

        def answer(method: str, url: str) -> tuple[int, Any]:
            path, _, query = url.removeprefix(_API).removeprefix(_REPOSITORY).partition("?")
            name = name_of(method, path, dict(parse_qsl(query)))
            self.asked.append(name)
            if path.startswith("/metadata/object/"):
                file = self.objects / NAMESPACE / "_lakefs" / path.rpartition("/")[2]
                return 200, file.read_bytes()
            found = self.told[self.phase].get(name)
            if found is None:
                return 500, {"message": f"{name} was not recorded"}
            return found["status"], found["body"]

        with answering(answer) as endpoint:
            yield endpoint


def name_of(method: str, path: str, query: Mapping[str, Any]) -> str:
    """Return the name of an answer: the request, without sizes and starts of pages."""
    told = sorted((key, str(value)) for key, value in query.items() if value != "")
    kept = urlencode([pair for pair in told if pair[0] not in {"amount", "task_id"}])
    return f"{method} {path}?{kept}"
