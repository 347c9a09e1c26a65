"""Local storage and other processes: one that replaces its files, one with another locale."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.block.local_storage import DATA, open_local

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


def test_names_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    root = tmp_path / "root"
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
