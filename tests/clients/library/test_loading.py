"""What the library loads: little to begin with."""

import subprocess
import sys


def test_importing_lakebed_loads_nothing_heavy() -> None:
    code = "import sys, lakebed; lakebed.connect; print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert "lakebed.clients.library.lake" in loaded
    assert loaded.isdisjoint({"pyarrow", "numpy", "httpx", "fsspec", "lakebed.engine.engine"})
