"""Races between garbage collection and those who write, seen by looking at the storage."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakebed.base.runtime import UniqueID
from lakebed.block import Address, LocalSettings
from lakebed.engine.errors import Stale
from lakebed.formats.gc_files import GCRunID
from lakebed.lake.multipart.records import NamedPart, Target
from lakebed.reclaim.collector.job import CollectorOptions
from lakebed.reclaim.prepare import PageLimits
from tests.spark.lakes import MAIN, REPOSITORY, GCLake, LocalServer, local_lake

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(params=["spark", "arrow"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[GCLake]:
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    with local_lake(tmp_path, spark) as lake:
        yield lake


def test_an_entry_that_is_overwritten_while_a_commit_is_under_way(
    lake: GCLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = lake.upload("a", "1")
    new: list[str] = []
    create = lake.lake.block.create_by_content

    def create_late(objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        if not new:
            # The commit has sealed and read what was staged; nobody else can see that entry.
            new.append(lake.upload("a", "2"))
            lake.collect()
        return create(objects)

    monkeypatch.setattr(lake.lake.block, "create_by_content", create_late)
    commit = lake.commit()
    assert new
    lake.collect()
    assert lake.stored() == {old, *new}
    assert lake.lake.text(commit, b"a") == "1"
    assert lake.lake.text("main", b"a") == "2"


def test_a_young_copy_that_is_moved_while_the_server_reads(
    lake: GCLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.reclaim.prepare._RECORDS", 1)
    kept = {lake.upload("m", "1"), lake.upload("z", "2")}

    class Interrupted(LocalServer):
        def prepare(self, unique_id: str) -> GCRunID:
            gc, uid = lake.lake.reclaim.preparation, UniqueID(unique_id)
            limits = PageLimits(objects=1)
            page = gc.prepare_uncommitted(REPOSITORY, unique_id=uid, limits=limits)
            # From where nobody has looked yet to where everybody has.
            copies = lake.lake.catalog.copies
            copies.copy(REPOSITORY, MAIN, b"a", source_ref="main", source_path=b"z")
            lake.delete("z")
            while page.continuation_token is not None:
                page = gc.prepare_uncommitted(
                    REPOSITORY, unique_id=uid, token=page.continuation_token
                )
            self.write_commits(unique_id, page.run_id)
            return page.run_id

    server = Interrupted(lake.lake)
    look = lake.job(server).run(CollectorOptions())
    assert (look.held, look.young, look.waiting) == (1, 1, 0)
    assert lake.stored() == kept  # the copy shares the address
    lake.collect()
    assert lake.stored() == kept
    assert lake.lake.text("main", b"a") == "2"


def test_clients_that_take_their_time(lake: GCLake) -> None:
    """A link that is used at the last second, a long multipart upload, a writer who is too late."""
    catalog = lake.lake.catalog
    kept = {lake.upload("written", "before")}
    upload_id = catalog.multiparts.create(REPOSITORY, MAIN, b"parts").id
    target = Target(REPOSITORY, MAIN, b"parts", upload_id)
    part = catalog.multiparts.put_part(target, 1, [b"all"], size=3)
    link = catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")
    lake.lake.block.put(link.address, [b"straight"])
    kept.add(str(link.address))
    lake.later(5.99)  # of six hours
    lake.run()
    catalog.links.link(REPOSITORY, MAIN, b"linked", link.address, checksum="sum", size=8)

    def slowly() -> Iterator[bytes]:
        yield b"too "
        lake.later(24 * 4)
        lake.run()
        yield b"late"

    before = lake.stored()
    with pytest.raises(Stale):
        catalog.uploads.upload(REPOSITORY, MAIN, b"written", slowly())
    (late,) = lake.stored() - before
    lake.later()
    lake.run()
    stats = catalog.completions.complete(target, [NamedPart(1, part.md5)])
    kept.add(str(stats.address))
    lake.collect()
    assert lake.stored() == kept
    assert late not in kept
    assert lake.lake.text("main", b"written") == "before"
    assert lake.lake.text("main", b"linked") == "straight"
    assert lake.lake.text("main", b"parts") == "all"


def test_a_partition_that_is_still_open_at_the_first_run(lake: GCLake) -> None:
    kept = {lake.upload("a", "1")}
    lake.commit()
    assert lake.run().mode == "clean"
    garbage = lake.upload("b", "2")
    lake.delete("b")
    kept.add(lake.upload("c", "3"))
    lake.commit()
    assert {path.split("/")[-2] for path in kept} == {garbage.split("/")[-2]}
    first, second = lake.collect()
    assert (first.mode, first.waiting) == ("optimized", 1)
    assert (second.mode, second.deleted) == ("optimized", 1)
    assert lake.stored() == kept


def test_a_repository_made_again_in_its_namespace(lake: GCLake) -> None:
    former = {lake.upload("a", "1")}
    lake.commit()
    former.add(lake.upload("b", "2"))
    lake.later(24 * 9)
    lake.run()
    engine, namespace = lake.lake.engine, lake.lake.repository.namespace
    engine.repositories.delete(REPOSITORY)
    engine.repositories.create(REPOSITORY, namespace, committer="ann")
    kept = lake.upload("a", "3")
    lake.commit()
    lake.upload("b", "4")
    lake.delete("b")
    first, second = lake.collect()
    # Nothing is known of it, and nothing of the former one is its own.
    assert (first.mode, first.looked_at, second.deleted) == ("clean", 2, 1)
    assert lake.stored() == {*former, kept}


def test_an_object_that_a_listing_missed(lake: GCLake) -> None:
    """It was lost and brought back, or the listing was behind; its commit is not read again."""
    kept = lake.upload("a", "1")
    lake.commit()
    assert isinstance(lake.settings, LocalSettings)
    file = lake.settings.root / kept.removeprefix("local://")
    file.rename(aside := lake.settings.root / "aside")
    first = lake.run()
    assert (first.mode, first.looked_at, first.committed) == ("clean", 0, 0)
    aside.rename(file)
    look, sweep = lake.collect()
    assert (look.mode, look.committed, sweep.mode) == ("optimized", 1, "optimized")
    assert lake.stored() == {kept}
