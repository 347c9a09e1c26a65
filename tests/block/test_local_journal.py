"""Local storage: the journal of small files, and what it brings back after a power failure.

A power failure is played by a copy of the storage, in which files are damaged that nobody synced.
"""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.block import (
    BlockStore,
    Forbidden,
    InvalidArgument,
    LocalSettings,
    ObjectNotFound,
    StorageUnavailable,
    open_block,
)
from lakebed.block.drivers.local import journal
from tests.block.local_storage import DATA, listed, open_files, open_local

ResultT = TypeVar("ResultT")

WAIT_SECONDS: Final = 20.0


@pytest.fixture(autouse=True)
def from_the_first_file_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note every small file, on every file system, in segments that last."""
    monkeypatch.setattr(journal, "FEW_FILES", 0)
    monkeypatch.setattr(journal, "SEGMENT_SECONDS", 3600.0)
    monkeypatch.setattr(journal, "can_sync_file_system", lambda _descriptor: True)


def in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Do something in another thread than the main one, as servers do."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(WAIT_SECONDS)


def put(store: BlockStore, name: str, data: bytes = b"data") -> None:
    in_thread(lambda: store.put_unnamed(DATA.address(name), [data]))


def segments(root: Path) -> list[Path]:
    return list((root / ".lakebed" / "journal").iterdir())


def crash(root: Path, image: Path) -> Path:
    """Return a copy of a storage, as a machine finds it that was switched off and on again."""
    shutil.rmtree(image, ignore_errors=True)
    shutil.copytree(root, image)
    return image


def synced(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each sync, by what is synced."""
    steps: list[str] = []

    def noting(sync: Callable[[int], None]) -> Callable[[int], None]:
        def note(descriptor: int) -> None:
            path = os.path.relpath(Path(f"/proc/self/fd/{descriptor}").readlink(), root)
            steps.append("segment" if path.startswith(".lakebed/journal/") else path)
            sync(descriptor)

        return note

    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
    return steps


def inodes(root: Path) -> dict[str, int]:
    """Return which file each object is."""
    data = root / "data"
    return {str(each.relative_to(data)): each.stat().st_ino for each in data.rglob("*.txt")}


# What is noted


def test_a_small_file_costs_one_wait_for_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_local(root) as store:
        put(store, "a/1")
        steps = synced(root, monkeypatch)
        put(store, "a/2")
        assert steps == ["segment"]
        steps.clear()
        put(store, "new/folder/3")  # what is written anew gets its folders back, too
        assert steps == ["segment"]
        steps.clear()
        contents = [(DATA.address(f"ranges/{number}"), b"%d" % number) for number in range(3)]
        assert in_thread(lambda: store.create_by_content(contents)) == [True] * 3
        assert steps == ["segment"]
        assert listed(store) == ["a/1", "a/2", "new/folder/3", "ranges/0", "ranges/1", "ranges/2"]


def test_files_are_whole_and_at_their_places_when_they_are_noted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the end of the segment might come before theirs."""
    found: list[bytes] = []
    add = journal.Journal.add

    def look_first(self: journal.Journal, files: Sequence[tuple[str, bytes]]) -> bool:
        found.extend((root / path.removeprefix("local://")).read_bytes() for path, _ in files)
        return add(self, files)

    monkeypatch.setattr(journal.Journal, "add", look_first)
    with open_local(root) as store:
        put(store, "a", b"1")
        contents = [(DATA.address("b"), b"2"), (DATA.address("c"), b"3")]
        in_thread(lambda: store.create_by_content(contents))
    assert found == [b"1", b"2", b"3"]


def test_a_new_segment_is_on_the_disk_before_anything_is_noted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_local(root) as store:
        steps = synced(root, monkeypatch)
        put(store, "a/1")
        draft, *rest = steps
        assert draft.startswith(".lakebed/drafts/")
        assert rest == [".lakebed/journal", "segment"]


def test_few_files_have_no_journal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FEW_FILES", 3)
    with open_local(root) as store:
        steps = synced(root, monkeypatch)
        for number in range(3):
            put(store, f"{number}")
        assert steps == [".", "data/0", "data", "data/1", "data", "data/2", "data"]
        assert not segments(root)
        put(store, "3")
        assert len(segments(root)) == 1


def test_few_files_in_a_while_have_no_journal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "FEW_FILES", 1)
    monkeypatch.setattr(journal, "SEGMENT_SECONDS", 0.0)
    with open_local(root) as store:
        for number in range(5):
            put(store, f"{number}")
            assert not segments(root)


def test_what_is_large_or_replaces_something_is_not_noted(root: Path) -> None:
    with open_local(root) as store:
        put(store, "large", b"x" * (journal.FILE_BYTES_MAX + 1))
        in_thread(lambda: store.put(DATA.address("named"), [b"data"]))
        in_thread(lambda: store.put_unnamed(DATA.address("named"), [b"other"]))
        assert store.read(DATA.address("named")) == b"other"
        assert not segments(root)
        put(store, "small", b"x" * journal.FILE_BYTES_MAX)
        assert len(segments(root)) == 1


def test_the_main_thread_waits_for_nobody(root: Path) -> None:
    """Ctrl-C may break it off anywhere, and others would wait for it in vain."""
    with open_local(root) as store:
        store.put_unnamed(DATA.address("a"), [b"data"])
        store.create_by_content([(DATA.address("b"), b"data")])
        assert not segments(root)


def test_without_sync_there_is_no_journal(root: Path) -> None:
    with open_block(LocalSettings(root, sync=False)) as store:
        put(store, "a")
        assert not segments(root)


def test_where_syncs_of_all_are_not_known_to_work_there_is_no_journal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(journal, "FEW_FILES", 0)
    monkeypatch.setattr(journal, "_FILE_SYSTEMS", frozenset())
    with open_local(root) as store:
        put(store, "a")
        assert not segments(root)
    descriptor = os.open("/proc", os.O_RDONLY)
    try:
        monkeypatch.setattr(journal, "_FILE_SYSTEMS", frozenset({0x9FA0}))  # that of /proc
        assert journal.can_sync_file_system(descriptor)
        monkeypatch.setattr("platform.release", lambda: "5.7.19-generic")
        assert not journal.can_sync_file_system(descriptor)
        monkeypatch.setattr("platform.release", lambda: "unknown")
        assert not journal.can_sync_file_system(descriptor)
    finally:
        os.close(descriptor)


# After a power failure


def lose(path: Path, how: str) -> None:
    """Leave of a file what a disk may have of one that was not synced."""
    if how == "missing":
        path.unlink()
    elif how == "folder missing":
        shutil.rmtree(path.parent)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "zeros":
        path.write_bytes(bytes(path.stat().st_size))


LOSSES: Final = ("nothing", "missing", "folder missing", "empty", "cut", "zeros")


@settings(deadline=None)
@given(
    contents=st.lists(
        st.tuples(st.integers(0, 3), st.binary(max_size=50), st.sampled_from(LOSSES)), max_size=6
    ),
    by_content=st.booleans(),
)
def test_whatever_the_disk_has_lost_is_written_anew(
    tmp_path_factory: pytest.TempPathFactory,
    contents: list[tuple[int, bytes, str]],
    by_content: bool,
) -> None:
    folder = tmp_path_factory.mktemp("power")
    root = folder / "root"
    objects = {
        DATA.address(f"{place}/{number}"): data for number, (place, data, _) in enumerate(contents)
    }
    with open_local(root) as store:

        def write() -> None:
            if by_content:
                store.create_by_content(list(objects.items()))
            else:
                for address, data in objects.items():
                    store.put_unnamed(address, [data])

        in_thread(write)
        image = crash(root, folder / "image")
    for address, (_, _, how) in zip(objects, contents, strict=True):
        path = image / "data" / address.path
        if path.exists():  # not so if its folder is lost
            lose(path, how)
    with open_local(image) as store:
        assert {address: store.read(address) for address in objects} == objects
        assert sorted(listed(store)) == sorted(address.path for address in objects)
    assert not segments(image)


def test_a_journal_that_is_cut_anywhere_has_what_was_noted_before(root: Path) -> None:
    with open_local(root) as store:
        put(store, "a", b"first")
        put(store, "b", b"second")
        (segment,) = segments(root)
        whole = segment.read_bytes().rstrip(b"\0")
    found = []
    for end in range(len(whole) + 1):
        noted = list(journal.read_segment(BytesIO(whole[:end] + bytes(10)), "segment"))
        if noted not in found:
            found.append(noted)
    first, second = (str(DATA.address("a")), b"first"), (str(DATA.address("b")), b"second")
    assert found == [[], [first], [first, second]]


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_damaged_record_is_taken_for_a_file(place: int, bit: int) -> None:
    whole = bytearray(SEGMENT)
    whole[place % len(whole)] ^= 1 << bit
    try:
        noted = list(journal.read_segment(BytesIO(bytes(whole)), "segment"))
    except InvalidArgument:
        return  # it is of another version now
    assert noted in (NOTED[:1], NOTED[:0])


NOTED: Final = [("local://data/a", b"first"), ("local://data/b", b"second")]


def _segment_of(files: list[tuple[str, bytes]]) -> bytes:
    with TemporaryDirectory() as folder:
        segment = journal._Segment(Path(folder), Path(folder))
        segment.add(files)
        segment.close()
        return segment.path.read_bytes()[: segment.size]


SEGMENT: Final = _segment_of(NOTED)


def test_a_record_of_another_segment_is_not_taken_for_one_of_this() -> None:
    """A disk may show what lay there before, which was removed long ago."""
    other = _segment_of(NOTED)
    header = journal._HEADER_BYTES
    assert list(journal.read_segment(BytesIO(SEGMENT), "segment")) == NOTED
    mixed = SEGMENT[:header] + other[header:]
    assert list(journal.read_segment(BytesIO(mixed), "segment")) == []


def test_a_segment_of_a_later_version_is_not_thrown_away(root: Path) -> None:
    open_local(root).close()
    later = root / ".lakebed" / "journal" / "later"
    later.write_bytes(b"lakebed journal 2\n" + bytes(100))
    with pytest.raises(InvalidArgument, match="later version"):
        open_local(root)
    assert later.exists()
    assert open_files(root) == 0


# The end of segments


def test_a_segment_is_removed_when_all_is_on_the_disk(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SEGMENT_SECONDS", 0.05)
    there: list[list[Path]] = []
    is_synced = threading.Event()

    def sync(_descriptor: int) -> None:
        there.append(segments(root))
        is_synced.set()

    monkeypatch.setattr(journal, "sync_file_system", sync)
    with open_local(root) as store:
        put(store, "a/1")
        assert is_synced.wait(WAIT_SECONDS)
        store.close()
    assert [len(each) for each in there] == [1]
    assert not segments(root)
    assert open_files(root) == 0


def test_closing_ends_the_segment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_local(root) as store:
        put(store, "a/1")
        assert segments(root)
        steps = synced(root, monkeypatch)
    assert not segments(root)
    assert steps == [".lakebed/journal"]  # one that came back would bring deleted files back
    assert open_files(root) == 0


def test_what_cannot_be_brought_to_the_disk_together_is_written_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may have dropped what it could not write, and shows it all the same."""

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(journal, "sync_file_system", fail)
    with open_local(root) as store:
        put(store, "a/1.txt")
        before = inodes(root)
        steps = synced(root, monkeypatch)
    assert len([step for step in steps if step.startswith(".lakebed/drafts/")]) == 1
    assert "data/a" in steps
    assert inodes(root)["a/1.txt"] != before["a/1.txt"]
    assert (root / "data/a/1.txt").read_bytes() == b"data"
    assert not segments(root)


def test_a_segment_whose_files_cannot_be_written_again_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(journal, "sync_file_system", fail)
    with open_local(root) as store:
        put(store, "a/1.txt")
        with monkeypatch.context() as broken:
            broken.setattr(os, "rename", fail)
            store.close()
    assert len(segments(root)) == 1
    assert "is kept" in caplog.text
    # It is seen as it was, which does not mean that the disk has it.
    before = inodes(root)
    monkeypatch.setattr(journal, "sync_file_system", lambda _descriptor: None)
    with open_local(root) as store:
        assert store.read(DATA.address("a/1.txt")) == b"data"
    assert inodes(root)["a/1.txt"] != before["a/1.txt"]
    assert not segments(root)


def test_whoever_opens_a_storage_writes_anew_what_is_seen_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may show what it could not write, and tell nobody who comes later."""
    with open_local(root) as store:
        in_thread(lambda: store.create_by_content([(DATA.address("c.txt"), b"data")]))
        put(store, "a/1.txt")
        image = crash(root, root.parent / "image")
    seen, synced_then = inodes(image), []
    monkeypatch.setattr(
        journal, "sync_file_system", lambda _descriptor: synced_then.append(inodes(image))
    )
    with open_local(image) as store:
        assert inodes(image) == synced_then.pop()
        assert not synced_then
        assert not inodes(image).items() & seen.items()
        assert inodes(image).keys() == seen.keys() == {"c.txt", "a/1.txt"}
        assert store.read(DATA.address("a/1.txt")) == store.read(DATA.address("c.txt")) == b"data"
    assert not segments(image)


def test_where_syncs_of_all_tell_nothing_each_file_is_synced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_local(root) as store:
        put(store, "a/1")
        put(store, "b/2")
        image = crash(root, root.parent / "image")
    monkeypatch.setattr(journal, "can_sync_file_system", lambda _descriptor: False)
    steps = synced(image, monkeypatch)
    with open_local(image) as store:
        assert len([step for step in steps if step.startswith(".lakebed/drafts/")]) == 2
        assert {"data/a", "data/b"} <= set(steps)
        assert store.read(DATA.address("b/2")) == b"data"
    assert not segments(image)


# What fails


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
def test_what_cannot_be_noted_is_synced_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_local(root) as store:
        put(store, "a/1")
        steps = synced(root, monkeypatch)
        with monkeypatch.context() as broken:
            broken.setattr(os, call, fail)
            put(store, "b/c/2")
            # The name of each folder above it, too.
            assert steps == [".", "data", "data/b", "data/b/c/2", "data/b/c"]
            steps.clear()
            contents = [(DATA.address("b/3"), b"data"), (DATA.address("b/4"), b"data")]
            in_thread(lambda: store.create_by_content(contents))
            assert steps.count("data/b") == 2
        # Nothing is added behind what may be broken, also for those who asked before.
        notes = store._inner._journal  # type: ignore[attr-defined]
        assert not notes.add([(str(DATA.address("a/1")), b"data")])
        steps.clear()
        put(store, "a/5")
        assert "segment" not in steps
        assert store.read(DATA.address("b/c/2")) == b"data"
        image = crash(root, root.parent / "image")
    (image / "data/a/1").unlink()
    with open_local(image) as store:
        assert store.read(DATA.address("a/1")) == b"data"


def test_what_can_neither_be_noted_nor_synced_is_no_success(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_local(root) as store:
        put(store, "a/1")
        monkeypatch.setattr(os, "fdatasync", fail)
        monkeypatch.setattr(os, "fsync", fail)
        for write in (
            lambda: put(store, "a/2"),
            lambda: in_thread(lambda: store.create_by_content([(DATA.address("a/3"), b"")])),
        ):
            with pytest.raises(StorageUnavailable) as caught:
                write()
            assert caught.type is StorageUnavailable
        monkeypatch.undo()


def test_a_system_that_gives_no_more_threads_is_no_obstacle(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with open_local(root) as store, ThreadPoolExecutor(1) as pool:
        pool.submit(int).result(WAIT_SECONDS)  # its own thread is there by now
        with monkeypatch.context() as poor:
            poor.setattr(threading.Thread, "start", refuse)
            written = pool.submit(store.put_unnamed, DATA.address("a"), [b"data"])
            written.result(WAIT_SECONDS)
        assert store.read(DATA.address("a")) == b"data"
    assert not segments(root)


def test_everyone_is_answered_if_a_batch_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them sync their own files then."""
    arrived = threading.Semaphore(0)
    go_on = threading.Event()
    fdatasync = os.fdatasync

    def slow(descriptor: int) -> None:
        arrived.release()
        assert go_on.wait(WAIT_SECONDS)
        fdatasync(descriptor)

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_local(root) as store:
        put(store, "a/0")
        notes = store._inner._journal  # type: ignore[attr-defined]
        with ThreadPoolExecutor(4) as pool:
            monkeypatch.setattr(os, "fdatasync", slow)
            first = pool.submit(store.put_unnamed, DATA.address("a/1"), [b"data"])
            assert arrived.acquire(timeout=WAIT_SECONDS)
            others = [
                pool.submit(store.put_unnamed, DATA.address(f"a/{number}"), [b"data"])
                for number in (2, 3, 4)
            ]
            while len(notes._gathering.files) < 3:
                threading.Event().wait(0.001)
            monkeypatch.setattr(os, "fdatasync", fail)
            steps = synced(root, monkeypatch)
            go_on.set()
            for each in (first, *others):
                each.result(WAIT_SECONDS)
        assert {f"data/a/{number}" for number in (2, 3, 4)} <= set(steps)
        assert listed(store) == ["a/0", "a/1", "a/2", "a/3", "a/4"]


def test_a_folder_that_another_removed_is_made_again(root: Path) -> None:
    with open_local(root) as store, open_local(root) as other:
        put(store, "a/b/1")
        other.delete(DATA.address("a/b/1"))
        assert not (root / "data").exists()
        put(store, "a/b/2")
        assert listed(other) == ["a/b/2"]


# Other processes


def test_the_journal_of_a_process_that_lives_is_left_alone(root: Path) -> None:
    with open_local(root) as store:
        put(store, "a/1")
        open_local(root).close()
        assert len(segments(root)) == 1
        put(store, "a/2")
        assert len(segments(root)) == 1


def test_a_segment_that_is_being_made_is_not_taken_for_one_left_behind(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its maker waits for the interpreter between two steps."""
    flock, rename = fcntl.flock, Path.rename

    def open_another() -> None:
        with monkeypatch.context() as plain:
            plain.setattr(fcntl, "flock", flock)
            plain.setattr(Path, "rename", rename)
            open_local(root).close()

    def open_then_lock(file: int, operation: int) -> None:
        open_another()
        flock(file, operation)
        open_another()

    def open_then_rename(path: Path, target: Path) -> Path:
        open_another()
        moved = rename(path, target)
        open_another()
        return moved

    with open_local(root) as store:
        monkeypatch.setattr(fcntl, "flock", open_then_lock)
        monkeypatch.setattr(Path, "rename", open_then_rename)
        put(store, "a/1")
        monkeypatch.undo()
        image = crash(root, root.parent / "image")
    (image / "data/a/1").write_bytes(b"")
    with open_local(image) as store:
        assert store.read(DATA.address("a/1")) == b"data"


def test_a_segment_of_another_user_keeps_nobody_from_the_others(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with open_local(root) as store:
        put(store, "a/1")
        image = crash(root, root.parent / "image")
    left = segments(image)[0]
    foreign = {left.with_name("foreign"), left.with_name("~foreign")}
    for path in foreign:
        shutil.copy(left, path)
    (image / "data/a/1").unlink()
    take_over = journal._take_over

    def refuse(path: Path) -> BinaryIO | None:
        if path in foreign:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return take_over(path)

    monkeypatch.setattr(journal, "_take_over", refuse)
    with open_local(image) as store:
        assert store.read(DATA.address("a/1")) == b"data"
        assert set(segments(image)) == foreign
        assert "is left to its owner" in caplog.text
        # It could bring back what is purged here.
        (result,) = store.delete_versions([DATA.address("a/1")])
        assert isinstance(result.error, Forbidden)


def test_whoever_opens_a_storage_waits_for_those_who_bring_files_back(root: Path) -> None:
    open_local(root).close()
    (root / ".lakebed" / "journal" / "left").touch()
    with (root / ".lakebed" / "journal.lock").open("wb") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        opened = pool.submit(open_local, root)
        with pytest.raises(TimeoutError):
            opened.result(0.2)
        fcntl.flock(lock, fcntl.LOCK_UN)
        opened.result(WAIT_SECONDS).close()


def test_who_may_not_write_the_journal_can_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with open_local(root) as store:
        put(store, "a/1")
        monkeypatch.setattr(journal, "locked_file", refuse)
        with open_local(root) as other:
            assert other.read(DATA.address("a/1")) == b"data"
    assert "is left to its owner" in caplog.text


def test_what_is_purged_does_not_come_back(root: Path) -> None:
    with open_local(root) as store:
        put(store, "a/1")
        put(store, "a/2")
        image = crash(root, root.parent / "image")
    left = segments(image)[0].read_bytes()
    segments(image)[0].unlink()
    with open_local(image) as store:
        # Left behind after this one was opened.
        (image / ".lakebed" / "journal" / "left").write_bytes(left)
        assert [each.versions for each in store.delete_versions([DATA.address("a/1")])] == [1]
        assert not segments(image)
    with open_local(image) as store:
        assert listed(store) == ["a/2"]


# By content


def test_what_a_power_failure_left_of_a_file_is_not_taken_for_it(root: Path) -> None:
    address = DATA.address("ranges/1")
    for is_noted in (False, True):
        with open_local(root) as store:
            path = root / "data/ranges/1"
            for left in (b"", b"da", bytes(4)):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(left)
                create = partial(store.create_by_content, [(address, b"data")])
                assert (in_thread(create) if is_noted else create()) == [True]
                assert store.read(address) == b"data"


@pytest.mark.parametrize("is_noted", [False, True])
def test_a_file_that_is_there_is_written_anew(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_noted: bool
) -> None:
    """It may be seen, and not be on the disk; or be there, and not its name.

    What it is replaced by is on the disk first: a power failure must not leave less.
    """
    with open_local(root) as store, open_local(root) as other:
        objects = [(DATA.address("ranges/1.txt"), b"data")]
        other.create_by_content(objects)
        if is_noted:
            put(store, "ranges/before")  # which makes a segment
        before = inodes(root)
        steps = synced(root, monkeypatch)
        create = partial(store.create_by_content, objects)
        assert (in_thread(create) if is_noted else create()) == [False]
        assert inodes(root)["ranges/1.txt"] != before["ranges/1.txt"]
        draft, *names = steps
        assert draft.startswith(".lakebed/drafts/")
        assert names == (["segment"] if is_noted else [".", "data", "data/ranges"])
        assert store.read(objects[0][0]) == b"data"


# Real deaths

WRITER: Final = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from lakebed.block.drivers.local import journal
from tests.block.local_storage import DATA, open_local

journal.FEW_FILES = 0
journal.SEGMENT_SECONDS = 0.05
journal.can_sync_file_system = lambda _descriptor: True
store = open_local(Path(sys.argv[1]))


def write(thread):
    for number in count():
        name = f"{thread}/{number}"
        store.put_unnamed(DATA.address(name), [name.encode()])
        store.create_by_content([(DATA.address(f"c/{name}"), name.encode())])
        os.write(1, f"{name}\\n".encode())  # in one piece, whatever other threads say


with ThreadPoolExecutor(4) as pool:
    list(pool.map(write, range(4)))
"""


def test_a_process_that_is_killed_leaves_all_that_it_acknowledged(root: Path) -> None:
    for acknowledged in (1, 50, 400):
        command = [sys.executable, "-c", WRITER, str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            names = [process.stdout.readline().strip() for _ in range(acknowledged)]
            process.kill()
            names += process.stdout.read().split("\n")[:-1]
        with open_local(root) as store:
            for name in names:
                assert store.read(DATA.address(name)) == name.encode()
                assert store.read(DATA.address(f"c/{name}")) == name.encode()
        assert not segments(root)
        shutil.rmtree(root)


@pytest.fixture
def busy(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockStore]:
    """A store whose segments end all the time."""
    monkeypatch.setattr(journal, "SEGMENT_SECONDS", 0.01)
    with open_local(root) as store:
        yield store


def test_many_write_while_segments_end(busy: BlockStore, root: Path) -> None:
    def write(thread: int) -> None:
        for number in range(40):
            busy.put_unnamed(DATA.address(f"{thread}/{number}"), [b"%d" % number])
            busy.create_by_content([(DATA.address(f"shared/{number}"), b"%d" % number)])
            if number % 5 == 0:
                busy.delete(DATA.address(f"{thread}/{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    busy.close()
    assert not segments(root)
    with open_local(root) as store:
        kept = [f"{n}/{number}" for n in range(8) for number in range(40) if number % 5]
        assert sorted(listed(store)) == sorted([*kept, *(f"shared/{n}" for n in range(40))])
        with pytest.raises(ObjectNotFound):
            store.read(DATA.address("0/0"))
