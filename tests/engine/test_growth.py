"""A database holds no more keys after many uploads and commits than after a few."""

from pathlib import Path

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import Store, open_store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.fenced import FencedStore
from lakebed.kv.managed import ManagedStore
from lakebed.reclaim import cleaner
from tests.kit.growth import MemoryCells, check_growth


def open_cells(runtime: ThreadRuntime) -> Store:
    return ManagedStore(FencedStore(MemoryCells(MemoryStore(runtime)), runtime), runtime)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "cells"])
def test_a_database_keeps_no_keys_of_what_was_staged(kind: str, tmp_path: Path) -> None:
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/kv.db"
    with open_cells(ThreadRuntime()) if kind == "cells" else open_store(url) as store:
        check_growth(store, rounds=20, uploads=50)


def test_tombstones_of_all_pages_of_a_token_are_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "BATCH", 7)
    with open_cells(ThreadRuntime()) as store:
        check_growth(store, rounds=2, uploads=50)
