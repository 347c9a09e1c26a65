"""Copies share an address that a commit names, or that is young and on their branch."""

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.block import Address, Namespace
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import EntryNotFound, PreconditionFailed, RepositoryNotFound
from lakebed.engine.model import BranchID, RepositoryID, TagID
from lakebed.engine.staging.writer import if_absent
from lakebed.formats import AddressType
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import MissingBytes
from tests.kit import staging
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake

REQUEST = CommitRequest(committer="ann", message="m")
OTHER = RepositoryID("other")


def copy(lake: Lake, ref: str, branch: BranchID, *, source: bytes = b"a", to: bytes = b"b") -> None:
    lake.catalog.copies.copy(REPOSITORY, branch, to, source_ref=ref, source_path=source)


def address(lake: Lake, ref: str, path: bytes) -> Address:
    return lake.catalog.objects.stat(REPOSITORY, ref, path).address


def test_a_copy_on_its_branch_shares_the_address(lake: Lake) -> None:
    lake.catalog.uploads.upload(
        REPOSITORY, MAIN, b"a", [b"x"], content_type="t/t", metadata={"k": "v"}
    )
    copy(lake, "main", MAIN)
    assert address(lake, "main", b"a") == address(lake, "main", b"b")
    stats = lake.catalog.objects.stat(REPOSITORY, "main", b"b")
    assert (stats.content_type, stats.metadata) == ("t/t", {"k": "v"})
    assert lake.text("main", b"b") == "x"


def test_a_copy_of_an_old_object_has_its_own_bytes(lake: Lake) -> None:
    lake.upload(b"a", "x")
    lake.clock.ahead_seconds += lake.settings.copy_window_seconds
    copy(lake, "main", MAIN)
    assert address(lake, "main", b"a") != address(lake, "main", b"b")
    lake.block.delete(address(lake, "main", b"a"))
    assert lake.text("main", b"b") == "x"


def copies_of(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[Address]:
    """From now on: where the storage copied bytes to."""
    made: list[Address] = []
    copy_bytes = lake.block.copy

    def noted(source: Address, destination: Address, **options: object) -> None:
        made.append(destination)
        copy_bytes(source, destination, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.block, "copy", noted)
    return made


def test_a_copy_of_what_is_staged_elsewhere_has_its_own_bytes(lake: Lake) -> None:
    lake.upload(b"a", "x", DEV)
    copy(lake, "dev", MAIN)
    assert address(lake, "main", b"b") != address(lake, "dev", b"a")
    assert f"/branches/{MAIN}/" in str(address(lake, "main", b"b"))
    assert lake.text("main", b"b") == "x"


@pytest.mark.parametrize("ref", ["main", "main@", "main~0", "v1"])
def test_committed_objects_are_shared_at_any_age(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    lake.upload(b"a", "x")
    commit = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit
    lake.catalog.ref_changes.create_tag(REPOSITORY, TagID("v1"), commit.id)
    lake.clock.ahead_seconds += 10 * lake.settings.min_age_seconds
    made = copies_of(lake, monkeypatch)
    for branch in (MAIN, DEV):
        copy(lake, ref, branch)
        assert address(lake, branch, b"b") == address(lake, "main", b"a")
    if ref == "main":
        lake.catalog.copies.set_metadata(REPOSITORY, MAIN, b"a", {"k": "v"})
    assert made == []
    # What was staged over it since is another object, and no commit names that.
    lake.upload(b"a", "y")
    lake.clock.ahead_seconds += lake.settings.copy_window_seconds
    copy(lake, "main", MAIN, to=b"c")
    assert made == [address(lake, "main", b"c")]
    assert lake.text("main", b"c") == "y"


def test_objects_replaceable_by_a_url_are_copied(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake.block, "presigned_put_creates_only", False)  # as with S3
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    lake.block.put(given.address, [b"x"])
    lake.catalog.links.link(REPOSITORY, MAIN, b"a", given.address, checksum="c")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    copy(lake, "main", DEV)
    assert address(lake, "dev", b"b") != given.address
    lake.clock.ahead_seconds += lake.settings.presign_life_seconds + lake.settings.skew_seconds
    copy(lake, "main", DEV, to=b"c")
    assert address(lake, "dev", b"c") == given.address


def test_staged_objects_are_copied_even_if_a_commit_has_the_path(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(b"a", "x")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    lake.upload(b"a", "y")
    made = copies_of(lake, monkeypatch)
    copy(lake, "main$", DEV)
    assert made == [address(lake, "dev", b"b")]


def test_a_copy_to_another_repository(lake: Lake) -> None:
    lake.upload(b"a", "x")
    namespace = Namespace.parse(f"{lake.block.scheme}://lake/{OTHER}")
    other = lake.engine.repositories.create(OTHER, namespace, committer="ann")
    stats = lake.catalog.copies.copy(
        OTHER, MAIN, b"b", source_repository_id=REPOSITORY, source_ref="main", source_path=b"a"
    )
    assert stats.address in other.namespace
    assert lake.bytes_of(OTHER, "main", b"b") == b"x"


def hold_up(lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something right after the next value was staged."""
    acted: list[None] = []
    stage = getattr(lake.store, lake.staging_call)

    def slow(*args: object, **kwargs: object) -> object:
        result: object = stage(*args, **kwargs)
        if not acted:
            acted.append(None)
            act()
        return result

    monkeypatch.setattr(lake.store, lake.staging_call, slow)


def test_a_copy_that_is_held_up_copies_the_bytes_after_all(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(b"a", "x")

    def grow_old() -> None:
        lake.clock.ahead_seconds += lake.settings.min_age_seconds / 2

    hold_up(lake, monkeypatch, grow_old)
    copy(lake, "main", MAIN)
    assert address(lake, "main", b"a") != address(lake, "main", b"b")
    assert lake.text("main", b"b") == "x"


def test_a_copy_that_is_held_up_while_its_object_is_collected_leaves_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.upload(b"a", "x")
    lake.upload(b"b", "before")

    def grow_old_and_be_collected() -> None:
        lake.clock.ahead_seconds += lake.settings.min_age_seconds / 2
        lake.block.delete(address(lake, "main", b"a"))

    hold_up(lake, monkeypatch, grow_old_and_be_collected)
    with pytest.raises(MissingBytes):
        copy(lake, "main", MAIN)
    assert lake.text("main", b"b") == "before"


def test_invalid_copies(lake: Lake) -> None:
    with pytest.raises(EntryNotFound):
        copy(lake, "main", MAIN)
    with pytest.raises(RepositoryNotFound):
        lake.catalog.copies.copy(
            REPOSITORY, MAIN, b"b", source_repository_id=OTHER, source_ref="main", source_path=b"a"
        )
    lake.upload(b"a", "x", DEV)
    lake.block.delete(address(lake, "dev", b"a"))
    with pytest.raises(MissingBytes):
        copy(lake, "dev", MAIN)


def test_a_copy_on_a_condition(lake: Lake) -> None:
    lake.upload(b"a", "x")
    copies = lake.catalog.copies
    arguments = {"source_ref": "main", "source_path": b"a", "condition": if_absent}
    copies.copy(REPOSITORY, MAIN, b"b", **arguments)  # type: ignore[arg-type]
    with pytest.raises(PreconditionFailed):
        copies.copy(REPOSITORY, MAIN, b"b", **arguments)  # type: ignore[arg-type]


def test_metadata_are_replaced_and_the_rest_stays(lake: Lake) -> None:
    upload = lake.catalog.uploads.upload
    before = upload(REPOSITORY, MAIN, b"a", [b"x"], content_type="t/t", metadata={"k": "v"})
    after = lake.catalog.copies.set_metadata(REPOSITORY, MAIN, b"a", {"l": "w"})
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"a") == after
    assert after.metadata == {"l": "w"}
    assert (after.content_type, after.address) == (before.content_type, before.address)
    lake.clock.ahead_seconds += lake.settings.copy_window_seconds
    again = lake.catalog.copies.set_metadata(REPOSITORY, MAIN, b"a", {})
    assert again.address != before.address
    assert lake.text("main", b"a") == "x"


def test_metadata_of_an_object_that_is_replaced_meanwhile(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new content is not lost to one who only wanted other metadata."""
    lake.upload(b"a", "one")
    look = lake.engine.reader.effective_entry
    read: list[object] = []

    def read_and_be_overtaken(*args: Any) -> object:
        found = look(*args)
        if not read:
            read.append(found)
            lake.upload(b"a", "two")
        return found

    monkeypatch.setattr(lake.engine.reader, "effective_entry", read_and_be_overtaken)
    lake.catalog.copies.set_metadata(REPOSITORY, MAIN, b"a", {"k": "v"})
    monkeypatch.undo()
    assert lake.text("main", b"a") == "two"
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"a").metadata == {"k": "v"}


# The races of moves that share addresses, and what happens instead


def test_a_move_that_meets_a_commit_leaves_no_staged_entry_that_can_drag_the_commit_down(
    lake: Lake,
) -> None:
    """A commit between copy and delete; then a reset. No object is deleted by any of it."""
    lake.upload(b"a", "x")
    copy(lake, "main", MAIN)
    commit = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    HeadChanges(lake.engine).reset(REPOSITORY, MAIN)
    assert lake.text(commit, b"a") == lake.text(commit, b"b") == "x"


def test_a_delete_that_meets_a_move_leaves_the_copy_whole(lake: Lake) -> None:
    lake.upload(b"a", "x")
    copy(lake, "main", MAIN)
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    assert lake.text("main", b"b") == "x"


def test_a_move_that_died_half_way_blocks_nothing(lake: Lake) -> None:
    """There is no lock that could be left behind: both paths can be written, moved and deleted."""
    lake.upload(b"a", "x")
    copy(lake, "main", MAIN)  # and no delete: the mover is dead
    lake.upload(b"a", "y")
    copy(lake, "main", MAIN, to=b"c")
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    commit = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id
    assert (lake.text(commit, b"b"), lake.text(commit, b"c")) == ("x", "y")


def test_two_moves_of_one_object_both_hold(lake: Lake) -> None:
    """Entries may share an address: nobody locks it, nobody counts, nobody deletes it online."""
    lake.upload(b"a", "x")
    copy(lake, "main", MAIN, to=b"b")
    copy(lake, "main", MAIN, to=b"c")
    for path in (b"a", b"b"):
        lake.catalog.objects.delete(REPOSITORY, MAIN, path)
    assert lake.text("main", b"c") == "x"


def test_a_foreign_object_is_shared_on_its_branch_and_copied_elsewhere(lake: Lake) -> None:
    place = Address.parse(f"{lake.block.scheme}://lake/elsewhere/x")
    lake.block.put(place, [b"x"])
    lake.catalog.external.stage(REPOSITORY, MAIN, b"a", place, checksum="c", size=1)
    lake.clock.ahead_seconds += 10 * lake.settings.min_age_seconds
    copy(lake, "main", MAIN)
    copy(lake, "main", DEV)
    assert address(lake, "main", b"b") == place
    assert address(lake, "dev", b"b") in lake.repository.namespace
    entry = staging.get(lake.engine, REPOSITORY, "dev", b"b")
    assert entry.address_type is AddressType.RELATIVE
