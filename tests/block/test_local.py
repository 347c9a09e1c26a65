"""What is particular to local storage: names, links, folders, durability, what is left behind."""

import errno
import os
import resource
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from shutil import rmtree

import pytest

from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    InvalidAddress,
    InvalidArgument,
    LocalSettings,
    Namespace,
    ObjectNotFound,
    Part,
    PreconditionFailed,
    StorageUnavailable,
    UploadId,
    UploadNotFound,
    open_block,
)
from lakebed.block.drivers.local.files import ABANDONED_SECONDS

DATA = Namespace.parse("local://data")


def open_local(root: Path) -> BlockStore:
    return open_block(LocalSettings(root))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[BlockStore]:
    with open_local(root) as store:
        yield store


def writes(store: BlockStore, address: Address) -> list[Callable[[], object]]:
    source = DATA.address("source of copies")
    store.put(source, [b"data"])

    def upload() -> None:
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        try:
            store.complete_upload(address, upload_id, [part])
        finally:
            store.abort_upload(address, upload_id)

    return [
        lambda: store.put(address, [b"data"]),
        lambda: store.create(address, b"data"),
        lambda: store.copy(source, address),
        upload,
    ]


def listed(store: BlockStore, namespace: Namespace = DATA) -> list[str]:
    return [
        namespace.relative(Address.parse(text))
        for batch in store.list_objects(namespace)
        for text in batch.column("address").to_pylist()
    ]


def open_files(root: Path) -> int:
    """How many files and folders below a root this process has open."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # other threads close theirs meanwhile
            count += descriptor.readlink().is_relative_to(root)
    return count


def drafts(root: Path) -> list[Path]:
    return list((root / ".lakebed" / "drafts").iterdir())


# Names


def test_an_address_is_a_file_below_the_root(store: BlockStore, root: Path) -> None:
    store.put(DATA.address("a/b é"), [b"content"])
    assert (root / "data" / "a" / "b é").read_bytes() == b"content"
    (root / "data" / "foreign").write_bytes(b"foreign")
    assert store.read(DATA.address("foreign")) == b"foreign"
    assert listed(store) == ["a/b é", "foreign"]


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../x", "a/../b", "a/..", ".", "./a", "a/./b", "/a", "/etc/passwd", "a//b", "a/"),
        *("n" * 256, "é" * 128, "x/" + "n" * 256 + "/y", "/".join(["d" * 200] * 21)),
    ],
)
def test_what_a_disk_cannot_spell_is_refused(store: BlockStore, path: str) -> None:
    address = DATA.address(path)
    calls: list[Callable[[], object]] = [
        *writes(store, address),
        lambda: store.get(address),
        lambda: store.exists(address),
        lambda: store.delete(address),
        lambda: store.replace(address, b"", store.head(DATA.address("source of copies")).etag),
    ]
    for call in calls:
        with pytest.raises(InvalidAddress, match="cannot spell"):
            call()
    if path != "a/":
        with pytest.raises(InvalidAddress):
            store.list_objects(DATA.folder(path))


def test_the_longest_names_are_fine(store: BlockStore, root: Path) -> None:
    room = 4095 - len(str(root)) - len("/data/")
    path = "/".join(["n" * 255] * (room // 256 - 1)) + "/" + "é" * 127
    store.put(DATA.address(path), [b"data"])
    assert store.read(DATA.address(path)) == b"data"
    assert listed(store) == [path]
    store.delete(DATA.address(path))
    assert not (root / "data").exists()


def test_names_are_utf_8_whatever_the_locale(root: Path) -> None:
    program = f"""
from pathlib import Path
from lakebed.block import Address, LocalSettings, open_block
with open_block(LocalSettings(Path({str(root)!r}))) as store:
    store.put(Address.parse("local://data/\\u00e9"), [b"data"])
    (batch,) = store.list_objects(__import__("lakebed.block").block.Namespace.parse("local://data"))
    print(ascii(batch.column("address").to_pylist()))
"""
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    assert result.stdout == b"['local://data/\\xe9']\n"
    assert [os.fsencode(path.name) for path in (root / "data").iterdir()] == ["é".encode()]


@pytest.mark.parametrize(
    "fold", [str.lower, lambda name: unicodedata.normalize("NFD", name)], ids=["case", "form"]
)
def test_a_file_system_that_takes_two_names_for_one_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, fold: Callable[[str], str]
) -> None:
    def lexists(path: bytes) -> bool:
        """Look for a file as such a file system does."""
        name = fold(Path(os.fsdecode(path)).name)
        return name in {fold(other.name) for other in drafts(root)}

    monkeypatch.setattr(os.path, "lexists", lexists)
    with pytest.raises(InvalidArgument, match="two names for one"):
        open_local(root)
    assert drafts(root) == []


def test_files_that_no_address_spells_are_left_alone(store: BlockStore, root: Path) -> None:
    store.put(DATA.address("a"), [b"data"])
    (Path(os.fsdecode(os.fsencode(root) + b"/data/\xff"))).write_bytes(b"foreign")
    assert listed(store) == ["a"]


def test_the_reserved_folder_never_shows(store: BlockStore) -> None:
    store.put(DATA.address(".lakebed/drafts/x"), [b"an object like any other"])
    store.create_upload(DATA.address("upload"))
    assert listed(store) == [".lakebed/drafts/x"]


# Folders and files


def test_an_address_that_is_a_folder_cannot_be_written(store: BlockStore) -> None:
    store.put(DATA.address("a/b/c"), [b"data"])
    for path in ("a", "a/b"):
        for write in writes(store, DATA.address(path)):
            with pytest.raises(InvalidAddress, match="is a folder"):
                write()
    assert store.read(DATA.address("a/b/c")) == b"data"


def test_an_address_below_an_object_cannot_be_written(store: BlockStore) -> None:
    store.put(DATA.address("a"), [b"data"])
    for path in ("a/b", "a/b/c"):
        for write in writes(store, DATA.address(path)):
            with pytest.raises(InvalidAddress, match="below another object"):
                write()
        with pytest.raises(PreconditionFailed):
            store.replace(DATA.address(path), b"", store.head(DATA.address("a")).etag)
    assert store.read(DATA.address("a")) == b"data"


def test_empty_folders_go_with_their_last_object(store: BlockStore, root: Path) -> None:
    for path in ("a/b/1", "a/b/2", "a/c/1"):
        store.put(DATA.address(path), [])
    store.delete(DATA.address("a/b/1"))
    assert (root / "data/a/b").is_dir()
    store.delete(DATA.address("a/b/2"))
    assert sorted(path.name for path in (root / "data/a").iterdir()) == ["c"]
    store.delete(DATA.address("a/c/1"))
    assert not (root / "data").exists()
    assert root.is_dir()


def test_folders_that_a_crash_left_empty_are_no_obstacle(store: BlockStore, root: Path) -> None:
    (root / "data/a/b/c").mkdir(parents=True)
    (root / "data/a/d").mkdir()
    store.put(DATA.address("a"), [b"data"])
    assert store.read(DATA.address("a")) == b"data"


# Links and special files


def test_a_link_to_a_folder_is_not_followed(store: BlockStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store.put(DATA.address("inside/secret"), [b"data"])
    for target in (outside, Path("inside")):
        link = tmp_path / "root/data/link"
        link.symlink_to(target)
        address = DATA.address("link/secret")
        calls: list[Callable[[], object]] = [
            *writes(store, address),
            lambda: store.get(DATA.address("link/secret")),
            lambda: store.head(DATA.address("link/secret")),
            lambda: store.delete(DATA.address("link/secret")),
            lambda: store.list_objects(DATA.folder("link")),
        ]
        for call in calls:
            with pytest.raises(InvalidAddress, match="symbolic link"):
                call()
        assert "link/secret" not in listed(store)
        link.unlink()
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_a_link_to_a_file_is_not_followed(store: BlockStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    store.put(DATA.address("source"), [b"data"])
    (tmp_path / "root/data/link").symlink_to(outside)
    address = DATA.address("link")
    calls: list[Callable[[], object]] = [
        *writes(store, address),
        lambda: store.get(address),
        lambda: store.head(address),
        lambda: store.delete(address),
        lambda: store.copy(address, DATA.address("copy")),
    ]
    for call in calls:
        with pytest.raises(InvalidAddress, match="symbolic link"):
            call()
    assert listed(store) == ["source", "source of copies"]
    assert outside.read_bytes() == b"secret"


def test_a_pipe_is_no_object(store: BlockStore, root: Path) -> None:
    store.put(DATA.address("a"), [b"data"])
    os.mkfifo(root / "data" / "pipe")
    for call in (store.read, store.head, store.delete):
        with pytest.raises(InvalidAddress):
            call(DATA.address("pipe"))
    with pytest.raises(InvalidAddress):
        store.put(DATA.address("pipe"), [b"data"])
    assert listed(store) == ["a"]


def test_a_copy_onto_itself_renews_the_time(store: BlockStore, root: Path) -> None:
    address = DATA.address("object")
    store.put(address, [b"data"])
    long_ago = time.time() - 1000
    os.utime(root / "data" / "object", (long_ago, long_ago))
    store.copy(address, address)
    assert store.head(address).mtime.timestamp() > long_ago + 900
    assert store.read(address) == b"data"


# Durability


def test_everything_is_on_disk_before_a_write_returns(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        steps.append("draft" if "drafts" in path.parts else str(path.relative_to(root)))
        real_fsync(descriptor)

    def rename(*args: object, **kwargs: object) -> None:
        steps.append("rename")
        real_rename(*args, **kwargs)  # type: ignore[arg-type]

    with open_local(root) as store, open_local(root) as other:
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "rename", rename)
        store.put(DATA.address("a/b/1"), [b"data"])
        assert steps == ["draft", ".", "data", "data/a", "rename", "data/a/b"]
        steps.clear()
        store.put(DATA.address("a/b/2"), [b"data"])
        assert steps == ["draft", "rename", "data/a/b"]
        steps.clear()
        # Looking for what is not there is no reason to do it all again.
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
        # It did not make these folders, and so cannot know whether their names are on disk.
        other.put(DATA.address("a/b/3"), [b"data"])
        assert steps == ["draft", ".", "data", "data/a", "rename", "data/a/b"]
        steps.clear()
        with pytest.raises(AlreadyExists):
            store.create(DATA.address("a/b/3"), b"data")
        assert steps == ["draft", "data/a/b"]
        steps.clear()
        store.delete(DATA.address("a/b/3"))
        assert steps == ["data/a/b"]
        # The folders that it remembers are gone; those that another made in their place are not
        # known to be on disk.
        store.delete(DATA.address("a/b/1"))
        store.delete(DATA.address("a/b/2"))
        other.put(DATA.address("a/x"), [b"data"])
        steps.clear()
        store.put(DATA.address("a/c/4"), [b"data"])
        assert steps == ["draft", ".", "data", "data/a", "rename", "data/a/c"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_what_was_done_is_never_called_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir() and "drafts" not in path.parts:
            raise OSError(code, os.strerror(code))

    one, other = DATA.address("one"), DATA.address("other")
    with open_local(root) as store:
        etag = store.put(one, [b"old"]).etag
        upload_id = store.create_upload(one)
        part = store.put_part(one, upload_id, 1, [b"joined"], size=6)
        kept_id = store.create_upload(one)
        calls: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (lambda: store.replace(one, b"replaced", etag), lambda: store.read(one) == b"replaced"),
            (lambda: store.put(one, [b"new"]), lambda: store.read(one) == b"new"),
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


# What is left behind


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
    with pytest.raises(StorageUnavailable, match="too early"):
        list(stream)


def test_the_etag_of_a_part_is_its_md5(store: BlockStore) -> None:
    address = DATA.address("object")
    upload_id = store.create_upload(address)
    part = store.put_part(address, upload_id, 1, [b"da", b"ta"], size=4)
    assert part == Part(1, part.etag)
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
    # What an upload looks like on disk, but made of objects.
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
