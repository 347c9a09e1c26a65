"""Local storage when several stores change the same objects and folders concurrently."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from shutil import rmtree
from types import NoneType

import pytest

from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    ETag,
    InvalidPart,
    ObjectNotFound,
    Part,
    PreconditionFailed,
    UploadNotFound,
)
from lakebed.block.drivers.local.files import to_disk
from lakebed.block.drivers.local.tree import FilePlace, OpenFolder, Tree
from tests.block.local_storage import DATA, open_files, open_local


def test_a_folder_that_another_replaced_is_found_again(root: Path) -> None:
    address, other_address = DATA.address("a/b/object"), DATA.address("a/b/other")
    with open_local(root) as store, open_local(root) as other:

        def replaced() -> str:
            """Let the other store remove the folder that this store has cached, and recreate it."""
            store.put(address, [b"mine"])
            other.delete(address)
            other.put(address, [b"theirs"])
            return str(other.head(address).etag)

        replaced()
        assert store.read(address) == b"theirs"
        etag = replaced()
        assert store.head(address).etag == etag
        store.replace(address, b"new", store.head(address).etag)
        replaced()
        with pytest.raises(AlreadyExists):
            store.create(address, b"new")
        replaced()
        store.put(other_address, [b"beside"])
        assert other.read(other_address) == b"beside"
        other.delete(other_address)
        replaced()
        store.delete(address)
        assert not other.exists(address)


def test_a_reader_enters_a_folder_once_and_finds_the_one_that_took_its_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = DATA.address("a/b/object")
    entered: list[object] = []
    real_open = os.open

    def open_(path: bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_DIRECTORY:
            entered.append(path)
        return real_open(path, flags, mode, dir_fd=dir_fd)

    with open_local(root) as reader, open_local(root) as writer:
        for number in (1, 2):
            writer.put(DATA.address(f"a/b/{number}"), [b"data"])
        monkeypatch.setattr(os, "open", open_)
        assert reader.read(DATA.address("a/b/1")) == b"data"
        assert entered == [b"data", b"a", b"b"]
        assert reader.read(DATA.address("a/b/2")) == b"data"
        assert reader.head(DATA.address("a/b/2")).size == 4
        assert entered == [b"data", b"a", b"b"]
        # The folder is deleted with its last object.
        for number in (1, 2):
            writer.delete(DATA.address(f"a/b/{number}"))
        with pytest.raises(ObjectNotFound):
            reader.read(DATA.address("a/b/2"))
        writer.put(address, [b"new"])
        assert reader.read(address) == b"new"


def test_the_folders_that_a_reader_keeps_open_are_few(root: Path) -> None:
    with open_local(root) as reader, open_local(root) as writer:
        addresses = [DATA.address(f"{number}/object") for number in range(100)]
        for address in addresses:
            writer.put(address, [b"data"])
        before = open_files(root)
        for address in addresses:
            assert reader.read(address) == b"data"
        assert open_files(root) - before <= 32


@pytest.mark.slow
def test_puts_and_deletes_race_in_one_folder(root: Path) -> None:
    def churn(name: bytes) -> None:
        with open_local(root) as store:
            address = DATA.address(f"a/b/{name.decode()}")
            for _ in range(150):
                store.put(address, [name])
                assert store.read(address) == name
                store.replace(address, b"new", store.head(address).etag)
                assert store.read(address) == b"new"
                store.delete(address)
                assert not store.exists(address)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(churn, [b"1", b"2", b"3", b"4"]))
    assert not (root / "data").exists()
    assert list((root / ".lakebed" / "drafts").iterdir()) == []


RIVALS: dict[str, tuple[Callable[[BlockStore, Address, ETag], object], bytes | None]] = {
    "put": (lambda store, address, _: store.put(address, [b"rival"]), b"rival"),
    "replace": (lambda store, address, etag: store.replace(address, b"rival", etag), b"mine"),
    "create": (lambda store, address, _: store.create(address, b"rival"), b"mine"),
    "put_new": (lambda store, address, _: store.put_new(address, [b"rival"]), b"mine"),
    "delete": (lambda store, address, _: store.delete(address), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("rival", RIVALS)
def test_compare_and_replace_is_atomic(
    root: Path, monkeypatch: pytest.MonkeyPatch, rival: str
) -> None:
    call, expected = RIVALS[rival]
    address = DATA.address("object")
    real_rename = os.rename
    with open_local(root) as store, open_local(root) as other, ThreadPoolExecutor(1) as pool:
        etag = store.create(address, b"old")
        futures: list[Future[object]] = []

        def rename(*args: object, **kwargs: object) -> None:
            """Give a rival all the time it needs, just before the object is replaced."""
            if not futures:
                futures.append(pool.submit(call, other, address, etag))
                wait(futures, timeout=0.3)
            real_rename(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "rename", rename)
        store.replace(address, b"mine", etag)
        error = futures[0].exception()
        assert isinstance(error, PreconditionFailed | AlreadyExists | None)
        assert (error is not None) == (rival in {"replace", "create", "put_new"})
        # The rival came after: it found the new object, or overwrote it.
        assert (store.read(address) if store.exists(address) else None) == expected


@pytest.mark.slow
def test_of_two_creators_in_the_same_moment_one_wins(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = DATA.address("object")
    real_rename = os.rename
    with open_local(root) as store, open_local(root) as other, ThreadPoolExecutor(1) as pool:
        futures: list[Future[ETag]] = []

        def rename(*args: object, **kwargs: object) -> None:
            if not futures:
                futures.append(pool.submit(other.create, address, b"rival"))
                wait(futures, timeout=0.3)
            real_rename(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "rename", rename)
        store.create(address, b"mine")
        assert isinstance(futures[0].exception(), AlreadyExists)
        assert store.read(address) == b"mine"


@pytest.mark.parametrize("moment", ["scandir", "pread"])
def test_parts_of_an_upload_that_ends_meanwhile(
    root: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    address = DATA.address("object")
    real = getattr(os, moment)
    with open_local(root) as store, open_local(root) as other:
        upload_id = store.create_upload(address)
        for number in (1, 2):
            store.put_part(address, upload_id, number, [b"data"], size=4)

        def ended_before(*args: object) -> object:
            monkeypatch.undo()
            other.abort_upload(address, upload_id)
            return real(*args)

        monkeypatch.setattr(os, moment, ended_before)
        with pytest.raises(UploadNotFound):
            store.list_parts(address, upload_id)


def test_a_folder_whose_handle_went_stale_is_opened_again(root: Path) -> None:
    root.mkdir()
    tree = Tree(root, to_disk)
    place = FilePlace(DATA.address("a/b"), (b"data", b"a"), b"b")
    stale = tree.within_made(place, lambda folder, _: folder)

    def work(folder: OpenFolder, _: bytes) -> OpenFolder:
        if folder is stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return folder

    assert tree.within(place, work) is not stale
    made = tree.within_made(place, work)
    assert made is not stale
    assert tree.within(place, work) is made


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_remembered_folder_that_is_gone_is_not_gone_by(root: Path, comes_back: bool) -> None:
    root.mkdir()
    synced: list[int] = []
    tree = Tree(root, lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    data = root / "data"
    first = FilePlace(DATA.address("a/b/1"), (b"data", b"a", b"b"), b"1")
    second = FilePlace(DATA.address("a/c/2"), (b"data", b"a", b"c"), b"2")
    tree.within_made(first, lambda _folder, _name: None)
    rmtree(data)
    if comes_back:
        (data / "a").mkdir(parents=True)
    synced.clear()
    made = tree.within_made(second, lambda folder, _: folder)
    assert os.fstat(made.descriptor).st_ino == (data / "a" / "c").stat().st_ino
    # The process that recreated them may not have synced their names.
    assert synced == [path.stat().st_ino for path in (root, data, data / "a")]


def test_a_folder_in_one_that_is_remembered_is_made_from_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir()
    synced: list[int] = []
    tree = Tree(root, lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    places = [
        FilePlace(DATA.address(f"a/{n}/x"), (b"data", b"a", b"%d" % n), b"x") for n in range(2)
    ]
    tree.within_made(places[0], lambda _folder, _name: None)
    synced.clear()
    real_mkdir, made = os.mkdir, []

    def mkdir(name: bytes, *, dir_fd: int) -> None:
        made.append(name)
        real_mkdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    tree.within_made(places[1], lambda _folder, _name: None)
    assert made == [b"1"]
    assert synced == [(root / "data" / "a").stat().st_ino]


@pytest.mark.slow
@pytest.mark.parametrize("rival", ["complete", "abort"])
def test_an_upload_ends_once(root: Path, monkeypatch: pytest.MonkeyPatch, rival: str) -> None:
    address = DATA.address("object")
    real_rename = os.rename
    with open_local(root) as store, open_local(root) as other, ThreadPoolExecutor(1) as pool:
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        futures: list[Future[object]] = []

        def end() -> object:
            if rival == "abort":
                return other.abort_upload(address, upload_id)
            return other.complete_upload(address, upload_id, [part])

        def rename(*args: object, **kwargs: object) -> None:
            if not futures:
                futures.append(pool.submit(end))
                wait(futures, timeout=0.3)
            real_rename(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "rename", rename)
        store.complete_upload(address, upload_id, [part])
        error = futures[0].exception()
        assert isinstance(error, UploadNotFound if rival == "complete" else NoneType)
        assert store.read(address) == b"data"
        assert list(store.list_uploads(DATA)) == []


def test_a_part_that_is_sent_again_while_the_parts_are_joined_is_not_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = DATA.address("object")
    real_sendfile = os.sendfile
    with open_local(root) as store, open_local(root) as other:
        upload_id = store.create_upload(address)
        parts = [
            store.put_part(address, upload_id, number, [body], size=len(body))
            for number, body in enumerate([b"first", b"second"], 1)
        ]

        def sendfile(*args: int) -> int:
            """Copy the first part, while the second is uploaded again."""
            monkeypatch.setattr(os, "sendfile", real_sendfile)
            other.put_part(address, upload_id, 2, [b"SECOND"], size=6)
            return real_sendfile(*args)

        monkeypatch.setattr(os, "sendfile", sendfile)
        with pytest.raises(InvalidPart, match="part 2"):
            store.complete_upload(address, upload_id, parts)
        assert os.sendfile is real_sendfile, "it was being joined"
        assert not store.exists(address)
        again = store.list_parts(address, upload_id)[1]
        store.complete_upload(address, upload_id, [parts[0], Part(2, again.etag)])
        assert store.read(address) == b"firstSECOND"
