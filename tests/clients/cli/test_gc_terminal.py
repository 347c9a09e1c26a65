"""What a terminal shows of a run: each step, and how far it has come."""

import sys
from types import SimpleNamespace
from typing import cast

import pytest

from lakebed.clients.cli.commands.gc import _by_branch, _watched
from lakebed.clients.cli.session import Session
from lakebed.reclaim.collector.executors.read import TALLY


def session(*, as_json: bool = False) -> Session:
    return cast("Session", SimpleNamespace(output=SimpleNamespace(as_json=as_json)))


def test_a_terminal_shows_the_step_the_objects_and_the_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with _watched(session()) as say:
        say("Reading commits and listing objects…")
        TALLY.add(1234)
    said = capsys.readouterr().err
    assert "Reading commits and listing objects… 1,234 objects, " in said
    assert "/s" in said


@pytest.mark.parametrize("as_json", [False, True])
def test_elsewhere_each_step_is_a_line(
    capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    with _watched(session(as_json=as_json)) as say:
        say("Reading commits.")
        TALLY.add(1)
    assert capsys.readouterr().err == "Reading commits.\n"


def test_commits_and_bytes_are_put_together_by_branch() -> None:
    commits = {"by_branch": {"main": 2, "": 1}, "next_by_branch": {"main": 3}}
    counts = [
        {"branch": branch, "verdict": verdict, "objects": 1, "bytes": size}
        for branch, verdict, size in [
            ("main", "candidate", 10),
            ("main", "freed", 5),
            ("dev", "due", 7),
            ("quiet", "committed", 1000),
        ]
    ]
    zeros = {"expired": 0, "marked": 0, "freed": 0, "waiting": 0, "due": 0}
    assert _by_branch(commits, counts) == [
        {**zeros, "branch": "(no branch)", "expired": 1},
        {**zeros, "branch": "dev", "due": 7},
        {**zeros, "branch": "main", "expired": 2, "marked": 3, "freed": 5, "waiting": 15},
    ]
