"""``lakebed kv inspect`` and ``release``."""

import json
from pathlib import Path

import pytest

from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import BRANCHES, TAGS
from lakebed.kv import open_store
from lakebed.kv.halt import HALT_KEY, Halt, Role
from lakebed.kv.records import Records
from lakebed.kv.schema import METADATA_PARTITION


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that is halted: it can be looked into all the same."""
    url = f"sqlite:///{tmp_path}/lake.db"
    with open_store(url) as store:
        for name in (b"dev", b"main"):
            Records(store, BRANCHES, b"lake-1").set(name, pb.Branch(commit_id="c1"))
        Records(store, TAGS, b"lake-1").set(b"v1", pb.Tag(commit_id="c1"))
        mark = Halt(role=Role.SOURCE, copy_id="c", other="etcd://new", since=0.0)
        store.set(METADATA_PARTITION, HALT_KEY, mark.encode())
    return url


def test_records_are_printed_one_a_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run(cli.app, ["kv", "inspect", "--database", url, "--kind", "Branch"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["key"] for line in lines] == ["branches/dev", "branches/main"]
    assert lines[0]["record"] == {"commit_id": "c1"}
    chosen = ["--partition", "lake-1", "--prefix", "tags/"]
    assert running.run(cli.app, ["kv", "inspect", "--database", url, *chosen]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == "tags/v1"
    assert running.run(cli.app, ["kv", "inspect", "--database", url, "--limit", "2"]) == 0
    assert capsys.readouterr().out.count("\n") == 2


def test_looking_for_a_file_does_not_make_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = f"sqlite:///{tmp_path}/gone.db"
    for command in (["inspect", "--database", gone], ["copy", gone, "memory://"]):
        assert running.run(cli.app, ["kv", *command]) == 2
        assert capsys.readouterr().err == (
            f"lakebed: database file {tmp_path}/gone.db does not exist: check the path\n"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_was_released_can_be_used(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert running.run(cli.app, ["cleaner", "run", "--database", url]) == 1
    assert "is being copied to etcd://new" in capsys.readouterr().err
    assert running.run(cli.app, ["kv", "release", url, "--yes"]) == 0
    assert "can be used again" in capsys.readouterr().out
    assert running.run(cli.app, ["kv", "release", url, "--yes"]) == 1
    assert "is not halted" in capsys.readouterr().err
    open_store(url).close()
