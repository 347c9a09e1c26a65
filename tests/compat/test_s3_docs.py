"""The blocks of docs/s3-clients.md do what they say, pasted as they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.s3_gateway import Gateway

PAGE = Path(__file__).parents[2] / "docs" / "s3-clients.md"
RUN = ("python", "sh")
BLOCKS = [
    (heading, kind, text)
    for heading, section in re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    if kind in RUN
]


def test_there_are_blocks_to_run() -> None:
    assert [heading for heading, _, _ in BLOCKS] == [
        "boto3",
        "AWS command line",
        "pandas",
        "PyArrow",
        "DuckDB",
        "rclone",
    ]


@pytest.mark.parametrize(("heading", "kind", "text"), BLOCKS, ids=[block[0] for block in BLOCKS])
def test_a_block_runs(gateway: Gateway, tmp_path: Path, heading: str, kind: str, text: str) -> None:
    text = text.replace("http://127.0.0.1:8000", gateway.url)
    text = text.replace("AKIAIOSFOLQUICKSTART", gateway.access_key)
    text = text.replace("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", gateway.secret_key)
    programs = Path(sys.executable).parent
    command = [sys.executable, "-c", text] if kind == "python" else ["sh", "-euc", text]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{heading}: {done.stderr}"
