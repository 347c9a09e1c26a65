"""The bytes taken from a file and the remaining chunks together are the object."""

import os
from pathlib import Path

import pytest

from lakebed.block import BlockStore, FromOffset
from tests.block.local_storage import DATA, open_files

BYTES = os.urandom((3 << 20) + 5)


@pytest.mark.parametrize("start", [0, 1, len(BYTES) - 1])
def test_what_is_taken_and_the_chunks_behind_it_are_the_bytes(
    store: BlockStore, root: Path, start: int
) -> None:
    store.put(DATA.address("a"), [BYTES])
    before, size = open_files(root), len(BYTES) - start
    for taken in (0, 1, size // 2, size):
        with store.get(DATA.address("a"), byte_range=FromOffset(start)) as stream:
            file = stream.file
            assert file is not None
            found = os.pread(file.descriptor, taken, file.start)
            file.take(taken, 0.0)
            assert found + b"".join(stream) == BYTES[start:]
            assert (file.size, file.taken) == (size, taken)
        assert open_files(root) == before
