"""Durability of local storage, and files left on disk."""

import errno
import os
import resource
import time
from collections.abc import Callable, Iterator
from hashlib import md5
from pathlib import Path
from shutil import rmtree

import pytest

from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    InvalidArgument,
    LocalSettings,
    ObjectNotFound,
    StorageFull,
    StorageUnavailable,
    UploadId,
    UploadNotFound,
    open_block,
)
from lakebed.block.drivers.local import files
from lakebed.block.drivers.local.files import ABANDONED_SECONDS
from tests.block.local_storage import DATA, drafts, listed, open_files, open_local, writes

# Durability


def noted_steps(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of all syncs and renames."""
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        steps.append("draft" if "drafts" in path.parts else str(path.relative_to(root)))
        real_fsync(descriptor)

    def rename(*args: object, **kwargs: object) -> None:
        steps.append("rename")
        real_rename(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    return steps


def test_everything_is_on_disk_before_a_write_returns(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_local(root) as store, open_local(root) as other:
        steps = noted_steps(root, monkeypatch)
        store.put(DATA.address("a/b/1"), [b"data"])
        assert steps == ["draft", ".", "data", "data/a", "rename", "data/a/b"]
        steps.clear()
        store.put(DATA.address("a/b/2"), [b"data"])
        assert steps == ["draft", "rename", "data/a/b"]
        steps.clear()
        # Missing objects do not cause another sync of the folders.
        assert not store.exists(DATA.address("a/b/missing"))
        store.delete(DATA.address("a/b/missing"))
        upload_id = store.create_upload(DATA.address("a/b/2"))
        assert steps == ["draft", "rename", "draft", "rename", ".lakebed/uploads"]
        steps.clear()
        part = store.put_part(DATA.address("a/b/2"), upload_id, 1, [b"part"], size=4)
        assert steps == ["draft", "rename", f".lakebed/uploads/{upload_id}"]
        steps.clear()
        store.complete_upload(DATA.address("a/b/2"), upload_id, [part])
        assert steps == ["draft", "rename", "data/a/b", "rename", ".lakebed/uploads"]
        steps.clear()
        store.copy(DATA.address("a/b/1"), DATA.address("a/b/2"))
        assert steps == ["draft", "rename", "data/a/b"]
        steps.clear()
        store.replace(DATA.address("a/b/2"), b"data", store.head(DATA.address("a/b/2")).etag)
        assert steps == ["draft", "rename", "data/a/b"]
        steps.clear()
        # Another store created these folders, so their names may not be durable.
        other.put(DATA.address("a/b/3"), [b"data"])
        assert steps == ["draft", ".", "data", "data/a", "rename", "data/a/b"]
        steps.clear()
        with pytest.raises(AlreadyExists):
            store.create(DATA.address("a/b/3"), b"data")
        assert steps == ["draft", "data/a/b"]
        steps.clear()
        store.delete(DATA.address("a/b/3"))
        assert steps == ["data/a/b"]
        steps.clear()
        store.create_by_content([(DATA.address("a/b/4"), b"data")])
        assert steps == ["draft", "rename", "data/a/b"]
        store.delete(DATA.address("a/b/4"))
        # The cached folders are deleted; their replacements, created by another store, may not be
        # durable.
        store.delete(DATA.address("a/b/1"))
        store.delete(DATA.address("a/b/2"))
        other.put(DATA.address("a/x"), [b"data"])
        steps.clear()
        store.put(DATA.address("a/c/4"), [b"data"])
        assert steps == ["draft", ".", "data", "data/a", "rename", "data/a/c"]


def test_a_storage_with_a_journal_of_an_earlier_version_is_not_opened(root: Path) -> None:
    journal = root / ".lakebed" / "journal"
    journal.mkdir(parents=True)
    open_local(root).close()
    (journal / "1").write_bytes(b"acknowledged")
    with pytest.raises(
        InvalidArgument, match=r"journal.*may contain acknowledged objects.*version"
    ):
        open_local(root)
    assert (journal / "1").read_bytes() == b"acknowledged"
    (journal / "1").unlink()
    open_local(root).close()


@pytest.mark.parametrize("left", [b"", b"da", bytes(4)])
def test_a_partial_file_is_replaced_by_its_content(root: Path, left: bytes) -> None:
    with open_local(root) as store:
        path = root / "data/ranges/1"
        path.parent.mkdir(parents=True)
        path.write_bytes(left)
        assert store.create_by_content([(DATA.address("ranges/1"), b"data")]) == [True]
        assert store.read(DATA.address("ranges/1")) == b"data"


def test_a_file_with_the_same_content_is_written_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers may see a file that the disk failed to write; only a new file is durable."""
    with open_local(root) as store, open_local(root) as other:
        objects = [(DATA.address("ranges/1"), b"data")]
        other.create_by_content(objects)
        path = root / "data/ranges/1"
        before = path.stat().st_ino
        steps = noted_steps(root, monkeypatch)
        assert store.create_by_content(objects) == [False]
        assert path.stat().st_ino != before
        assert steps == ["draft", ".", "data", "rename", "data/ranges"]


def test_a_folder_that_was_read_from_is_not_known_to_be_on_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real_fsync(descriptor)

    with open_local(root) as store, open_local(root) as other:
        other.put(DATA.address("a/1"), [b"data"])
        assert store.read(DATA.address("a/1")) == b"data"
        monkeypatch.setattr(os, "fsync", fsync)
        store.put(DATA.address("a/2"), [b"data"])
    assert synced[1:] == [root, root / "data", root / "data/a"]


def test_an_object_that_nothing_names_yet_is_moved_before_it_is_synced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journaling file system then writes its journal once; only for new objects."""
    with open_local(root) as store:
        store.put(DATA.address("a/1"), [b"data"])
        steps = noted_steps(root, monkeypatch)
        store.put_unreferenced(DATA.address("a/2"), [b"da", b"ta"])
        assert steps == ["rename", "data/a/2", "data/a"]
        assert store.read(DATA.address("a/2")) == b"data"
        steps.clear()
        store.put_unreferenced(DATA.address("a/2"), [b"ot", b"her"])
        assert steps == ["draft", "rename", "data/a"]
        assert store.read(DATA.address("a/2")) == b"other"
    assert not drafts(root)


def test_an_object_that_nothing_names_yet_and_that_comes_in_one_piece_is_written_in_its_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only for new objects."""
    with open_local(root) as store:
        store.put(DATA.address("a/1"), [b"data"])
        steps = noted_steps(root, monkeypatch)
        written = store.put_unreferenced(DATA.address("a/2"), [b"data"])
        assert steps == ["data/a/2", "data/a"]
        with store.get(DATA.address("a/2"), etag=written.etag) as stream:
            assert b"".join(stream) == b"data"
        steps.clear()
        store.put_unreferenced(DATA.address("a/2"), [b"other"])
        assert steps == ["draft", "rename", "data/a"]
        assert store.read(DATA.address("a/2")) == b"other"
        store.put_unreferenced(DATA.address("a/3"), [])
        assert store.read(DATA.address("a/3")) == b""


def test_an_object_that_cannot_be_written_in_its_place_leaves_nothing_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no room")

    def cut() -> Iterator[bytes]:
        yield b"data"
        raise ZeroDivisionError

    with open_local(root) as store:
        store.put(DATA.address("a/1"), [b"data"])
        with pytest.raises(ZeroDivisionError):
            store.put_unreferenced(DATA.address("a/2"), cut())
        assert listed(store) == ["a/1"]
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(StorageFull):
            store.put_unreferenced(DATA.address("a/2"), [b"data"])
        assert listed(store) == ["a/1"]
    assert not drafts(root)


def test_an_object_that_nothing_names_yet_needs_no_lock(root: Path) -> None:
    locks = root / ".lakebed" / "locks"
    with open_local(root) as store:
        store.put_unreferenced(DATA.address("a/1"), [b"data"])
        assert not list(locks.iterdir())
        store.put(DATA.address("a/1"), [b"other"])
        assert list(locks.iterdir())


def test_without_sync_nothing_waits_for_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with open_block(LocalSettings(root, sync=False)) as store:
        address = DATA.address("a/b")
        for write in writes(store, address):
            write()
            assert store.read(address) == b"data"
            store.delete(address)
        store.put_unreferenced(DATA.address("a/c"), [b"data"])
        store.replace(address, b"new", store.create(address, b"old"))
        assert store.read(address) == b"new"
    assert synced == []
    with open_local(root) as store:
        store.put(DATA.address("a/b"), [b"data"])
    assert synced


MIB = 1 << 20


@pytest.mark.parametrize("is_synced", [True, False])
def test_the_disk_begins_with_a_large_object_before_its_last_byte(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_synced: bool
) -> None:
    begun: list[tuple[int, int]] = []
    real = files._sync_file_range
    assert real is not None

    def begin(descriptor: int, start: int, length: int, flags: int) -> None:
        assert real(descriptor, start, length, flags) == 0
        begun.append((start, length))

    monkeypatch.setattr(files, "_sync_file_range", begin)
    chunk = os.urandom(3 * MIB)
    one, other = DATA.address("one"), DATA.address("other")
    with open_block(LocalSettings(root, sync=is_synced)) as store:
        store.put_unreferenced(one, [chunk] * 7)
        assert begun == ([(0, 9 * MIB), (9 * MIB, 9 * MIB)] if is_synced else [])
        begun.clear()
        store.copy(one, other)
        assert begun == ([(0, 8 * MIB), (8 * MIB, 8 * MIB)] if is_synced else [])
        begun.clear()
        upload_id = store.create_upload(one)
        part = store.put_part(one, upload_id, 1, [chunk] * 4, size=12 * MIB)
        assert begun == ([(0, 9 * MIB)] if is_synced else [])
        begun.clear()
        again = store.put_part(one, upload_id, 2, [chunk] * 2, size=6 * MIB)
        assert begun == []
        store.complete_upload(one, upload_id, [part, again])
        # The rest of the first part, and the second part.
        assert begun == ([(0, 8 * MIB), (8 * MIB, 10 * MIB)] if is_synced else [])
        assert store.read(other) == chunk * 7
        assert store.read(one) == chunk * 6


@pytest.mark.parametrize("is_offered", [True, False])
def test_a_disk_that_cannot_be_told_to_begin_is_waited_for_in_the_end(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_offered: bool
) -> None:
    """On systems without the call, and if it fails: the sync reports errors."""

    def fail(*_: int) -> int:
        return -1

    monkeypatch.setattr(files, "_sync_file_range", fail if is_offered else None)
    with open_local(root) as store:
        steps = noted_steps(root, monkeypatch)
        store.put(DATA.address("a"), [bytes(9 * MIB), b"end"])
        assert steps[0] == "draft"
        assert store.read(DATA.address("a")) == bytes(9 * MIB) + b"end"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_completed_change_is_never_reported_as_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir() and "drafts" not in path.parts:
            raise OSError(code, os.strerror(code))

    one, other, third = map(DATA.address, ("one", "other", "third"))
    with open_local(root) as store:
        etag = store.put(one, [b"old"]).etag
        upload_id = store.create_upload(one)
        part = store.put_part(one, upload_id, 1, [b"joined"], size=6)
        kept_id = store.create_upload(one)
        calls: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (lambda: store.replace(one, b"replaced", etag), lambda: store.read(one) == b"replaced"),
            (lambda: store.put(one, [b"new"]), lambda: store.read(one) == b"new"),
            (lambda: store.put_unreferenced(third, [b"x"]), lambda: store.read(third) == b"x"),
            (lambda: store.create(other, b"created"), lambda: store.read(other) == b"created"),
            (lambda: store.copy(one, other), lambda: store.read(other) == b"new"),
            (
                lambda: store.put_part(one, kept_id, 1, [b"part"], size=4),
                lambda: len(store.list_parts(one, kept_id)) == 1,
            ),
            (
                lambda: store.complete_upload(one, upload_id, [part]),
                lambda: store.read(one) == b"joined",
            ),
            (lambda: store.abort_upload(one, kept_id), lambda: not is_open(store, one, kept_id)),
            (lambda: store.create_upload(other), lambda: any(store.list_uploads(DATA))),
            (lambda: store.delete(other), lambda: not store.exists(other)),
        ]
        monkeypatch.setattr(os, "fsync", fsync)
        for call, is_done in calls:
            with pytest.raises(StorageUnavailable) as caught:
                call()
            assert caught.type is StorageUnavailable
            assert is_done()


def test_a_completed_upload_that_cannot_be_dropped_is_not_called_refused(
    store: BlockStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = DATA.address("object")
    upload_id = store.create_upload(address)
    part = store.put_part(address, upload_id, 1, [b"data"], size=4)
    real_rename = os.rename

    def rename(source: Path, *args: object, **kwargs: object) -> None:
        if source == root / ".lakebed/uploads" / upload_id:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        real_rename(source, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(StorageUnavailable):
        store.complete_upload(address, upload_id, [part])
    assert store.read(address) == b"data"


def is_open(store: BlockStore, address: Address, upload_id: UploadId) -> bool:
    try:
        store.list_parts(address, upload_id)
    except UploadNotFound:
        return False
    return True


# Leftovers


def test_a_draft_that_cannot_be_dropped_hides_no_error(store: BlockStore, root: Path) -> None:
    folder = root / ".lakebed" / "drafts"

    def broken() -> Iterator[bytes]:
        yield b"data"
        rmtree(folder)
        folder.write_bytes(b"no folder")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.put(DATA.address("a"), broken())


def test_streams_give_back_their_files(store: BlockStore, root: Path) -> None:
    address = DATA.address("object")
    store.put(address, [b"x" * (3 << 20)])
    before = open_files(root)
    streams = [store.get(address) for _ in range(9)]
    assert open_files(root) == before + 9
    for stream in streams[:3]:
        stream.close()
    for stream in streams[3:6]:
        next(stream)
        stream.close()
    for stream in streams[6:]:
        list(stream)
    assert open_files(root) == before


@pytest.mark.parametrize("chunks_read", [0, 1])
def test_a_stream_that_is_dropped_gives_back_its_file(
    store: BlockStore, root: Path, chunks_read: int
) -> None:
    address = DATA.address("object")
    store.put(address, [b"x" * (3 << 20)])
    before = open_files(root)
    stream = store.get(address)
    for _ in range(chunks_read):
        next(stream)
    with pytest.warns(ResourceWarning):
        del stream
    assert open_files(root) == before


def test_no_drafts_are_left(store: BlockStore, root: Path) -> None:
    address = DATA.address("a")
    for write in writes(store, address)[1:]:
        write()
        store.delete(address)
    store.put(address, [b"data"])
    with pytest.raises(AlreadyExists):
        store.create(address, b"data")
    with pytest.raises(ZeroDivisionError):
        store.put(address, (b"%d" % (1 // number) for number in (1, 0)))
    assert drafts(root) == []


def test_abandoned_drafts_are_dropped_when_a_storage_is_opened(root: Path) -> None:
    open_local(root).close()
    folder = root / ".lakebed" / "drafts"
    (folder / "old folder").mkdir()
    for name in ("old", "old folder/address", "new"):
        (folder / name).write_bytes(b"data")
    long_ago = time.time() - ABANDONED_SECONDS - 1
    for name in ("old", "old folder"):
        os.utime(folder / name, (long_ago, long_ago))
    open_local(root).close()
    assert [path.name for path in drafts(root)] == ["new"]


def test_processes_that_start_at_once_do_not_remove_the_drafts_of_each_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_local(root).close()
    utime = os.utime

    def and_another_starts(*args: object, **kwargs: object) -> None:
        utime(*args, **kwargs)  # type: ignore[arg-type]
        files.drop_abandoned(root / ".lakebed" / "drafts")

    monkeypatch.setattr(os, "utime", and_another_starts)
    open_local(root).close()


def test_a_draft_that_cannot_be_removed_is_no_obstacle(root: Path) -> None:
    open_local(root).close()
    loop = root / ".lakebed" / "drafts" / "loop"
    loop.symlink_to("loop")
    open_local(root).close()


def test_a_closed_storage_holds_no_files(root: Path) -> None:
    store = open_local(root)
    store.put(DATA.address("a/b"), [])
    assert open_files(root) > 0
    store.close()
    assert open_files(root) == 0


@pytest.mark.slow
def test_many_folders_are_used_with_few_descriptors(store: BlockStore, root: Path) -> None:
    for number in range(300):
        store.put(DATA.address(f"{number}/object"), [])
    assert 100 < open_files(root) <= 130
    store.close()
    assert open_files(root) == 0


# Damage and parts


def test_a_file_that_is_cut_while_it_is_read_is_reported(store: BlockStore, root: Path) -> None:
    store.put(DATA.address("a"), [b"x" * (3 << 20)])
    stream = store.get(DATA.address("a"))
    next(stream)
    os.truncate(root / "data" / "a", 1 << 20)
    with pytest.raises(StorageUnavailable, match="bytes early"):
        list(stream)


def test_the_etag_of_a_part_is_its_md5(store: BlockStore) -> None:
    address = DATA.address("object")
    upload_id = store.create_upload(address)
    part = store.put_part(address, upload_id, 1, [b"da", b"ta"], size=4)
    assert (part.number, part.md5) == (1, part.etag)
    assert part.etag == md5(b"data").hexdigest()


def test_an_upload_may_have_more_parts_than_files_may_be_open(store: BlockStore) -> None:
    address = DATA.address("object")
    upload_id = store.create_upload(address)
    parts = [
        store.put_part(address, upload_id, number, [b"%03d" % number], size=3)
        for number in range(1, 101)
    ]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 30, limits[1]))
    try:
        store.complete_upload(address, upload_id, parts)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert store.read(address) == b"".join(b"%03d" % number for number in range(1, 101))


def test_a_damaged_storage_is_reported(store: BlockStore, root: Path) -> None:
    address = DATA.address("object")
    upload_id = store.create_upload(address)
    calls = writes(store, address)
    calls.append(lambda: store.put_part(address, upload_id, 1, [b"data"], size=4))
    (root / ".lakebed" / "drafts").rmdir()
    for write in calls:
        with pytest.raises(StorageUnavailable, match="local://data/object"):
            write()


def test_an_upload_id_leads_nowhere_else(store: BlockStore, root: Path) -> None:
    address = DATA.address("object")
    # Looks like an upload on disk, but made of objects.
    store.put(DATA.address("trap/address"), [str(address).encode()])
    (root / "data" / "trap" / "00001").write_bytes(b"data" + md5(b"data").hexdigest().encode())
    for name in ("../../data/trap", str(root / "data" / "trap")):
        upload_id = UploadId(name)
        with pytest.raises(UploadNotFound):
            store.list_parts(address, upload_id)
        with pytest.raises(UploadNotFound):
            store.put_part(address, upload_id, 1, [b"new!"], size=4)
        store.abort_upload(address, upload_id)
    assert listed(store) == ["trap/00001", "trap/address"]


def test_the_root_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with open_block(LocalSettings(tmp_path / "link")) as store:
        store.put(DATA.address("a"), [b"data"])
    assert (tmp_path / "real/data/a").read_bytes() == b"data"
    with pytest.raises(ObjectNotFound), open_block(LocalSettings(tmp_path / "new/root")) as store:
        store.read(DATA.address("a"))
