"""`lakebed migrate` against one installation, and what it left there."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LocalSettings, open_block
from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.kv import open_store
from tests.clients.migrate.lakes import FakeLakeFS
from tests.kit import staging
from tests.kit.engines import new_engine

LAST = ("--last", "--uncommitted")


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


class Commands:
    """Runs commands against one installation."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.config = folder / "lakebed.yaml"
        self.blocks = folder / "blocks"
        self.config.write_text(
            f"database: {{url: 'sqlite:///{folder}/lakebed.db'}}\n"
            f"blockstore: {{type: local, local: {{root: '{self.blocks}'}}}}\n"
        )

    def run(self, *arguments: str) -> Result:
        code = running.run(cli.app, [*arguments, "--config", str(self.config)])
        printed = self._capsys.readouterr()
        return Result(code, printed.out, printed.err)

    def move(self, endpoint: str, *more: str) -> Result:
        to = "local://new/lake"
        return self.run("migrate", "lakefs", "lakefs://lake", "--from", endpoint, "--to", to, *more)

    def store_objects(self, lake: FakeLakeFS) -> None:
        """Write what the entries of a lake name, as lakeFS does on local storage."""
        listed = [*lake.lists.values(), *lake.staged.values()]
        for key, number in {pair for contents in listed for pair in contents.items()}:
            if number is not None:
                address = lake.entry(key, number).address.removeprefix("local://")
                file = self.blocks / address.removeprefix(f"{self.blocks}/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b"x" * number)

    def staged(self, branch: str = "side") -> dict[bytes, str | None]:
        """What is uncommitted on a branch."""
        runtime = ThreadRuntime()
        url = f"sqlite:///{self.config.parent}/lakebed.db"
        with open_store(url, runtime=runtime) as store:
            engine = new_engine(store, open_block(LocalSettings(self.blocks)), runtime=runtime)
            lake, side = RepositoryID("lake"), BranchID(branch)
            page = engine.reader.list_changes(lake, side, EntryQuery())
            found: dict[bytes, str | None] = {}
            for key in page.rows["key"].to_pylist():
                try:
                    found[key] = staging.get(engine, lake, side, key).address
                except EntryNotFound:
                    found[key] = None
            return found

    def damages(self, commits: int = 4) -> int:
        report = json.loads(self.run("fsck", "lakefs://lake", "--json").stdout)
        assert report["commits"] >= commits
        return len(report["damages"])


@pytest.fixture
def commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "secret")
    return Commands(tmp_path, capsys)
