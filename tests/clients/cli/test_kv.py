"""`lakebed kv` with databases in files."""

from pathlib import Path

import pytest

from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.kv import open_store
from tests.kit.permissions import open_to_others, usual_umask


def test_other_users_of_the_machine_cannot_read_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.kv.halt.SETTLE_SECONDS", 0.0)
    folder = tmp_path / "copies"
    with usual_umask():
        with open_store(f"sqlite:///{tmp_path}/old.db") as store:
            store.set(b"p", b"key", b"value")
        folder.mkdir(mode=0o700)
        arguments = ["kv", "copy", f"sqlite:///{tmp_path}/old.db", f"sqlite:///{folder}/new.db"]
        assert running.run(cli.app, arguments) == 0
    assert open_to_others(folder) == []
    assert (folder / "new.db").exists()
