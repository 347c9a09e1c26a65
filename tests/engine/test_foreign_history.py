"""Commits and metaranges of another repository are not part of a repository's history."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import LocalSettings, Namespace, open_block
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitNotFound, MetaRangeNotFound, MissingFile
from lakebed.engine.model import BranchID, Commit, RepositoryID
from lakebed.formats import MetaRangeID, metarange_path
from lakebed.kv import Store, open_store
from lakebed.lake.commits import HeadChanges
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation.world import entry

MINE = RepositoryID("mine")
THEIRS = RepositoryID("theirs")
MAIN = BranchID("main")
REQUEST = CommitRequest(committer="tester", message="some")


class TwoRepositories:
    """Two repositories on a real database and a real disk, with engines that share them."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self._store = store
        self.engine = self.another_engine()
        for name in (MINE, THEIRS):
            self.create(name)

    def another_engine(self) -> Engine:
        """The engine of another process, with its own caches."""
        return new_engine(self._store, open_block(LocalSettings(self.folder)))

    def create(self, name: RepositoryID) -> None:
        self.engine.repositories.create(name, Namespace.parse(f"local://{name}/x"), committer="")

    def path(self, name: RepositoryID, path: str) -> Path:
        return self.folder / name / "x" / path

    def commit(self, engine: Engine, name: RepositoryID, key: str = "key") -> Commit:
        staging.put(engine, name, MAIN, entry(key.encode(), "object"))
        return HeadChanges(engine).commit(name, MAIN, REQUEST).commit


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[TwoRepositories]:
    with open_store(f"sqlite:///{tmp_path}/kv.db") as store:
        yield TwoRepositories(tmp_path / "blocks", store)


def commit_metarange(lake: TwoRepositories, metarange_id: MetaRangeID) -> Commit:
    return (
        HeadChanges(lake.engine).commit(MINE, MAIN, REQUEST, source_metarange=metarange_id).commit
    )


# Committing a metarange


@pytest.mark.parametrize("metarange_id", ["0" * 64, "", "../../theirs/x/_lakebed/metaranges/0"])
def test_a_metarange_that_nobody_made_is_refused(lake: TwoRepositories, metarange_id: str) -> None:
    head = lake.commit(lake.engine, MINE)
    with pytest.raises(
        MetaRangeNotFound, match=f"repository mine has the metarange '{metarange_id}"
    ):
        commit_metarange(lake, MetaRangeID(metarange_id))
    assert lake.engine.branches.get(lake.engine.repositories.get(MINE), MAIN).commit_id == head.id
    assert len(list(lake.engine.commits.list(lake.engine.repositories.get(MINE)))) == 2


def test_the_metarange_of_another_repository_is_refused(lake: TwoRepositories) -> None:
    lake.commit(lake.engine, MINE, "mine")
    theirs = lake.commit(lake.engine, THEIRS, "secret")
    staging.list_entries(lake.engine, THEIRS, MAIN, EntryQuery())  # now it is in the cache
    with pytest.raises(MetaRangeNotFound, match=theirs.metarange_id):
        commit_metarange(lake, theirs.metarange_id)
    # A file in our namespace does not make the metarange ours.
    path = metarange_path(theirs.metarange_id)
    shutil.copy(lake.path(THEIRS, path), lake.path(MINE, path))
    with pytest.raises(MetaRangeNotFound, match=theirs.metarange_id):
        commit_metarange(lake, theirs.metarange_id)


def test_a_metarange_of_an_earlier_commit_is_committed_again(lake: TwoRepositories) -> None:
    first = lake.commit(lake.engine, MINE, "a")
    lake.commit(lake.engine, MINE, "b")
    again = commit_metarange(lake, first.metarange_id)
    assert again.metarange_id == first.metarange_id
    page = staging.list_entries(lake.engine, MINE, MAIN, EntryQuery())
    assert [item.key for item in page.items] == [b"a"]


@pytest.mark.parametrize("folder", ["metaranges", "ranges"])
def test_a_metarange_whose_files_are_gone_is_refused(lake: TwoRepositories, folder: str) -> None:
    first = lake.commit(lake.engine, MINE, "a")
    head = lake.commit(lake.engine, MINE, "b")
    staging.list_entries(
        lake.engine, MINE, first.id, EntryQuery()
    )  # what is cached does not hide it
    shutil.rmtree(lake.path(MINE, f"_lakebed/{folder}"))
    with pytest.raises(MissingFile, match=f"local://mine/x/_lakebed/{folder}/.*parquet"):
        commit_metarange(lake, first.metarange_id)
    assert lake.engine.branches.get(lake.engine.repositories.get(MINE), MAIN).commit_id == head.id


# Caches of one repository say nothing about another


def test_a_commit_of_another_repository_is_not_found(lake: TwoRepositories) -> None:
    theirs = lake.commit(lake.engine, THEIRS)
    repository = lake.engine.repositories.get(THEIRS)
    assert lake.engine.commits.get(repository, theirs.id).id == theirs.id  # now it is in the cache
    with pytest.raises(CommitNotFound):
        lake.engine.commits.get(lake.engine.repositories.get(MINE), theirs.id)


def test_a_repository_made_again_at_the_same_place_writes_all_its_files(
    lake: TwoRepositories,
) -> None:
    """Also where another process, which knew the old repository, makes the commit."""
    other = lake.another_engine()
    lake.commit(lake.engine, MINE)
    staging.list_entries(other, MINE, MAIN, EntryQuery())
    for engine in (lake.engine, other):
        lake.engine.repositories.delete(MINE)
        shutil.rmtree(lake.path(MINE, ""))
        lake.create(MINE)
        lake.commit(engine, MINE)
        for reader in (lake.engine, other, lake.another_engine()):
            page = staging.list_entries(reader, MINE, MAIN, EntryQuery())
            assert [item.key for item in page.items] == [b"key"]
