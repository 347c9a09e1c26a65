"""What the library loads: little to begin with, and never what only a server needs."""

import subprocess
import sys
from pathlib import Path

import pytest

SERVER_ONLY = ("awscrt", "cryptography", "falcon", "httptools", "jwt", "lupa", "lakebed.server")


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_lakebed_loads_nothing_heavy() -> None:
    code = "import sys, lakebed; lakebed.connect; print(*sys.modules)"
    loaded = set(run(code).split())
    assert "lakebed.library.lake" in loaded
    assert loaded.isdisjoint({"pyarrow", "numpy", "httpx", "fsspec", "lakebed.engine.engine"})


@pytest.mark.slow
def test_a_lake_in_a_folder_needs_nothing_of_the_server(tmp_path: Path) -> None:
    """Where only the library is installed, its libraries alone are there."""
    code = f"""
import sys
for name in {SERVER_ONLY}:
    sys.modules[name] = None
import lakebed, fsspec
with lakebed.open(sys.argv[1]) as lake:
    main = lake.repository("abc").create().branch("main")
    main.object("a").upload("text")
    main.commit("All")
    print(lake.repository("abc").collect_garbage(dry_run=True).committed)
with fsspec.open("lakebed://abc/main/a", folder=sys.argv[1]) as file:
    print(file.read())
"""
    assert run(code, str(tmp_path)).splitlines() == ["1", "b'text'"]
