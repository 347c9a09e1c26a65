"""The page on tables does what it shows: Spark, Delta Lake and Iceberg, against a quickstart.

``make test-all PARTS=tables`` runs it, because Spark fetches its plug-ins from Maven.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.console import ROOT, Block, blocks
from tests.docs.shell import EXAMPLE, Quickstart, Shell, run_quickstart

pytestmark = pytest.mark.tables

PAGE: Final = ROOT / "docs/tables.md"
BLOCKS: Final = [block for block in blocks(PAGE) if not block.not_run]
TABLES: Final = Path(os.environ.get("LAKEBED_TEST_TABLES", ROOT / ".envs/tables"))
PATIENCE_SECONDS: Final = 900  # the first run fetches some hundred megabytes
SMALL: Final = [
    "spark.master local[2]",
    "spark.driver.memory 1g",
    "spark.sql.shuffle.partitions 2",
    "spark.ui.enabled false",
]


class Reader:
    """Somebody who does all that the page says, from its beginning."""

    def __init__(self, server: Quickstart, folder: Path, python: Path) -> None:
        self._server, self._folder, self._python = server, folder, python
        self._common: list[str] = []

    def set_up(self, properties: list[str]) -> None:
        """Write down settings of Spark: the first ones, or those of a plug-in beside them."""
        self._common = self._common or properties
        lines = [*SMALL, *self._common, *properties]
        text = "\n".join(lines).replace(EXAMPLE, self._server.address)
        (self._folder / "spark-defaults.conf").write_text(text)

    def run(self, block: Block) -> list[str]:
        """Run a program of the page; return what it prints."""
        program = self._folder / "program.py"
        program.write_text("\n".join(block.lines).replace(EXAMPLE, self._server.address))
        done = subprocess.run(
            [self._python, program],
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE_SECONDS,
            env=os.environ
            | {
                "SPARK_CONF_DIR": str(self._folder),
                "SPARK_LOCAL_IP": "127.0.0.1",
                # Plug-ins are kept there. A cache of Maven that has half of one would be believed.
                "SPARK_SUBMIT_OPTS": f"-Duser.home={TABLES}",
            },
        )
        where = f"{block.page.name}:{block.line}"
        assert done.returncode == 0, f"{where}: {done.stderr[-5000:]}"
        return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def test_every_block_of_the_page_does_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_quickstart(tmp_path / "server") as server:
        shell = Shell(server, tmp_path, monkeypatch)
        reader = Reader(server, tmp_path, TABLES / "bin/python")
        printed: list[str] = []
        for block in BLOCKS:
            match block.kind:
                case "console":
                    for step in block.steps():
                        shell.check(step)
                case "properties":
                    reader.set_up(block.lines)
                case "python":
                    printed = reader.run(block)
                case "text":
                    assert printed == block.lines, f"{PAGE.name}:{block.line}"


def test_the_newest_spark_reads_and_writes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the Hadoop of our own Spark, for which there are no plug-ins yet."""
    console, properties, program, output = BLOCKS[:4]
    with run_quickstart(tmp_path / "server") as server:
        shell = Shell(server, tmp_path, monkeypatch)
        for step in console.steps():
            shell.check(step)
        reader = Reader(server, tmp_path, Path(sys.executable))
        reader.set_up([line.replace(":3.4.2", ":3.5.0") for line in properties.lines])
        assert reader.run(program) == output.lines
