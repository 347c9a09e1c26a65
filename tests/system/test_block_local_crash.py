"""Local storage when its process is killed, when the disk is full, and when it may not write."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lakebed.block import (
    Address,
    BlockStore,
    Forbidden,
    LocalSettings,
    Namespace,
    StorageFull,
    open_block,
)
from tests.kit.rounds import rounds

DATA = Namespace.parse("local://data")
ROUNDS = rounds(6, long=60)

# Content depends on the path and on the write, so that a torn object could not look whole.
WRITER = """
import sys
from hashlib import sha256
from pathlib import Path
from lakebed.block import LocalSettings, Namespace, open_block

namespace = Namespace.parse("local://data")
with open_block(LocalSettings(Path(sys.argv[1]))) as store:
    for number in range(1_000_000):
        slot = number % 50
        address = namespace.address(f"{slot % 7}/{sys.argv[2]}-{slot}")
        seed = sha256(f"{address} {number}".encode()).digest()
        body = seed + seed * (number % 9 * 5000)
        if number % 3 == 0:
            half = len(body) // 2
            store.put(address, [body[:half], body[half:]])
        elif number % 3 == 1:
            upload_id = store.create_upload(address)
            parts = [
                store.put_part(address, upload_id, 1, [body[:20]], size=20),
                store.put_part(address, upload_id, 2, [body[20:]], size=len(body) - 20),
            ]
            store.complete_upload(address, upload_id, parts)
        else:
            store.delete(address)
            store.create(address, body)
        print(address, number, flush=True)
"""


@contextmanager
def writer(root: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", WRITER, str(root), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def is_whole(data: bytes) -> bool:
    return len(data) >= 32 and data == data[:32] * (len(data) // 32)


def test_a_killed_writer_leaves_only_whole_objects(tmp_path: Path) -> None:
    chance = random.Random(7)
    for round_number in range(ROUNDS):
        with writer(tmp_path, f"w{round_number}") as process:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            time.sleep(chance.uniform(0.0, 0.3))  # any moment will do
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        acknowledged = dict(line.split() for line in lines if line.endswith("\n"))
        last = max(map(int, acknowledged.values()))
        with open_block(LocalSettings(tmp_path)) as store:
            unlike = [
                address
                for address, number in acknowledged.items()
                if not is_as_acknowledged(store, Address.parse(address), int(number), last)
            ]
            # At most one write was under way when the writer died.
            assert len(unlike) <= 1
            for batch in store.list_objects(DATA):
                for address in batch.column("address").to_pylist():
                    assert is_whole(store.read(Address.parse(address)))


def is_as_acknowledged(store: BlockStore, address: Address, number: int, last: int) -> bool:
    """Whether the acknowledged write is there; if not, check that the next one explains it."""
    if not store.exists(address):
        # Only the deletion that was under way may have taken it.
        assert (last + 1) % 50 == number % 50
        assert (last + 1) % 3 == 2
        return False
    seed = store.read(address)[:32]
    if seed == sha256(f"{address} {number}".encode()).digest():
        return True
    assert seed == sha256(f"{address} {last + 1}".encode()).digest()
    return False


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child, that may give up its rights; return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - a forked child must never return
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_full_disk_is_reported_and_leaves_the_old_object(tmp_path: Path) -> None:
    # A limit on the size of files stands in for a full disk: the system refuses the write as it
    # would refuse it then. It is set in a process of its own, because it cannot be taken back.
    program = f"""
import resource
from pathlib import Path
from lakebed.block import Address, LocalSettings, StorageFull, open_block

address = Address.parse("local://data/object")
with open_block(LocalSettings(Path({str(tmp_path)!r}))) as store:
    store.put(address, [b"old"])
    upload_id = store.create_upload(address)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    for write in (
        lambda: store.put(address, [b"x" * 700_000] * 3),
        lambda: store.create(Address.parse("local://data/new"), b"x" * 2_000_000),
        lambda: store.put_part(address, upload_id, 1, [b"x" * 700_000] * 3, size=2_100_000),
    ):
        try:
            write()
        except StorageFull as error:
            print(error.kind)
    print(store.read(address).decode(), store.list_parts(address, upload_id))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert result.stdout.splitlines() == [StorageFull.kind] * 3 + ["old []"]
    assert list((tmp_path / ".lakebed" / "drafts").iterdir()) == []


def test_a_folder_that_may_not_be_written_is_forbidden() -> None:
    address = DATA.address("folder/object")
    # Not the usual folder for tests, which only its owner may enter.
    with TemporaryDirectory() as name, open_block(LocalSettings(Path(name))) as store:
        root = Path(name)
        store.put(address, [b"data"])
        for folder in (root, *root.glob(".lakebed/**"), root / "data"):
            folder.chmod(0o777)
        (root / "data" / "folder").chmod(0o555)

        def work() -> None:
            if os.geteuid() == 0:
                os.setuid(65534)  # root may write everywhere, nobody may not
            with open_block(LocalSettings(root)) as restricted:
                assert restricted.read(address) == b"data"
                for write in (
                    lambda: restricted.put(address, [b"new"]),
                    lambda: restricted.delete(address),
                    lambda: restricted.put(DATA.address("folder/new"), [b"new"]),
                ):
                    with pytest.raises(Forbidden, match="folder"):
                        write()
            with pytest.raises(Forbidden):
                open_block(LocalSettings(root / "data" / "folder" / "root"))

        assert in_child(work) == 0
        (root / "data" / "folder").chmod(0o755)
        assert store.read(address) == b"data"
