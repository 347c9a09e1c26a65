"""Real power failures, of a disk that is a file: what was acknowledged outlives them.

A process writes to a file system in a file. It is stopped, and the file is copied as it is: what
the system had not written yet is missing from the copy, as it would be from a disk. The copy is
mounted, and whoever opens the storage on it must find all that was acknowledged.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

import pytest

from lakebed.block import StorageUnavailable
from tests.block.local_storage import DATA, open_local

pytestmark = pytest.mark.power

DISK_BYTES: Final = 512 << 20

WRITER: Final = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from tests.block.local_storage import DATA, open_local

store = open_local(Path(sys.argv[1]))


def write(thread):
    for number in count():
        name = f"{thread}/{number // 50}/{number}"
        store.put_unreferenced(DATA.address(name), [name.encode()])
        store.create_by_content([(DATA.address(f"c/{name}"), name.encode())])
        os.write(1, f"{name}\\n".encode())


with ThreadPoolExecutor(4) as pool:
    list(pool.map(write, range(4)))
"""


@contextmanager
def mounted(disk: Path, place: Path) -> Iterator[Path]:
    """Mount a disk that is a file."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", str(disk), str(place)], check=True)
    try:
        yield place / "root"
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("options", [[], ["-O", "^has_journal"]], ids=["journal", "no journal"])
def test_acknowledged_writes_exist(tmp_path: Path, options: list[str]) -> None:
    disk, image = tmp_path / "disk", tmp_path / "image"
    for _ in range(10):
        disk.unlink(missing_ok=True)
        disk.touch()
        os.truncate(disk, DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", *options, str(disk)], check=True)
        with mounted(disk, tmp_path / "there") as root:
            names = write_until_the_failure(root, disk, image)
        # As a machine does that starts: without a journal of its own, the file system needs it.
        subprocess.run(["e2fsck", "-f", "-y", str(image)], stdout=subprocess.DEVNULL, check=False)
        with mounted(image, tmp_path / "there") as root, open_local(root) as store:
            for name in names:
                assert store.read(DATA.address(name)) == name.encode()
                assert store.read(DATA.address(f"c/{name}")) == name.encode()


def write_until_the_failure(root: Path, disk: Path, image: Path) -> list[str]:
    """Have a process write to a storage, copy its disk, and return what was acknowledged then."""
    command = [sys.executable, "-c", WRITER, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        names = [writer.stdout.readline().strip() for _ in range(random.randint(1, 3000))]
        writer.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WNOWAIT)
        shutil.copyfile(disk, image)
        writer.kill()
    return names


# A disk that fails for a while


class ThinDisk:
    """A disk that promises more room than there is.

    When that is used up, what was never written cannot be written any more. Its file system has
    room for itself, so that only files are hurt.
    """

    def __init__(self, folder: Path) -> None:
        self._pool, self._place = folder / "pool", folder / "there"
        for each in (self._pool, self._place):
            each.mkdir()
        self._disk, self._others = self._pool / "disk", self._pool / "others"
        self.root = self._place / "root"

    def __enter__(self) -> Self:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "pool", self._pool], check=True)
        self._disk.touch()
        os.truncate(self._disk, DISK_BYTES // 2)
        options = ["-E", "lazy_itable_init=0,nodiscard", "-J", "size=4", "-N", "2048"]
        subprocess.run(["mkfs.ext4", "-q", "-F", *options, self._disk], check=True)
        self._use_room_of_file_system()
        self._mount()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._place, self._pool):
            subprocess.run(["umount", each], check=False)

    def _use_room_of_file_system(self) -> None:
        """Write each block again that is not free: some of them were left out, as zeros."""
        command = ["dumpe2fs", str(self._disk)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        block_bytes = int(re.findall(r"Block size: +(\d+)", said)[0])
        blocks = set(range(DISK_BYTES // 2 // block_bytes))
        for free in re.findall(r"^  Free blocks: (.+)$", said, re.MULTILINE):
            for stretch in free.split(", "):
                first, _, last = stretch.partition("-")
                blocks -= set(range(int(first), int(last or first) + 1))
        with self._disk.open("r+b", buffering=0) as disk:
            for block in blocks:
                content = os.pread(disk.fileno(), block_bytes, block * block_bytes)
                os.pwrite(disk.fileno(), content, block * block_bytes)

    def _mount(self) -> None:
        options = ["-o", "loop,errors=continue"]
        subprocess.run(["mount", *options, self._disk, self._place], check=True)

    def forget(self) -> None:
        """Let the system forget all that it holds of the disk in memory."""
        subprocess.run(["umount", self._place], check=True)
        self._mount()

    def fail(self) -> None:
        """Use up the room; the last of it through the disk itself, until it says so."""
        for path, is_synced in ((self._others, False), (self._place / "more", True)):
            with suppress(OSError), path.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
                    if is_synced:
                        os.fsync(file.fileno())

    def work(self) -> None:
        """Give room again."""
        self._others.unlink()


ACKNOWLEDGED: Final = 40


def content(number: int) -> bytes:
    """Return what is in an object."""
    return b"acknowledged %d" % number * 300


def make_folders(disk: ThinDisk) -> None:
    """Have the folders of objects on the disk, so that it lacks room for objects alone."""
    with open_local(disk.root) as store:
        for name in ("a/before", "c/before"):
            store.put(DATA.address(name), [b"data"])
    disk.forget()


def test_failed_syncs_are_not_acknowledged(tmp_path: Path) -> None:
    objects = [(DATA.address(f"c/{number}"), content(number)) for number in range(ACKNOWLEDGED)]
    with ThinDisk(tmp_path) as disk:
        make_folders(disk)
        with open_local(disk.root) as store, ThreadPoolExecutor(1) as pool:
            for address, data in objects[:20]:
                pool.submit(store.create_by_content, [(address, data)]).result()
            disk.fail()
            with pytest.raises(StorageUnavailable):
                pool.submit(store.create_by_content, objects).result()
            disk.work()
            pool.submit(store.create_by_content, objects).result()
        disk.forget()
        with open_local(disk.root) as store:
            for address, data in objects:
                assert store.read(address) == data
