"""Uploads: whole or not at all, refused before the bytes come, and never acknowledged too late."""

import hashlib
from collections.abc import Callable, Iterator, Sequence

import pytest

from lakebed.block import Address, PutResult, StorageUnavailable
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import (
    BranchNotFound,
    EntryNotFound,
    NothingThere,
    PreconditionFailed,
    Protected,
    ReadOnly,
    RepositoryNotFound,
    Stale,
)
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.reading import RECENT_SECONDS
from lakebed.engine.staging.writer import Condition, if_absent
from lakebed.formats import Entry
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv.store import Item, Put
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import InvalidPath
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake

REQUEST = CommitRequest(committer="ann", message="m")


def test_an_uploaded_object_is_read(lake: Lake) -> None:
    chunks = [b"abc", b"", b"def" * 1000]
    stats = lake.catalog.uploads.upload(
        REPOSITORY, MAIN, b"a/b", chunks, content_type="text/plain", metadata={"who": "ann"}
    )
    body = b"".join(chunks)
    assert stats.size == len(body)
    assert stats.checksum == hashlib.md5(body).hexdigest()
    assert lake.catalog.objects.stat(REPOSITORY, "main", b"a/b") == stats
    assert lake.text("main", b"a/b") == body.decode()
    assert stats.content_type == "text/plain"
    assert stats.metadata == {"who": "ann"}
    assert lake.stored() == [str(stats.address)]


def test_an_address_tells_whose_it_is_and_how_old(lake: Lake) -> None:
    before = lake.clock.now()
    stats = lake.catalog.uploads.upload(REPOSITORY, DEV, b"a", [b"x"])
    parts = ObjectPath.parse(lake.repository.namespace.relative(stats.address))
    assert parts is not None
    assert parts.repository_uid == lake.repository.unique_id
    assert parts.branch == DEV
    assert before - 0.001 <= parts.issued_us / 1e6 <= lake.clock.now()


def test_a_stream_that_breaks_leaves_nothing(lake: Lake) -> None:
    lake.upload(b"a", "before")

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", broken())
    assert lake.text("main", b"a") == "before"
    assert len(lake.stored()) == 1


@pytest.mark.parametrize("path", [b"", b"p" * 1025])
def test_paths_that_no_object_can_have(lake: Lake, path: bytes) -> None:
    with pytest.raises(InvalidPath):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, path, [b"x"])
    lake.upload(b"p" * 1024, "longest")
    assert lake.text("main", b"p" * 1024) == "longest"


def untouched() -> Iterator[bytes]:
    """Bytes of which none may be taken."""
    yield b""
    pytest.fail("the bytes were taken before it was looked whether they are wanted")


def test_refusals_come_before_the_bytes_are_read(lake: Lake) -> None:
    upload = lake.catalog.uploads.upload
    with pytest.raises(RepositoryNotFound):
        upload(RepositoryID("other"), MAIN, b"a", untouched())
    with pytest.raises(BranchNotFound):
        upload(REPOSITORY, BranchID("other"), b"a", untouched())
    lake.engine.protection.set(lake.repository, ["dev"])
    with pytest.raises(Protected):
        upload(REPOSITORY, DEV, b"a", untouched())
    lake.upload(b"a", "there")
    with pytest.raises(PreconditionFailed):
        upload(REPOSITORY, MAIN, b"a", untouched(), condition=if_absent)
    lake.engine.repositories.set_read_only(REPOSITORY, read_only=True)
    with pytest.raises(ReadOnly):
        upload(REPOSITORY, MAIN, b"a", untouched())
    assert len(lake.stored()) == 1


def during(act: Callable[[], object]) -> Iterator[bytes]:
    """Bytes with something happening while they come."""
    yield b"first"
    act()
    yield b"last"


def slowly(lake: Lake, act: Callable[[], object]) -> Iterator[bytes]:
    """Bytes that take so long that the write is checked again."""
    yield from during(act)
    lake.clock.ahead_seconds += 2 * RECENT_SECONDS


def test_a_refusal_after_the_bytes_leaves_no_object(lake: Lake) -> None:
    def protect() -> None:
        lake.engine.protection.set(lake.repository, ["main"])

    with pytest.raises(Protected):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", slowly(lake, protect))
    assert not lake.exists(b"a")
    assert lake.stored() == []


def test_a_repository_made_again_meanwhile_gets_nothing(lake: Lake) -> None:
    def make_again() -> None:
        namespace = lake.repository.namespace
        lake.engine.repositories.delete(REPOSITORY)
        lake.engine.repositories.create(REPOSITORY, namespace, committer="bob")

    with pytest.raises(RepositoryNotFound):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", slowly(lake, make_again))
    with pytest.raises(EntryNotFound):
        lake.catalog.objects.stat(REPOSITORY, "main", b"a")
    assert lake.stored() == []
    # It was staged before it was known that another repository has the name.
    with pytest.raises(RepositoryNotFound):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", during(make_again))
    with pytest.raises(EntryNotFound):
        lake.catalog.objects.stat(REPOSITORY, "main", b"a")


@pytest.mark.parametrize("condition", [None, lambda _found: True])
def test_what_forbids_a_quick_write_while_its_bytes_come_holds_for_it(
    lake: Lake, condition: Condition | None
) -> None:
    """Nothing is asked again before the entry is staged; the write is taken back after that."""

    def protect() -> None:
        lake.engine.protection.set(lake.repository, ["main"])

    def make_read_only() -> None:
        lake.engine.repositories.set_read_only(REPOSITORY, read_only=True)

    lake.upload(b"a", "before")
    upload = lake.catalog.uploads.upload
    for forbid, refusal in ((protect, Protected), (make_read_only, ReadOnly)):
        with pytest.raises(refusal):
            upload(REPOSITORY, MAIN, b"a", during(forbid), condition=condition)
        lake.engine.protection.set(lake.repository, [])
        assert lake.text("main", b"a") == "before"
    # Of a plain write, the entry was visible for a moment, and a commit may have taken it along.
    assert len(lake.stored()) == (3 if condition is None else 1)


def test_a_condition_is_looked_at_again_when_the_bytes_have_come(lake: Lake) -> None:
    with pytest.raises(PreconditionFailed):
        lake.catalog.uploads.upload(
            REPOSITORY,
            MAIN,
            b"a",
            during(lambda: lake.upload(b"a", "faster")),
            condition=if_absent,
        )
    assert lake.text("main", b"a") == "faster"


def test_a_conditional_write_that_is_refused_is_in_no_commit_and_leaves_no_object(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    lake.upload(b"b", "before")
    write = lake.store.write

    def overtaken(
        writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        write(writes)
        if not commits:
            commits.append("")
            assert not lake.exists(b"a")
            commits[0] = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id
            lake.upload(b"a", "faster")
        return lake.store.get_many(reads)

    monkeypatch.setattr(lake.store, "write", overtaken)
    with pytest.raises(PreconditionFailed):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", [b"mine"], condition=if_absent)
    assert lake.text("main", b"a") == "faster"
    assert not lake.exists(b"a", commits[0])
    assert len(lake.stored()) == 2


def test_if_match_replaces_only_what_was_read(lake: Lake) -> None:
    lake.upload(b"a", "one")
    read = lake.catalog.objects.stat(REPOSITORY, "main", b"a")

    def unchanged(found: Entry | None) -> bool:
        return found is not None and found.checksum == read.checksum

    upload = lake.catalog.uploads.upload
    upload(REPOSITORY, MAIN, b"a", [b"two"], condition=unchanged)
    with pytest.raises(PreconditionFailed):
        upload(REPOSITORY, MAIN, b"a", [b"three"], condition=unchanged)
    assert lake.text("main", b"a") == "two"
    lake.upload(b"a", "one")
    deleting = during(lambda: lake.catalog.objects.delete(REPOSITORY, MAIN, b"a"))
    with pytest.raises(NothingThere):
        upload(REPOSITORY, MAIN, b"a", deleting, condition=unchanged)


# The races of overwriting in place, and what happens instead


def test_a_write_that_ends_after_a_commit_does_not_change_the_commit(lake: Lake) -> None:
    """An overwrite goes to an address of its own, however long it takes."""
    lake.upload(b"a", "committed")
    commits: list[str] = []

    def commit() -> None:
        commits.append(HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id)

    lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", during(commit))
    assert lake.text(commits[0], b"a") == "committed"
    assert lake.text("main", b"a") == "firstlast"
    HeadChanges(lake.engine).reset(REPOSITORY, MAIN)
    assert lake.text("main", b"a") == "committed"


def test_deleting_and_resetting_touch_no_object(lake: Lake) -> None:
    """What a commit under way may yet publish stays; only garbage collection removes objects."""
    lake.upload(b"a", "one")
    lake.upload(b"a", "two")
    lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    HeadChanges(lake.engine).reset(REPOSITORY, MAIN)
    assert len(lake.stored()) == 2


# Age


def test_an_upload_that_took_too_long_is_not_staged(lake: Lake) -> None:
    lake.upload(b"a", "before")

    def hold_up() -> None:
        lake.clock.ahead_seconds += lake.settings.min_age_seconds / 2

    with pytest.raises(Stale):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", during(hold_up))
    assert lake.text("main", b"a") == "before"


@pytest.mark.parametrize("condition", [None, lambda _found: True], ids=["plain", "conditional"])
@pytest.mark.parametrize("before", [None, "before", "deleted", "committed"])
def test_an_upload_that_is_held_up_while_staging_is_taken_back(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    before: str | None,
    condition: Callable[[Entry | None], bool] | None,
) -> None:
    if before is not None:
        lake.upload(b"a", "before")
    if before == "committed":
        HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
        lake.text("main", b"a")  # or the upload would begin with a branch record from a cache
    if before == "deleted":
        lake.catalog.objects.delete(REPOSITORY, MAIN, b"a")
    shown: list[str] = []
    stage = getattr(lake.store, lake.staging_call)

    def slow(*args: object, **kwargs: object) -> object:
        result: object = stage(*args, **kwargs)
        if not shown:
            shown.append(lake.text("main", b"a") if lake.exists(b"a") else "nothing")
            lake.clock.ahead_seconds += lake.settings.min_age_seconds / 2
        return result

    monkeypatch.setattr(lake.store, lake.staging_call, slow)
    with pytest.raises(Stale):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", [b"late"], condition=condition)
    there = "before" if before in {"before", "committed"} else "nothing"
    # A plain one was visible for a moment.
    assert shown == ["late" if condition is None else there]
    uploads = 1 if before is None else 2
    assert len(lake.stored()) == uploads - (condition is not None)
    if before in {"before", "committed"}:
        assert lake.text("main", b"a") == "before"
    else:
        assert not lake.exists(b"a")


def test_taking_back_leaves_alone_what_came_later(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_up: list[None] = []
    stage = getattr(lake.store, lake.staging_call)

    def slow(*args: object, **kwargs: object) -> object:
        result: object = stage(*args, **kwargs)
        if not held_up:
            held_up.append(None)
            lake.clock.ahead_seconds += lake.settings.min_age_seconds / 2
            lake.upload(b"a", "later")
        return result

    monkeypatch.setattr(lake.store, lake.staging_call, slow)
    with pytest.raises(Stale):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", [b"late"])
    assert lake.text("main", b"a") == "later"


# Storage that fails


def test_a_storage_that_stores_and_then_fails_keeps_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: Callable[[Address, list[bytes]], PutResult] = lake.block.put_unreferenced

    def stored_but_unanswered(address: Address, chunks: list[bytes]) -> PutResult:
        put(address, chunks)
        raise StorageUnavailable("no reply")

    monkeypatch.setattr(
        type(lake.block), "put_unreferenced", lambda _self, *args: stored_but_unanswered(*args)
    )
    with pytest.raises(StorageUnavailable):
        lake.catalog.uploads.upload(REPOSITORY, MAIN, b"a", [b"x"])
    assert lake.stored() == []
