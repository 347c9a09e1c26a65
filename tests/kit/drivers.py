"""Drivers of other packages, installed for one test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base import plugins

RECORDS = """
from lakebed.kv.drivers.memory import MemoryStore
def open_driver(url, runtime):
    return MemoryStore(runtime)
"""
STORAGE = """
from lakebed.block.drivers.memory import MemoryBlockStore
class Shelf(MemoryBlockStore):
    scheme = "shelf"
def open_driver(url, runtime):
    return Shelf(runtime)
"""


class Packages:
    """A folder of installed packages."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.syspath_prepend(folder)

    def install(
        self, package: str, source: str, *, group: str = "lakebed.kv", scheme: str = "shelf"
    ) -> None:
        """Install a package whose only module is the driver of a scheme."""
        (self._folder / f"{package}.py").write_text(source)
        metadata = self._folder / f"{package}-1.0.dist-info"
        metadata.mkdir()
        name = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(name)
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{scheme} = {package}\n")
        self._monkeypatch.delitem(sys.modules, package, raising=False)
        plugins._registered.cache_clear()


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Packages]:
    """Return the folder of a test's own packages."""
    with pytest.MonkeyPatch.context() as patched:
        yield Packages(tmp_path, patched)
    plugins._registered.cache_clear()
