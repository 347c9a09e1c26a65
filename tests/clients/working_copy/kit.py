"""Working copies of a server in this process: real ones, on a real disk."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakebed.base.errors import LakebedError
from lakebed.clients.cli.commands.fs.parallel import Outcome
from lakebed.clients.http.http import Client
from lakebed.clients.http.settings import ClientSettings
from lakebed.clients.working_copy import copy
from lakebed.clients.working_copy.copy import (
    SyncSummary,
    Tools,
    WorkingCopy,
    WorkingCopyCommit,
    working_copy,
)
from lakebed.clients.working_copy.folder import OWN_FOLDER
from lakebed.clients.working_copy.state import STATE_FILE, RemotePath
from lakebed.server.app import build
from lakebed.server.services import Services
from lakebed.wire.objects import (
    ForcePathQuery,
    ListQuery,
    ObjectsAPI,
    ObjectStats,
    ReadQuery,
    StatQuery,
)
from lakebed.wire.refs import BranchesQuery, CommitCreation
from lakebed.wire.repositories import RepositoryCreation
from tests.server.kit import ADMIN, server

Files = dict[str, bytes]


class InTurn:
    """Transfers, one after the other, so that tests can count steps; `expected` in all."""

    def __init__(self) -> None:
        self.expected: list[int] = []

    def expect(self, sizes: Iterable[int]) -> None:
        self.expected += sizes

    def run(self, jobs: Iterable[Any], work: Callable[[Any], Any]) -> Iterator[Outcome[Any, Any]]:
        for job in jobs:
            try:
                yield Outcome(job, work(job), None)
            except (LakebedError, OSError) as error:
                yield Outcome(job, None, str(error))


@dataclass(frozen=True)
class Inside:
    """A server in this process, and a client of it."""

    services: Services
    client: Client


@pytest.fixture(scope="session")
def inside() -> Iterator[Inside]:
    """A server in this process; to start one takes longer than most tests."""
    with server() as made:
        settings = ClientSettings("http://lake", ADMIN.access_key_id, ADMIN.secret_access_key)
        client = Client(settings)
        client._http.close()
        client._http = httpx.Client(
            base_url="http://lake/api/v1/",
            auth=(settings.access_key_id, settings.secret_access_key),
            transport=httpx.WSGITransport(app=build(made.services)),
        )
        yield Inside(made.services, client)


class Lake:
    """A new repository, and what tests do to it beside working copies."""

    def __init__(self, inside: Inside, folder: Path) -> None:
        self.folder = folder
        self.services = inside.services
        self.client = inside.client
        self.name = f"lake-{secrets.token_hex(4)}"
        self.source = RemotePath(self.name, "main", "data/")
        namespace = f"mem://lakes/{self.name}"
        self.client.repositories.create(
            RepositoryCreation(name=self.name, storage_namespace=namespace)
        )
        self.transfers = InTurn()
        self.tools = Tools(self.client, self.transfers, lambda _: None, self._cache)

    def _cache(self, root: Path) -> Path:
        return self.folder / f"{root.name}.sqlite"

    def put(self, path: str, content: bytes | str, branch: str = "main", **headers: str) -> None:
        content = content.encode() if isinstance(content, str) else content
        with self.client.open(
            ObjectsAPI.upload.request(self.name, branch, ForcePathQuery(path=path)),
            content=iter([content]),
            headers={"Content-Length": str(len(content)), **headers},
        ):
            pass

    def delete(self, path: str, branch: str = "main") -> None:
        self.client.objects.delete(self.name, branch, ForcePathQuery(path=path))

    def commit(self, branch: str = "main") -> str:
        body = CommitCreation(message="by others", allow_empty=True)
        return self.client.commits.create(self.name, branch, body).id

    def head(self, branch: str = "main") -> str:
        return self.client.branches.get(self.name, branch).commit_id

    def branches(self) -> list[str]:
        found = self.client.branches.list(self.name, BranchesQuery(show_hidden=True))
        return [item.id for item in found.results]

    def stat(self, path: str, ref: str = "main") -> ObjectStats:
        return self.client.objects.stat(self.name, ref, StatQuery(path=path))

    def listed(self, ref: str = "main", prefix: str = "") -> list[ObjectStats]:
        return self.client.objects.list(self.name, ref, ListQuery(prefix=prefix)).results

    def files(self, ref: str = "main", prefix: str = "") -> Files:
        paths = [item.path for item in self.listed(ref, prefix)]
        return {path.removeprefix(prefix): self.read(path, ref) for path in paths}

    def read(self, path: str, ref: str = "main") -> bytes:
        return self.client.objects.get(self.name, ref, ReadQuery(path=path))

    @contextmanager
    def copy(self, root: Path) -> Iterator[WorkingCopy]:
        with working_copy(root, self.tools) as opened:
            yield opened

    def clone(self, root: Path, source: RemotePath | None = None) -> SyncSummary:
        return copy.clone(root, source or self.source, self.tools)

    def pull(self, root: Path, **options: bool) -> SyncSummary:
        with self.copy(root) as opened:
            return opened.pull(**options)

    def commit_copy(self, root: Path, message: str = "mine") -> WorkingCopyCommit | None:
        with self.copy(root) as opened:
            return opened.commit(message, {})

    def status(self, root: Path, **options: bool) -> list[tuple[str, str, str]]:
        with self.copy(root) as opened:
            return [(change.side, change.kind, change.path) for change in opened.status(**options)]


def on_disk(root: Path) -> Files:
    """All files of a folder that are data."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != STATE_FILE and OWN_FOLDER not in path.parts
    }


def write(root: Path, path: str, content: bytes | str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


def edit_unseen(file: Path, content: bytes) -> None:
    """Change a file, and leave its size and times as they were, as far as a process can."""
    before = file.stat()
    assert len(content) == before.st_size
    with file.open("r+b") as opened:
        opened.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
