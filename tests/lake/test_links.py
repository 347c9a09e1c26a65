"""Links: an address given out stands for one entry, once, for a while."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from lakebed.block import Address, Namespace, NotSupported
from lakebed.engine.errors import EntryNotFound, PreconditionFailed, Protected, Stale
from lakebed.engine.model import RepositoryID
from lakebed.engine.reading import Reading
from lakebed.engine.staging.writer import Writer, if_absent
from lakebed.kv import StoreUnavailable
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import AddressClosed, AddressTaken, InvalidLink, LinkExpired
from lakebed.lake.keys import LINKS
from lakebed.lake.links import Links, PhysicalAddress
from lakebed.lake.model import ObjectStats
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake


def give_out(lake: Lake, body: str | None = "linked") -> PhysicalAddress:
    """Give out an address, and upload something there."""
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    if body is not None:
        lake.block.put(given.address, [body.encode()])
    return given


def link(lake: Lake, given: PhysicalAddress, **changes: object) -> ObjectStats:
    arguments: dict[str, object] = {
        "branch": MAIN,
        "path": b"a",
        "address": given.address,
        "checksum": "sum",
        **changes,
    }
    return lake.catalog.links.link(REPOSITORY, **arguments)  # type: ignore[arg-type]


def records(lake: Lake) -> list[pb.Link]:
    found = Records(lake.store, LINKS, lake.repository.partition).scan()
    return [record.message for record in found]


def test_an_object_that_a_client_uploaded_is_linked(lake: Lake) -> None:
    given = give_out(lake)
    with pytest.raises(EntryNotFound):
        lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    stats = link(lake, given, content_type="t/t", metadata={"k": "v"}, size=6)
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"a") == stats
    assert (stats.size, stats.checksum, stats.address) == (6, "sum", given.address)
    assert (stats.content_type, stats.metadata) == ("t/t", {"k": "v"})
    assert lake.text("main", b"a") == "linked"
    life = given.expires.timestamp() - lake.clock.now()
    assert life == pytest.approx(lake.settings.link_life_seconds, abs=5)


def test_repeating_answers_the_same_and_stages_nothing(lake: Lake) -> None:
    given = give_out(lake)
    first = link(lake, given)
    lake.upload(b"a", "newer")
    assert link(lake, given) == first
    assert lake.text("main", b"a") == "newer"


@pytest.mark.parametrize(
    "changes", [{"checksum": "other"}, {"metadata": {"k": "v"}}, {"content_type": "o"}, {"size": 7}]
)
def test_linking_again_to_something_else(lake: Lake, changes: dict[str, object]) -> None:
    given = give_out(lake)
    link(lake, given)
    with pytest.raises(InvalidLink, match="already"):
        link(lake, given, **changes)


@pytest.mark.parametrize("changes", [{"branch": DEV}, {"path": b"b"}])
def test_an_address_given_out_for_something_else(lake: Lake, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidLink, match="issued for"):
        link(lake, give_out(lake), **changes)


def test_addresses_that_were_not_given_out(lake: Lake) -> None:
    given = give_out(lake)
    uploaded = lake.catalog.uploads.upload(REPOSITORY, MAIN, b"u", [b"x"]).address
    namespace = lake.repository.namespace
    partition = str(given.address).rsplit("/", 1)[0]
    for address in (
        uploaded,
        namespace.address("elsewhere"),
        Address.parse(f"{partition}/short"),
        Address.parse(str(given.address).replace(lake.repository.unique_id, "ab" * 10)),
        Address.parse(f"{lake.block.scheme}://lake/outside"),
    ):
        with pytest.raises(InvalidLink):
            link(lake, given, address=address)
    # The same uid in another folder: not the address that was given out.
    moved = Address.parse(str(given.address).replace("/branches/main/", "/branches/dev/"))
    with pytest.raises(InvalidLink):
        link(lake, given, address=moved)


def test_an_object_that_is_not_there_or_not_of_that_size(lake: Lake) -> None:
    given = give_out(lake, None)
    with pytest.raises(InvalidLink, match="upload the object before"):
        link(lake, given)
    lake.block.put(given.address, [b"xyz"])
    with pytest.raises(InvalidLink, match="3 bytes"):
        link(lake, given, size=4)
    assert link(lake, given, size=3).size == 3


def test_a_link_expires(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    given = give_out(lake)
    lake.clock.ahead_seconds += lake.settings.link_life_seconds
    with caplog.at_level(logging.INFO, "lakebed.lake"), pytest.raises(LinkExpired):
        link(lake, given)
    assert "link refused in repository lake: repos/" in caplog.text
    assert not lake.exists(b"a")


def test_a_link_that_was_consumed_in_time_and_staged_too_late(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = give_out(lake)
    head = lake.block.head

    def slow(address: Address) -> object:
        found = head(address)
        lake.clock.ahead_seconds += lake.settings.min_age_seconds / 2
        return found

    monkeypatch.setattr(type(lake.block), "head", lambda _self, address: slow(address))
    with pytest.raises(Stale):
        link(lake, given)
    assert not lake.exists(b"a")


def test_expired_links_are_forgotten_and_others_are_not(lake: Lake) -> None:
    expired = lake.reclaim.expired
    link(lake, give_out(lake))
    given = give_out(lake)
    lake.clock.ahead_seconds += lake.settings.link_life_seconds
    assert expired.links(lake.repository) == 0, "a request may still be about to stage"
    give_out(lake)
    lake.clock.ahead_seconds += lake.settings.longest_request_seconds + lake.settings.skew_seconds
    assert expired.links(lake.repository) == 2
    assert len(records(lake)) == 1
    with pytest.raises(InvalidLink):
        link(lake, given)
    assert lake.text("main", b"a") == "linked"


def test_a_link_whose_request_died_can_be_repeated_while_its_object_is_fresh(lake: Lake) -> None:
    given = give_out(lake)
    lake.upload(b"a", "there")
    with pytest.raises(PreconditionFailed):
        link(lake, given, condition=if_absent)
    lake.clock.ahead_seconds += lake.settings.longest_hold_seconds - 60
    assert lake.reclaim.expired.links(lake.repository) == 0
    link(lake, given)
    assert lake.text("main", b"a") == "linked"


def test_a_link_whose_request_died_is_forgotten_when_nobody_may_stage_it(lake: Lake) -> None:
    given = give_out(lake)
    lake.upload(b"a", "there")
    with pytest.raises(PreconditionFailed):
        link(lake, given, condition=if_absent)
    margin = lake.settings.longest_request_seconds + lake.settings.skew_seconds
    lake.clock.ahead_seconds += lake.settings.longest_hold_seconds + margin + 1
    assert lake.reclaim.expired.links(lake.repository) == 1


@pytest.mark.parametrize("consumed", [False, True])
def test_a_link_that_was_ended_is_refused(lake: Lake, *, consumed: bool) -> None:
    given = give_out(lake)
    if consumed:
        lake.upload(b"a", "there")
        with pytest.raises(PreconditionFailed):
            link(lake, given, condition=if_absent)
    (upload,) = lake.reclaim.unfinished.list(REPOSITORY)
    lake.reclaim.unfinished.end(REPOSITORY, upload.id)
    with pytest.raises(InvalidLink, match="was ended by an operator: request another address"):
        link(lake, given)
    assert lake.exists(b"a") is consumed


def test_a_link_that_is_ended_while_it_is_staged_is_taken_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = give_out(lake)
    lake.upload(b"a", "before")
    (upload,) = lake.reclaim.unfinished.list(REPOSITORY)
    reread = Writer._reread

    def end_first(self: Writer, *args: Any) -> Reading:
        assert lake.text("main", b"a") == "linked"
        lake.reclaim.unfinished.end(REPOSITORY, upload.id)
        return reread(self, *args)

    monkeypatch.setattr(Writer, "_reread", end_first)
    with pytest.raises(Stale):
        link(lake, given)
    assert lake.text("main", b"a") == "before"


def test_a_link_on_a_condition(lake: Lake) -> None:
    given = give_out(lake)
    lake.upload(b"a", "there")
    with pytest.raises(PreconditionFailed):
        link(lake, given, condition=if_absent)
    assert lake.text("main", b"a") == "there"
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    link(lake, given, condition=if_absent)
    assert lake.text("main", b"a") == "linked"


def test_a_link_on_a_condition_is_repeated_after_a_lost_reply(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is there, and the record does not say so yet."""
    given = give_out(lake)
    with monkeypatch.context() as patch:
        patch.setattr(Links, "_record_staged", lose)
        with pytest.raises(StoreUnavailable):
            link(lake, given, condition=if_absent)
    assert lake.text("main", b"a") == "linked"
    link(lake, given, condition=if_absent)
    assert lake.text("main", b"a") == "linked"
    lake.upload(b"a", "other")
    link(lake, given, condition=if_absent)  # it was staged: that is the answer from now on
    assert lake.text("main", b"a") == "other"


def test_a_repeated_link_does_not_replace_what_another_put(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = give_out(lake)
    with monkeypatch.context() as patch:
        patch.setattr(Links, "_record_staged", lose)
        with pytest.raises(StoreUnavailable):
            link(lake, given, condition=if_absent)
    lake.upload(b"a", "other")
    with pytest.raises(PreconditionFailed):
        link(lake, given, condition=if_absent)
    assert lake.text("main", b"a") == "other"


def lose(*_args: object) -> None:
    raise StoreUnavailable("the process died here")


def test_protected_branches_give_out_and_link_nothing(lake: Lake) -> None:
    given = give_out(lake)
    lake.engine.protection.set(lake.repository, ["main"])
    with pytest.raises(Protected):
        link(lake, given)
    with pytest.raises(Protected):
        give_out(lake, None)


def test_a_storage_that_signs_nothing(lake: Lake) -> None:
    with pytest.raises(NotSupported):
        lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a", presign=True)


# Objects that lie elsewhere


def test_a_foreign_object_is_staged_where_it_lies(lake: Lake) -> None:
    place = Address.parse(f"{lake.block.scheme}://lake/elsewhere/x")
    lake.block.put(place, [b"abroad"])
    written = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    stats = lake.catalog.external.stage(
        REPOSITORY, MAIN, b"a", place, checksum="c", size=6, mtime=written, metadata={"k": "v"}
    )
    assert stats == lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    assert (stats.mtime, stats.address) == (written, place)
    assert lake.text("main", b"a") == "abroad"


@pytest.mark.parametrize("path", ["x", "a/b/c", "_lakebed/owner", "/", "//"])
def test_addresses_in_a_namespace_are_not_foreign(lake: Lake, path: str) -> None:
    other = Namespace.parse(f"{lake.block.scheme}://lake/deep/other")
    lake.engine.repositories.create("other", other, committer="ann")
    for namespace in (other, lake.repository.namespace):
        with pytest.raises(AddressTaken):
            lake.catalog.external.stage(
                REPOSITORY, MAIN, b"a", namespace.address(path), checksum="c", size=1
            )
    lake.engine.repositories.delete(RepositoryID("other"))
    with pytest.raises(AddressClosed):
        lake.catalog.external.stage(
            REPOSITORY, MAIN, b"a", other.address(path), checksum="c", size=1
        )


@pytest.mark.parametrize("path", ["lake-2/x", "lak", "deep/x"])
def test_neighbours_of_a_namespace_are_foreign(lake: Lake, path: str) -> None:
    place = Address.parse(f"{lake.block.scheme}://lake/{path}")
    lake.catalog.external.stage(REPOSITORY, MAIN, b"a", place, checksum="c", size=1)
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"a").address == place


def test_an_address_that_no_storage_here_serves(lake: Lake) -> None:
    with pytest.raises(ValueError, match="cannot be staged"):
        lake.catalog.external.stage(
            REPOSITORY, MAIN, b"a", Address.parse("gs://bucket/x"), checksum="c", size=1
        )
