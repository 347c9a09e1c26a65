"""The blocks of docs/s3-clients.md do what they say, pasted as they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.compat.s3_tools import httpfs
from tests.kit.s3_gateway import Gateway

pytestmark = pytest.mark.extended

PAGE = Path(__file__).parents[2] / "docs" / "s3-clients.md"
RUN = ("python", "sh", "sql")
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
        "DuckDB",
        "rclone",
    ]


def with_extension(sql: str) -> str:
    """The statements with the extension from a package, where people let DuckDB download it."""
    assert sql.startswith("INSTALL httpfs;")
    return sql.replace("INSTALL httpfs;", f"LOAD '{httpfs(duckdb.__version__)}';")


@pytest.mark.parametrize(
    ("heading", "kind", "text"), BLOCKS, ids=[f"{b[0]}-{b[1]}" for b in BLOCKS]
)
def test_a_block_runs(gateway: Gateway, tmp_path: Path, heading: str, kind: str, text: str) -> None:
    text = text.replace("http://127.0.0.1:8000", gateway.url)
    text = text.replace("AKIAIOSFOLQUICKSTART", gateway.access_key)
    text = text.replace("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", gateway.secret_key)
    text = text.replace("127.0.0.1:8000", gateway.endpoint)
    programs = Path(sys.executable).parent
    if kind == "sql":
        text = f"import duckdb; duckdb.execute({with_extension(text)!r})"
    command = ["sh", "-euc", text] if kind == "sh" else [sys.executable, "-c", text]
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
