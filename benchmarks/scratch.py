"""Where benchmarks of servers keep what they make."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a folder in the working one, that git does not see: `/tmp` may be no disk but memory."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as name:
        yield Path(name)
