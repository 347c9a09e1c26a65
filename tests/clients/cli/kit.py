"""What commands find around them in tests."""

import os
from pathlib import Path


def bare_environ(home: Path) -> dict[str, str]:
    """No settings but a key, and those that a test makes."""
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return kept | {
        "HOME": str(home),
        "LAKEBED_ACCESS_KEY_ID": "key",
        "LAKEBED_SECRET_ACCESS_KEY": "secret",
    }
