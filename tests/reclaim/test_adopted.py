"""A repository takes over the objects that it had in lakeFS: they can be deleted from then on."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakebed.block import Address, Namespace
from lakebed.clients.migrate.adopt import adopt
from lakebed.clients.migrate.errors import CannotAdopt
from lakebed.clients.migrate.rounds import MOVED_FROM
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import Invalid, NamespaceTaken
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import MOVED_NAMESPACE, BranchID, CommitID, RepositoryID
from lakebed.engine.repositories.ownership import NamespaceOwner
from lakebed.engine.staging.cells import encode, propose
from lakebed.formats import OWNER_PATH, AddressType, Entry, Owner, encode_owner
from lakebed.kv import ABSENT, KVError
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.store import new_version
from lakebed.lake.errors import AddressClosed, AddressTaken, Purged
from lakebed.lake.model import new_entry
from lakebed.reclaim.collector.errors import NotTheOwner
from lakebed.reclaim.collector.job import CollectorOptions
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.retention import RetentionRules
from lakebed.testing.faults import FaultyStore
from tests.engine.test_dump import FailAt
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, make_lake
from tests.spark.lakes import GCLake, local_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLD = "local://old/lake/"
"""The namespace in lakeFS."""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[GCLake]:
    with local_lake(tmp_path, None) as lake:
        move_in(lake.lake)
        yield lake


def move_in(lake: Lake, namespace: str = OLD) -> None:
    """Note what a last round of `lakebed migrate` notes."""
    noted = {MOVED_FROM: "http://old lake", MOVED_NAMESPACE: namespace}
    lake.engine.repositories.set_metadata(lake.name, put=noted)


def old_object(lake: Lake, name: str) -> str:
    """Write an object of lakeFS; return its address."""
    lake.block.put(Address.parse(f"{OLD}{name}"), [name.encode()])
    return f"{OLD}{name}"


def stage(lake: Lake, path: str, name: str, branch: BranchID = MAIN) -> str:
    """Stage an entry for an object of lakeFS, as the last round does; return its address."""
    address = old_object(lake, name)
    entry = new_entry(
        path.encode(), address, address_type=AddressType.FULL, size=len(name), checksum="",
        modified=0, content_type="", metadata={},
    )  # fmt: skip
    staging.put(lake.engine, REPOSITORY, branch, entry)
    return address


def there(lake: Lake, folder: str = OLD) -> set[str]:
    """The addresses of all objects of lakeFS that are left."""
    listed = lake.block.list_objects(Namespace.parse(folder))
    found = {text for batch in listed for text in batch.column("address").to_pylist()}
    return found - {f"{OLD}data/{OWNER_PATH}"}


def test_only_what_nothing_references_is_deleted(lake: GCLake) -> None:
    check_collection(lake)


@pytest.mark.slow
@pytest.mark.extended
@pytest.mark.timeout(600)
def test_the_same_on_spark(tmp_path: Path, spark: "SparkSession") -> None:
    with local_lake(tmp_path, spark) as lake:
        move_in(lake.lake)
        check_collection(lake)


@pytest.mark.parametrize("adopted", [False, True])
def test_expiring_commits_say_that_nothing_is_freed_before_the_adoption(
    adopted: bool, lake: GCLake, caplog: pytest.LogCaptureFixture
) -> None:
    opened = lake.lake
    stage(opened, "a", "data/p/a")
    for path in ("b", "c"):
        lake.upload(path)
        lake.commit()
    if adopted:
        adopt(opened.engine, "lake")
    retention = opened.reclaim.retention
    retention.set_rules(REPOSITORY, RetentionRules(2))
    lake.later(24 * 9)
    assert retention.expire(REPOSITORY, max_share=1.0).marked
    told = f"without freeing the objects of lakeFS below {OLD}: adopt them"
    assert (told in caplog.text) is not adopted


def check_collection(lake: GCLake) -> None:
    opened = lake.lake
    committed = stage(opened, "a", "data/p/committed")
    old = stage(opened, "b", "data/p/old")
    imported = stage(opened, "c", "in/imported")
    first = lake.commit()
    lake.delete("b")
    own = lake.upload("own")
    lake.commit()
    staged = stage(opened, "d", "data/q/staged", DEV)
    garbage, strangers = (old_object(opened, name) for name in ("data/q/garbage", "other/x"))
    everything = {committed, old, imported, staged, garbage, strangers}
    opened.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    # Before, nothing of lakeFS is touched, and that is said.
    for _ in range(2):
        lake.later(24 * 9)
        summary = lake.run()
        assert summary.left_alone == OLD
        assert f"Objects of lakeFS below {OLD} are kept" in summary.sentence()
        assert "lakebed migrate adopt lakefs://lake" in summary.sentence()
    assert opened.engine.marks.is_expired(opened.repository, CommitID(first))
    assert there(opened) == everything
    adopt(opened.engine, "lake")
    # As young as the adoption: who took an address before it has ended when they are old enough.
    young = lake.run()
    assert (young.mode, young.waiting, young.left_alone) == ("clean", 0, "")
    assert "lakeFS" not in young.sentence()
    lake.later(24 * 9)
    first_look = lake.run(CollectorOptions(clean=True))
    assert (first_look.waiting, first_look.deleted) == (2, 0)
    lake.later()
    second_look = lake.run()
    assert (second_look.mode, second_look.deleted) == ("optimized", 2)
    assert there(opened) == everything - {old, garbage}
    # An object that was staged over is garbage, too, once the write over it cannot be undone: the
    # next write shows that.
    for _ in range(2):
        stage(opened, "d", "data/q/newer", DEV)
    for _ in range(2):
        lake.later(24 * 9)
        lake.run()
    assert staged not in there(opened)
    assert lake.stored() == {own}
    # And what a commit that expires later referenced.
    lake.delete("a")
    lake.commit()
    for _ in range(4):
        lake.later(24 * 9)
        lake.run()
    assert there(opened) == {imported, strangers, f"{OLD}data/q/newer"}


def test_objects_are_deleted_only_while_the_namespace_is_the_repositorys(lake: GCLake) -> None:
    opened = lake.lake
    garbage = old_object(opened, "data/garbage")
    adopt(opened.engine, "lake")
    lake.later(24 * 9)
    lake.run()
    place = Namespace.parse(f"{OLD}data").address(OWNER_PATH)
    opened.block.put(place, [encode_owner(Owner("elsewhere", "other", "ff"))])
    lake.later()
    with pytest.raises(NotTheOwner):
        lake.run()
    assert there(opened) == {garbage}


def test_an_unreadable_address_stops_runs_of_adopted_objects(lake: GCLake) -> None:
    """It may be that of an adopted object: these have no path by which it could be told."""
    opened = lake.lake
    adopt(opened.engine, "lake")
    entry = new_entry(
        b"bad", "local:///mnt/old/lake/data/x", address_type=AddressType.FULL, size=1, checksum="",
        modified=0, content_type="", metadata={},
    )  # fmt: skip
    staging.put(opened.engine, REPOSITORY, MAIN, entry)
    with pytest.raises(
        ValueError, match="an entry has an unreadable address 'local:///mnt/old/lake/data/x'"
    ):
        lake.run()


def test_purges_delete_what_was_adopted(lake: GCLake) -> None:
    opened = lake.lake
    opened.reclaim.purges._settle_seconds = 0.01
    address = stage(opened, "a", "data/a")
    imported = stage(opened, "b", "in/b")
    first = lake.commit()
    lake.delete("a")
    lake.commit()
    query = PurgeQuery("prefix", b"")
    before = opened.reclaim.purges.plan(REPOSITORY, query)
    assert (before.objects, before.elsewhere.count) == (0, 2)
    assert before.adoptable.startswith(f"2 objects of lakeFS below {OLD} were kept")
    adopt(opened.engine, "lake")
    after = opened.reclaim.purges.plan(REPOSITORY, query)
    assert (after.objects, after.elsewhere.first, after.adoptable) == (1, [imported], "")
    done = opened.reclaim.purges.purge(REPOSITORY, query, reason="asked for", username="ada")
    assert (done.deleted, done.failed.count) == (1, 0)
    assert there(opened) == {imported}
    assert address not in there(opened)
    with pytest.raises(Purged, match="asked for"):
        opened.text(first, b"a")


def test_no_entry_takes_an_adopted_address_afresh(lake: GCLake) -> None:
    opened = lake.lake
    stage(opened, "staged", "data/staged")
    stage(opened, "committed", "data/committed")
    lake.commit()
    staged = stage(opened, "staged", "data/staged-later")
    adopt(opened.engine, "lake")
    copies, get = opened.catalog.copies, partial(staging.get, opened.engine)
    for path in (b"staged", b"committed"):
        copies.copy(REPOSITORY, MAIN, path + b"-2", source_ref="main", source_path=path)
    # A commit keeps the object as long as it has not expired; a staged entry may go at any time.
    assert get(REPOSITORY, MAIN, b"committed-2").address == f"{OLD}data/committed"
    assert get(REPOSITORY, MAIN, b"staged-2").address_type is AddressType.RELATIVE
    with pytest.raises(AddressTaken):
        opened.catalog.external.stage(
            REPOSITORY, MAIN, b"x", Address.parse(staged), checksum="", size=1
        )


def test_why_an_adopted_object_stays_is_explained(lake: GCLake) -> None:
    opened = lake.lake
    stage(opened, "a", "data/a")
    commit_id = lake.commit()
    garbage = old_object(opened, "data/garbage")
    explain = opened.reclaim.explanations
    (foreign,) = explain.object(REPOSITORY, "main", b"a").reasons
    assert "runs never delete it" in foreign
    adopt(opened.engine, "lake")
    found = explain.object(REPOSITORY, "main", b"a")
    assert found.verdict == "kept"
    assert any(f"Commit {commit_id} references it" in each for each in found.reasons)
    assert explain.address(REPOSITORY, Address.parse(garbage)).verdict == "going"


# The protocol


def test_two_repositories_cannot_adopt_one_namespace(lake: GCLake) -> None:
    opened = lake.lake
    other = make_lake(opened.store, opened.block, name=RepositoryID("other"))
    move_in(other)
    for name in ("lake", "other"):
        with pytest.raises(CannotAdopt, match="was migrated from local://old/lake/ too"):
            adopt(opened.engine, name)
    # Also if one moved in before its namespace was noted, under another name of the server.
    opened.engine.repositories.set_metadata(
        other.name, put={MOVED_FROM: "http://also-old lake"}, remove=[MOVED_NAMESPACE]
    )
    with pytest.raises(CannotAdopt, match="repository other was migrated from"):
        adopt(opened.engine, "lake")
    # Also if what is noted does not tell.
    move_in(other, "local://old/another/")
    opened.engine.repositories.set_metadata(other.name, put={MOVED_FROM: "http://old another"})
    adopt(opened.engine, "lake")
    move_in(other)
    for namespace in (f"{OLD}data/", f"{OLD}data/deeper/", "local://old/"):
        place = Namespace.parse(namespace)
        with pytest.raises(NamespaceTaken, match="repository lake keeps its data there"):
            opened.engine.repositories.adopt(other.name, place)
    # A refusal leaves no claim: who adopts there afterwards is not in its way.
    free = Namespace.parse("local://old/free")
    opened.engine.repositories.create("free", free, committer="ann")
    with pytest.raises(NamespaceTaken):
        opened.engine.repositories.create("third", Namespace.parse(OLD), committer="ann")


def reference_staged(other: Lake, address: str) -> str:
    staging.put(other.engine, other.name, MAIN, whole(address))
    return "branch main"


def reference_replaced(other: Lake, address: str) -> str:
    reference_staged(other, address)
    other.catalog.uploads.upload(other.name, MAIN, b"x", [b"y"])
    return "branch main"


def reference_proposed(other: Lake, address: str) -> str:
    """A write that died before its proposal was accepted."""
    branch = other.engine.branches.get(other.repository, MAIN)
    cell = propose(None, encode(whole(address)), new_version(other.clock))
    other.store.set(branch.tokens[0].encode(), STAGED_PREFIX + b"x", cell)
    return "branch main"


def reference_committed(other: Lake, address: str) -> str:
    reference_staged(other, address)
    commit_id = commit(other)
    staging.delete(other.engine, other.name, MAIN, b"x")
    commit(other)
    return f"commit {commit_id}"


def whole(address: str) -> Entry:
    return new_entry(
        b"x", address, address_type=AddressType.FULL, size=1, checksum="", modified=0,
        content_type="", metadata={},
    )  # fmt: skip


def commit(lake: Lake) -> CommitID:
    request = CommitRequest(committer="ann", message="m")
    return lake.catalog.commits.commit(lake.name, MAIN, request).commit.id


@pytest.mark.parametrize(
    "reference", [reference_staged, reference_replaced, reference_proposed, reference_committed]
)
def test_objects_that_another_repository_references_are_not_adopted(
    lake: GCLake, reference: Callable[[Lake, str], str]
) -> None:
    opened = lake.lake
    other = make_lake(
        opened.store, opened.block, name=RepositoryID("other"), namespace="local://2/x"
    )
    place = reference(other, old_object(opened, "data/x"))
    with pytest.raises(CannotAdopt, match=f"{place} of repository other references 'x'"):
        adopt(opened.engine, "lake")
    found = opened.engine.repositories.owners_of(Address.parse(f"{OLD}data/x"))
    assert found == (None, None), "a refusal leaves no claim"
    opened.engine.repositories.delete(other.name)
    adopt(opened.engine, "lake")


def test_an_expired_commit_of_another_repository_does_not_stop_an_adoption(lake: GCLake) -> None:
    opened = lake.lake
    other = make_lake(
        opened.store, opened.block, name=RepositoryID("other"), namespace="local://2/x"
    )
    reference_committed(other, old_object(opened, "data/x"))
    marks = other.engine.marks.records(other.repository)
    for each in list(other.engine.commits.list(other.repository)):
        mark = pb.Expiry(state=pb.EXPIRY_STATE_EXPIRED, expired_us=1)
        marks.set_if(each.id.encode(), mark, ABSENT)
    adopt(opened.engine, "lake")


def test_a_namespace_that_is_given_must_be_referenced(lake: GCLake) -> None:
    """Else it is misspelled, and would be taken from another lake."""
    opened = lake.lake
    opened.engine.repositories.set_metadata(opened.name, put={}, remove=[MOVED_NAMESPACE])
    stage(opened, "a", "in/a")
    with pytest.raises(CannotAdopt, match="no object below local://old/lake/data/ is referenced"):
        adopt(opened.engine, "lake", Namespace.parse(OLD))
    stage(opened, "b", "data/b")
    assert adopt(opened.engine, "lake", Namespace.parse(OLD)).namespace.prefix == "lake/data/"
    assert adopt(opened.engine, "lake", Namespace.parse(OLD)).namespace.prefix == "lake/data/"


def test_a_repository_cannot_adopt_its_own_namespace(lake: GCLake) -> None:
    """Its own objects would be listed as adopted ones, too, and their paths would not be read."""
    opened = lake.lake
    own = lake.upload("own")
    lake.commit()
    move_in(opened, "local://lake/")
    with pytest.raises(Invalid, match="it keeps its own data in local://lake/data/"):
        adopt(opened.engine, "lake")
    for near in ("local://lake/", "local://lake/data/p"):
        with pytest.raises(Invalid, match="it keeps its own data in local://lake/data/"):
            opened.engine.repositories.adopt(opened.name, Namespace.parse(near))
    assert opened.repository.adopted is None
    for _ in range(2):
        lake.later(24 * 9)
        lake.run()
    assert lake.stored() == {own}


def test_another_installation_cannot_adopt_the_namespace(lake: GCLake) -> None:
    opened = lake.lake
    adopt(opened.engine, "lake")
    other = make_lake(
        MemoryStore(opened.clock),
        opened.block,
        name=RepositoryID("second"),
        namespace="local://2/x",
    )
    move_in(other)
    with pytest.raises(NamespaceTaken, match="of another installation"):
        adopt(other.engine, "second")


def test_a_deleted_repository_lets_go_of_the_namespace(lake: GCLake) -> None:
    opened = lake.lake
    adopt(opened.engine, "lake")
    opened.engine.repositories.delete(REPOSITORY)
    other = make_lake(opened.store, opened.block, name=RepositoryID("other"))
    move_in(other)
    assert adopt(other.engine, "other").namespace == Namespace.parse(f"{OLD}data")


def test_adopted_objects_of_a_deleted_repository_cannot_be_staged(lake: GCLake) -> None:
    """A run of the deleted repository may still be deleting there."""
    opened = lake.lake
    garbage = old_object(opened, "data/garbage")
    adopt(opened.engine, "lake")
    make_lake(opened.store, opened.block, name=RepositoryID("other"), namespace="local://2/x")
    other, address = RepositoryID("other"), Address.parse(garbage)
    opened.engine.repositories.delete(REPOSITORY)
    with pytest.raises(AddressClosed):
        opened.catalog.external.stage(other, MAIN, b"x", address, checksum="", size=1)
    repositories = opened.engine.repositories
    assert repositories.former_owner(Namespace.parse(f"{OLD}data/p/")) == "lake"
    assert repositories.former_owner(Namespace.parse(OLD)) == "lake"


def test_a_deletion_during_the_check_of_an_address_is_seen(
    lake: GCLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = lake.lake
    repositories = opened.engine.repositories
    address = opened.repository.namespace.address("data/x")
    lives = repositories._removal.is_live

    def delete_first(owner: NamespaceOwner) -> bool:
        monkeypatch.undo()
        repositories.delete(REPOSITORY)
        return lives(owner)

    monkeypatch.setattr(repositories._removal, "is_live", delete_first)
    assert repositories.owners_of(address) == (None, "lake")


@pytest.mark.parametrize(
    ("noted", "reason"),
    [
        ({}, "was not migrated"),
        ({MOVED_FROM: "x"}, "was not recorded"),
        (
            {MOVED_FROM: "x", MOVED_NAMESPACE: "local://old/other/"},
            "was migrated from local://old/other",
        ),
    ],
)
def test_repositories_not_migrated_from_a_namespace_do_not_adopt_it(
    tmp_path: Path, noted: dict[str, str], reason: str
) -> None:
    with local_lake(tmp_path, None) as lake:
        lake.lake.engine.repositories.set_metadata(REPOSITORY, put=noted)
        given = Namespace.parse(OLD) if MOVED_NAMESPACE in noted else None
        with pytest.raises(CannotAdopt, match=reason):
            adopt(lake.lake.engine, "lake", given)


def test_a_read_only_repository_has_not_moved_in_to_the_end(lake: GCLake) -> None:
    lake.lake.engine.repositories.set_read_only(REPOSITORY, read_only=True)
    with pytest.raises(CannotAdopt, match="--last first"):
        adopt(lake.lake.engine, "lake")


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_an_adoption_that_was_cut_off_is_repeated(lake: GCLake, *, applied: bool) -> None:
    """What died before the record was written owns the place and deletes nothing."""
    opened = lake.lake
    for count in range(1, 50):
        faulty = FaultyStore(opened.store, FailAt(count, applied=applied))
        engine = new_engine(faulty, opened.block, runtime=opened.clock)
        try:
            adopt(engine, "lake")
        except KVError:
            pass
        else:
            break
        if opened.repository.adopted is None:
            adopt(opened.engine, "lake")
        place = Namespace.parse(f"{OLD}data")
        assert opened.repository.adopted is not None
        assert opened.repository.adopted.namespace == place
        assert opened.block.exists(place.address(OWNER_PATH))
        opened.engine.repositories.delete(REPOSITORY)
        opened = make_lake(opened.store, opened.block, namespace="local://lake/data")
        move_in(opened)
    assert count > 2
