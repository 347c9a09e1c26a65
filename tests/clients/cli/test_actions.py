import json
from pathlib import Path

import pytest

from lakebed.clients.cli import app
from lakebed.clients.cli.running import run

GOOD = "name: {}\non: {{pre-commit: }}\nhooks: []\n"


def test_good_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.format("first"))
    (tmp_path / "b").write_text(GOOD.format("second"))
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text("not looked at: [")
    assert run(app, ["actions", "validate", str(tmp_path)]) == 0
    shown = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert shown == [
        [str(tmp_path / "a.yaml"), "ok", "first"],
        [str(tmp_path / "b"), "ok", "second"],
    ]


def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, text in {
        "a": GOOD.format("one"),
        "b": GOOD.format("one"),
        "c": "name: x1\non: {pre-comit: }",
        "d": GOOD.format("two"),
    }.items():
        (tmp_path / file).write_text(text)
    assert run(app, ["--json", "actions", "validate", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    problems = {Path(each["file"]).name: each["problem"] for each in json.loads(captured.out)}
    assert problems["a"] is problems["d"] is None
    assert "is already used by" in problems["b"]
    assert "unknown event 'pre-comit'" in problems["c"]
    assert "2 of 4 action files are invalid" in captured.err


def test_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["actions", "validate", str(tmp_path)]) == 2
    assert " has no files: pass an action file" in capsys.readouterr().err
    assert run(app, ["actions", "validate", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: No such file or directory" in capsys.readouterr().err
