"""Local storage when several processes change the same objects and folders at the same moment."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType

import pytest

from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    ETag,
    PreconditionFailed,
    UploadNotFound,
)
from lakebed.block.drivers.local.places import Place
from lakebed.block.drivers.local.tree import Folder, Tree
from tests.block.local_storage import DATA, open_local


def test_a_folder_that_another_replaced_is_found_again(root: Path) -> None:
    address, other_address = DATA.address("a/b/object"), DATA.address("a/b/other")
    with open_local(root) as store, open_local(root) as other:

        def replaced() -> str:
            """Let the other store remove the folder that this one remembers, and make it anew."""
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


# Replaces files, as a store would, as fast as it can.
REPLACER = """
import os, random, sys
root, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
while True:
    draft = f"{root}/.lakebed/drafts/{os.getpid()}"
    with open(draft, "xb") as file:
        file.write(b"0" * 32)
    os.rename(draft, f"{folder}/{random.randrange(count):05}")
"""


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder where a file that is replaced changes its place among the others."""
    with TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@contextmanager
def replacing(root: Path, folder: Path, count: int) -> Iterator[None]:
    """Fill a folder with files, and replace them by another process while the block runs."""
    for number in range(count):
        (folder / f"{number:05}").write_bytes(b"0" * 32)
    command = [sys.executable, "-c", REPLACER, str(root), str(folder), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as replacer:
        try:
            assert replacer.stdout is not None
            assert replacer.stdout.readline() == b"ready\n"
            yield
        finally:
            replacer.kill()


@pytest.mark.slow
def test_listings_hold_every_object_that_is_merely_replaced(in_memory: Path) -> None:
    with open_local(in_memory) as store:
        (in_memory / "data").mkdir()
        expected = [str(DATA.address(f"{number:05}")) for number in range(10_000)]
        with replacing(in_memory, in_memory / "data", 10_000):
            for _ in range(5):
                listed = [
                    address
                    for batch in store.list_objects(DATA)
                    for address in batch.column("address").to_pylist()
                ]
                assert listed == expected


@pytest.mark.slow
def test_listings_hold_every_part_that_is_merely_replaced(in_memory: Path) -> None:
    address = DATA.address("object")
    with open_local(in_memory) as store:
        upload_id = store.create_upload(address)
        with replacing(in_memory, in_memory / ".lakebed/uploads" / upload_id, 10_000):
            for _ in range(3):
                numbers = [part.number for part in store.list_parts(address, upload_id)]
                assert numbers == list(range(10_000))


RIVALS: dict[str, tuple[Callable[[BlockStore, Address, ETag], object], bytes | None]] = {
    "put": (lambda store, address, _: store.put(address, [b"rival"]), b"rival"),
    "replace": (lambda store, address, etag: store.replace(address, b"rival", etag), b"mine"),
    "create": (lambda store, address, _: store.create(address, b"rival"), b"mine"),
    "delete": (lambda store, address, _: store.delete(address), None),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_nothing_comes_between_comparing_and_replacing(
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
        assert (error is not None) == (rival in {"replace", "create"})
        # The rival came after: it found what had been written, or wrote over it.
        assert (store.read(address) if store.exists(address) else None) == expected


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
    tree = Tree(root)
    place = Place(DATA.address("a/b"), (b"data", b"a"), b"b")
    stale = tree.within_made(place, lambda folder, _: folder)

    def work(folder: Folder, _: bytes) -> Folder:
        if folder is stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return folder

    assert tree.within(place, work) is not stale
    made = tree.within_made(place, work)
    assert made is not stale
    assert tree.within(place, work) is made


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
