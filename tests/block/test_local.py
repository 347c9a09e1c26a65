"""Particulars of local storage: names, folders, links."""

import os
import shutil
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import BlockStore, InvalidAddress, InvalidArgument, PreconditionFailed
from lakebed.block.drivers.local import store as local_store
from lakebed.block.drivers.local.walk import walk
from lakebed.block.store import LIST_SCHEMA
from tests.block.local_storage import DATA, drafts, listed, open_local, writes

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
def test_paths_invalid_on_a_disk_are_refused(store: BlockStore, path: str) -> None:
    address = DATA.address(path)
    calls: list[Callable[[], object]] = [
        *writes(store, address),
        lambda: store.get(address),
        lambda: store.exists(address),
        lambda: store.delete(address),
        lambda: store.replace(address, b"", store.head(DATA.address("source of copies")).etag),
    ]
    for call in calls:
        with pytest.raises(InvalidAddress, match="cannot represent"):
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


@pytest.mark.parametrize(
    "fold", [str.lower, lambda name: unicodedata.normalize("NFD", name)], ids=["case", "form"]
)
def test_a_file_system_that_takes_two_names_for_one_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, fold: Callable[[str], str]
) -> None:
    def lexists(path: bytes) -> bool:
        """Find a file like a case-insensitive file system."""
        name = fold(Path(os.fsdecode(path)).name)
        return name in {fold(other.name) for other in drafts(root)}

    monkeypatch.setattr(os.path, "lexists", lexists)
    with pytest.raises(InvalidArgument, match="ignores case"):
        open_local(root)
    assert drafts(root) == []


def test_files_that_no_address_spells_are_left_alone(store: BlockStore, root: Path) -> None:
    store.put(DATA.address("a"), [b"data"])
    (Path(os.fsdecode(os.fsencode(root) + b"/data/\xff"))).write_bytes(b"foreign")
    assert listed(store) == ["a"]


NAMES = st.sampled_from([b"a", b"a.b", b"b", b"a\xff", "é".encode()])
TREES = st.sets(st.lists(NAMES, min_size=1, max_size=3).map(b"/".join), max_size=12)


@pytest.mark.parametrize("batch_rows", [1, 3])
@given(tree=TREES, after=TREES)
def test_a_listing_has_every_file_once_in_order(
    batch_rows: int, tree: set[bytes], after: set[bytes]
) -> None:
    """For any names, and any end of a batch."""
    with (
        TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        open_local(Path(folder)) as store,
    ):
        patch.setattr(local_store, "LIST_BATCH_ROWS", batch_rows)
        base = os.fsencode(folder) + b"/data/"
        for path in tree:
            with suppress(FileExistsError, IsADirectoryError, NotADirectoryError):
                os.makedirs(os.path.dirname(base + path), exist_ok=True)  # noqa: PTH103, PTH120
                Path(os.fsdecode(base + path)).write_bytes(path)
                os.utime(base + path, ns=(0, 1_000_000_001 * len(path)))
        there = [path for path in sorted(tree) if os.path.isfile(base + path)]  # noqa: PTH113
        spelled = [path for path in there if b"\xff" not in path]
        starts = [path.decode() for path in after if b"\xff" not in path]
        for start in (None, *starts):
            last = None if start is None else DATA.address(start)
            batches = list(store.list_objects(DATA, start_after=last))
            found = pa.Table.from_batches(batches, LIST_SCHEMA).to_pylist()
            expected = [each for each in spelled if start is None or each > start.encode()]
            addresses = [DATA.address(path.decode()) for path in expected]
            heads = [store.head(address) for address in addresses]
            assert [(row["address"], row["etag"], row["mtime"], row["size"]) for row in found] == [
                (str(head.address), head.etag, head.mtime, len(path))
                for head, path in zip(heads, expected, strict=True)
            ]
            assert all(0 < batch.num_rows <= batch_rows for batch in batches)


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_listing_has_one_folder_open_however_deep_and_closes_it(tmp_path: Path) -> None:
    deep = tmp_path / "/".join("abcdefgh")
    deep.mkdir(parents=True)
    (deep / "file").touch()
    before = _open_files()
    files = walk(os.fsencode(tmp_path), b"", b"")
    assert next(files)[0] == b"a/b/c/d/e/f/g/h/file"
    assert _open_files() == before + 1
    del files
    assert _open_files() == before


def test_a_folder_that_vanishes_while_it_is_listed_has_no_more_files(tmp_path: Path) -> None:
    for name in ("a/1", "a/2", "b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    files = walk(os.fsencode(tmp_path), b"", b"")
    assert next(files)[0] == b"a/1"
    shutil.rmtree(tmp_path / "a")
    assert [path for path, _ in files] == [b"b"]


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
