"""Which files other users of the machine could read."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

FOR_EVERYONE: Final = 0o022
"""The usual umask."""


@contextmanager
def usual_umask() -> Iterator[None]:
    """Run a ``with`` block as most users run programs, and undo what it sets."""
    before = os.umask(FOR_EVERYONE)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    """What other users may read or write below a folder, with its mode."""
    found = []
    for path in folder.rglob("*"):
        # A server works meanwhile: a draft becomes an object, with the mode that it had.
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if mode & 0o077:
                found.append(f"{stat.filemode(mode)} {path.relative_to(folder)}")
    return found
