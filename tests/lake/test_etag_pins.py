"""Objects that were linked before they were there: the first read decides what they are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import Address, Namespace, ObjectInfo, StorageUnavailable
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import RepositoryID
from lakebed.kv import OutcomeUnknown
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import HeadChanges
from lakebed.lake.entry_metadata import for_unverified
from lakebed.lake.errors import ChangedBytes, InvalidLink, MissingBytes
from lakebed.lake.keys import PINS
from lakebed.lake.model import ObjectStats
from lakebed.lake.settings import LinkSettings
from lakebed.reclaim.expired_records import CHECKED_MAX
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, open_lake
from tests.kit.rounds import stores

REQUEST = CommitRequest(committer="ann", message="m")
OTHER = RepositoryID("other")


@pytest.fixture(params=stores("memory", "disk"))
def trusting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    links = LinkSettings(require_object=False)
    with open_lake(request.param, tmp_path, links=links) as opened:
        yield opened


def link(lake: Lake, path: bytes = b"a", size: int | None = 5) -> ObjectStats:
    """Link an address that nothing was written to."""
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, path)
    return lake.catalog.links.link(
        REPOSITORY, MAIN, path, given.address, checksum="sum", size=size, metadata={"k": "v"}
    )


def write(lake: Lake, address: Address, text: str) -> None:
    lake.block.put(address, [text.encode()])


def pins(lake: Lake) -> list[pb.Pin]:
    records = Records(lake.store, PINS, lake.repository.partition).scan()
    return [record.message for record in records]


def test_an_address_is_linked_before_anything_is_there(trusting: Lake) -> None:
    before = trusting.clock.now()
    stats = link(trusting)
    assert (stats.size, stats.checksum, stats.metadata) == (5, "sum", {"k": "v"})
    assert before <= stats.mtime.timestamp() <= trusting.clock.now()
    assert trusting.catalog.objects.stat(REPOSITORY, "main", b"a") == stats
    again = trusting.catalog.links.link(
        REPOSITORY, MAIN, b"a", stats.address, checksum="sum", size=5, metadata={"k": "v"}
    )
    assert again == stats
    with pytest.raises(MissingBytes):
        trusting.text("main", b"a")
    assert pins(trusting) == [], "there was nothing to read"
    write(trusting, stats.address, "first")
    assert trusting.text("main", b"a") == "first"


def test_the_size_of_what_is_not_there_must_be_said(trusting: Lake) -> None:
    with pytest.raises(InvalidLink, match="add size_bytes"):
        link(trusting, size=None)


def test_an_object_that_is_there_is_looked_at_as_ever(trusting: Lake) -> None:
    given = trusting.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    write(trusting, given.address, "there")
    linked = trusting.catalog.links.link
    with pytest.raises(InvalidLink, match="5 bytes"):
        linked(REPOSITORY, MAIN, b"a", given.address, checksum="sum", size=4)
    linked(REPOSITORY, MAIN, b"a", given.address, checksum="sum", size=5)
    assert trusting.catalog.objects.stat(REPOSITORY, "main", b"a").pin is None
    assert trusting.text("main", b"a") == "there"
    assert pins(trusting) == []


def test_by_default_an_object_must_be_there(lake: Lake) -> None:
    with pytest.raises(InvalidLink, match="upload the object before linking it"):
        link(lake)


def test_the_content_first_read_is_required_on_every_ref(trusting: Lake) -> None:
    stats = link(trusting)
    commit = HeadChanges(trusting.engine).commit(REPOSITORY, MAIN, REQUEST).commit
    write(trusting, stats.address, "first")
    assert trusting.text(commit.id, b"a") == "first"
    (pin,) = pins(trusting)
    assert (pin.size, pin.etag) == (5, trusting.block.head(stats.address).etag)
    write(trusting, stats.address, "other")
    for ref in (commit.id, "main"):
        with pytest.raises(ChangedBytes, match="not the one that was read first"):
            trusting.text(ref, b"a")
        found = trusting.catalog.objects.stat(REPOSITORY, ref, b"a")
        with pytest.raises(ChangedBytes):
            trusting.catalog.objects.check_bytes(found)
    trusting.block.delete(stats.address)
    with pytest.raises(MissingBytes):
        trusting.text(commit.id, b"a")
    assert pins(trusting) == [pin]


def test_a_look_before_a_url_is_signed_is_a_first_read(trusting: Lake) -> None:
    stats = link(trusting)
    found = trusting.catalog.objects.stat(REPOSITORY, "main", b"a")
    with pytest.raises(MissingBytes):
        trusting.catalog.objects.check_bytes(found)
    write(trusting, stats.address, "first")
    trusting.catalog.objects.check_bytes(found)
    write(trusting, stats.address, "other")
    with pytest.raises(ChangedBytes):
        trusting.text("main", b"a")


def test_an_object_of_another_length_is_refused_and_not_pinned(trusting: Lake) -> None:
    stats = link(trusting)
    write(trusting, stats.address, "too long")
    with pytest.raises(ChangedBytes, match="has 8 bytes, not 5"):
        trusting.text("main", b"a")
    assert pins(trusting) == []
    write(trusting, stats.address, "right")
    assert trusting.text("main", b"a") == "right"


def test_a_copy_of_the_bytes_is_a_first_read_and_has_no_pin_of_its_own(trusting: Lake) -> None:
    stats = link(trusting)
    namespace = Namespace.parse(f"{trusting.block.scheme}://lake/{OTHER}")
    trusting.engine.repositories.create(OTHER, namespace, committer="ann")
    copy = trusting.catalog.copies.copy
    with pytest.raises(MissingBytes):
        copy(REPOSITORY, DEV, b"b", source_ref="main", source_path=b"a")
    write(trusting, stats.address, "first")
    copied = copy(REPOSITORY, DEV, b"b", source_ref="main", source_path=b"a")
    assert (copied.reserved, len(pins(trusting))) == ({}, 1)
    write(trusting, stats.address, "other")
    with pytest.raises(ChangedBytes, match="read first"):
        copy(
            OTHER, MAIN, b"b", source_repository_id=REPOSITORY, source_ref="main", source_path=b"a"
        )
    assert trusting.text("dev", b"b") == "first"
    write(trusting, copied.address, "again")
    assert trusting.text("dev", b"b") == "again", "the copy was uploaded by the server itself"
    assert len(pins(trusting)) == 1


def test_a_copy_that_shares_the_address_shares_the_pin(trusting: Lake) -> None:
    stats = link(trusting)
    copies = trusting.catalog.copies
    copies.copy(REPOSITORY, MAIN, b"b", source_ref="main", source_path=b"a", metadata={"x": "y"})
    copies.set_metadata(REPOSITORY, MAIN, b"a", {"x": "z"})
    write(trusting, stats.address, "first")
    assert trusting.text("main", b"b") == "first"
    write(trusting, stats.address, "other")
    for path in (b"a", b"b"):
        with pytest.raises(ChangedBytes):
            trusting.text("main", path)
    assert len(pins(trusting)) == 1


def test_the_one_who_comes_second_holds_to_the_pin_of_the_first(
    trusting: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = link(trusting)
    write(trusting, stats.address, "first")
    head = type(trusting.block).head

    def look(block: object, address: Address) -> ObjectInfo:
        """Look; before the reader can write down what it saw, another reads a newer object."""
        found = head(trusting.block, address)
        monkeypatch.undo()
        write(trusting, stats.address, "other")
        assert trusting.text("main", b"a") == "other"
        return found

    monkeypatch.setattr(type(trusting.block), "head", look)
    assert trusting.text("main", b"a") == "other"
    assert [pin.etag for pin in pins(trusting)] == [head(trusting.block, stats.address).etag]


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_reply_is_settled_by_another_look(
    trusting: Lake, monkeypatch: pytest.MonkeyPatch, *, applied: bool
) -> None:
    stats = link(trusting)
    write(trusting, stats.address, "first")
    original = type(trusting.store).set

    def lose(store: object, *args: object, **kwargs: object) -> None:
        monkeypatch.undo()
        if applied:
            original(store, *args, **kwargs)  # type: ignore[arg-type]
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(type(trusting.store), "set", lose)
    assert trusting.text("main", b"a") == "first"
    assert len(pins(trusting)) == 1


def test_a_mark_that_a_user_wrote_makes_no_pin_of_what_lies_elsewhere(lake: Lake) -> None:
    place = Address.parse(f"{lake.block.scheme}://lake/elsewhere/x")
    write(lake, place, "abroad")
    lake.catalog.external.stage(
        REPOSITORY, MAIN, b"a", place, checksum="c", size=6, metadata=for_unverified(place)
    )
    assert lake.text("main", b"a") == "abroad"
    assert pins(lake) == []


# Cleaning


def test_a_pin_is_removed_when_its_object_is_gone_and_old(trusting: Lake) -> None:
    gone, stays, young = (link(trusting, path) for path in (b"a", b"b", b"c"))
    for stats in (gone, stays):
        write(trusting, stats.address, "first")
        assert trusting.text("main", stats.path) == "first"
    trusting.block.delete(gone.address)
    assert trusting.reclaim.expired.run_once().pins == 0, "a URL may write it again"
    settings = trusting.settings
    trusting.clock.ahead_seconds += settings.min_age_seconds + settings.skew_seconds + 10
    assert trusting.reclaim.expired.run_once().pins == 1
    namespace = trusting.repository.namespace
    assert [namespace.address(pin.address) for pin in pins(trusting)] == [stays.address]
    assert young.pin is None


def test_a_pass_looks_for_some_and_the_next_goes_on(
    trusting: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(trusting.store, PINS, trusting.repository.partition)
    issued = [link(trusting, b"%d" % number) for number in range(CHECKED_MAX + 5)]
    namespace = trusting.repository.namespace
    for stats in issued:
        address = namespace.relative(stats.address)
        uid = address.rsplit("/", 1)[1].encode()
        records.set(uid, pb.Pin(address=address, etag="e", size=5))
    settings = trusting.settings
    trusting.clock.ahead_seconds += settings.min_age_seconds + settings.skew_seconds + 10
    clean, repository = trusting.reclaim.expired.pins, trusting.repository
    with monkeypatch.context() as patch:

        def fail(_block: object, _address: Address) -> bool:
            raise StorageUnavailable("away")

        patch.setattr(type(trusting.block), "exists", fail)
        assert clean(repository) == 0
    assert [clean(repository) for _ in range(3)] == [5, CHECKED_MAX, 0]
