"""The script that checks the messages of commits."""

import runpy
from pathlib import Path
from typing import Final

import pytest

_SCRIPT: Final = Path(__file__).parents[1] / ".githooks" / "commit_messages.py"
mistakes: Final = runpy.run_path(str(_SCRIPT))["mistakes"]


@pytest.mark.parametrize(
    ("message", "count"),
    [
        ("engine: cut old ranges on small edits\n\nEach commit rewrote them whole.\n", 0),
        ("docs, tests: name the layers\n\nThe list was stale.\n# a comment of Git\n", 0),
        ("merge: join parallel work\n", 0),
        ("Merge branch 'dev'\n", 0),
        ("engine: cut old ranges on small edits\n", 1),
        ("engine: cut old ranges on small edits\n\n# a comment of Git\n", 1),
        ("Cut old ranges\n\nEach commit rewrote them whole.\n", 1),
        ("engine: cut old ranges.\n\nEach commit rewrote them whole.\n", 1),
        (f"engine: {'cut ' * 20}off\n\nEach commit rewrote them whole.\n", 1),
        ("engine: cut old ranges\nEach commit\n\nrewrote them whole.\n", 1),
        ("", 2),
    ],
)
def test_mistakes_of_a_message(message: str, count: int) -> None:
    assert len(mistakes(message)) == count
