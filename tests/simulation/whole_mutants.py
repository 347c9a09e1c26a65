"""Dumps and uses of repositories with one rule broken each: the simulation must find them.

Each function plants its mutant through a `pytest.MonkeyPatch`.
"""

from copy import copy

import pytest

from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore
from lakebed.engine import reading
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import RefNotFound
from lakebed.engine.keys import COMMITS
from lakebed.engine.model import Repository, RepositoryID
from lakebed.engine.reading import Reading, Readings
from lakebed.engine.refs import dump
from lakebed.engine.repositories.repositories import Repositories
from lakebed.formats import DumpManifest
from lakebed.kv import Item, Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Record, Records
from lakebed.testing.faults import FaultyStore
from tests.kit import engines


def remember_repositories(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process reads the record of a repository once, and never again."""
    get = Repositories.get

    def remembered(self: Repositories, repository: RepositoryID) -> Repository:
        known: dict[RepositoryID, Repository] = self.__dict__.setdefault("mutant", {})
        if repository not in known:
            known[repository] = get(self, repository)
        return known[repository]

    monkeypatch.setattr(Repositories, "get", remembered)


def trust_the_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read in one call does not check whether the branch changed."""
    monkeypatch.setattr(reading, "_is_unchanged", lambda before, after: None not in (before, after))


class _Trusting:
    """Repositories as a process last saw them."""

    def __init__(self, inner: Repositories) -> None:
        self._inner = inner
        self.last_seen = inner.last_seen

    def from_item(self, repository: RepositoryID, item: Item | None, read_at: float) -> Repository:
        seen = self.last_seen(repository)
        if item is None or seen is None:
            return self._inner.from_item(repository, item, read_at)
        return seen[1]


def trust_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of a key in one call does not check whether the repository changed."""
    of_ref = Readings.of_ref

    def trusting(
        self: Readings, repository_id: RepositoryID, ref: str, key: bytes | None = None
    ) -> Reading:
        readings = copy(self)
        if key is not None:
            monkeypatch.setattr(readings, "_repositories", _Trusting(self._repositories))
        try:
            return of_ref(readings, repository_id, ref, key)
        except RefNotFound:
            return of_ref(self, repository_id, ref, key)

    monkeypatch.setattr(Readings, "of_ref", trusting)


class _CommitsFromBefore(FaultyStore):
    """Shows the commits that existed when this store was made."""

    def __init__(self, inner: Store, repository: Repository, runtime: Runtime) -> None:
        super().__init__(inner, lambda _call, apply: apply())
        self._commits = MemoryStore(runtime)
        for record in Records(inner, COMMITS, repository.partition).scan():
            key = COMMITS.prefix + record.name
            self._commits.set(repository.partition, key, record.message.SerializeToString())

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Item]:
        if start.startswith(COMMITS.prefix):
            return self._commits.scan_page(partition, start, limit, end)
        return super().scan_page(partition, start, limit, end)


def dump_commits_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump reads the commits before the branches that name them."""
    dump_refs = dump.dump_refs

    def commits_first(
        store: Store, block: BlockStore, runtime: Runtime, repository: Repository
    ) -> DumpManifest:
        before = _CommitsFromBefore(store, repository, runtime)
        return dump_refs(before, block, runtime, repository)

    monkeypatch.setattr(engines, "dump_refs", commits_first)


def dump_what_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump does not check whether its repository was deleted meanwhile."""

    def unchecked(store: Store, repository: Repository) -> Record[pb.Repository]:
        del store, repository
        return Record(b"", pb.Repository(), b"")  # type: ignore[arg-type]

    monkeypatch.setattr(dump, "active_record", unchecked)
