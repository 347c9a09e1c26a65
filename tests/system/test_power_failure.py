"""Real power failures, of a disk that is a file: what was acknowledged outlives them.

A process writes to a file system in a file. It is stopped, and the file is copied as it is: what
the system had not written yet is missing from the copy, as it would be from a disk. The copy is
mounted, and whoever opens the storage on it must find all that was acknowledged.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.block.local_storage import DATA, open_local

pytestmark = pytest.mark.power

DISK_BYTES: Final = 512 << 20

WRITER: Final = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from lakebed.block.drivers.local import journal
from tests.block.local_storage import DATA, open_local

journal.SEGMENT_SECONDS = 0.3
store = open_local(Path(sys.argv[1]))


def write(thread):
    for number in count():
        name = f"{thread}/{number // 50}/{number}"
        store.put_unnamed(DATA.address(name), [name.encode()])
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
def test_what_was_acknowledged_is_there(tmp_path: Path, options: list[str]) -> None:
    disk, image = tmp_path / "disk", tmp_path / "image"
    lost = 0
    for _ in range(10):
        disk.unlink(missing_ok=True)
        disk.touch()
        os.truncate(disk, DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-F", *options, str(disk)], check=True)
        with mounted(disk, tmp_path / "there") as root:
            names = write_until_the_failure(root, disk, image)
        # As a machine does that starts: without a journal of its own, the file system needs it.
        subprocess.run(["e2fsck", "-f", "-y", str(image)], stdout=subprocess.DEVNULL, check=False)
        with mounted(image, tmp_path / "there") as root:
            lost += sum(not (root / "data" / name).exists() for name in names)
            with open_local(root) as store:
                for name in names:
                    assert store.read(DATA.address(name)) == name.encode()
                    assert store.read(DATA.address(f"c/{name}")) == name.encode()
    assert lost > 0, "the disk never lacked a file: nothing was tried"


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
