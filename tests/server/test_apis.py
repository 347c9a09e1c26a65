"""What the APIs may not reach: imports are held by a contract, this holds the rest."""

import ast
from pathlib import Path

import lakebed.server

SERVER = Path(lakebed.server.__file__).parent
APIS = [
    *(SERVER / "api").rglob("*.py"),
    *(SERVER / "s3").rglob("*.py"),
    *(SERVER / "ui").rglob("*.py"),
    SERVER / "sample.py",
]


def test_no_api_reaches_below_the_services() -> None:
    assert len(APIS) > 40
    for path in APIS:
        for node in ast.walk(ast.parse(path.read_text())):
            is_below = isinstance(node, ast.Attribute) and node.attr == "foundation"
            assert not is_below, f"{path}:{getattr(node, 'lineno', 0)}"
