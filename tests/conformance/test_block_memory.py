import os

import pytest

from lakebed.block import BlockSettings, BlockStore, MemorySettings, Namespace
from lakebed.testing.conformance.block import MIB, BlockConformance


class TestMemoryBlockStore(BlockConformance):
    @pytest.fixture
    def settings(self) -> BlockSettings:
        return MemorySettings()

    @pytest.fixture
    def place(self) -> str:
        return "mem://data/somewhere"

    def test_large_objects_stream(self, store: BlockStore, namespace: Namespace) -> None:
        # Objects are in memory, so memory is not bounded; what can be shown is that they come back
        # in pieces.
        data = os.urandom(10 * MIB)
        store.put(namespace.address("large"), [data])
        pieces = list(store.get(namespace.address("large")))
        assert max(map(len, pieces)) <= MIB
        assert b"".join(pieces) == data
