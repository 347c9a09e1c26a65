"""Keys and file names: which key a file gets, and which file a key may become."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakebed.clients.cli.errors import UnsafeKey


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file found in a folder."""

    path: Path
    name: str
    """Relative to the folder, with `/` between the parts."""
    problem: str | None = None
    """Why it cannot be uploaded."""


def files_below(folder: Path) -> Iterator[FoundFile]:
    """All files below a folder, in the order of their names, found as they are asked for.

    What cannot be uploaded is given too, with its problem: nothing is left out in silence.

    Raises:
        OSError: A folder cannot be read.
    """
    for parent, folders, files in os.walk(folder, onerror=_raise):
        for name in sorted(name for name in folders if Path(parent, name).is_symlink()):
            yield _local_file(folder, Path(parent, name), "a link to a folder is not followed")
        folders.sort()
        for name in sorted(files):
            path = Path(parent, name)
            yield _local_file(folder, path, _problem(path))


def _raise(error: OSError) -> None:
    raise error


def _local_file(folder: Path, path: Path, problem: str | None) -> FoundFile:
    name = path.relative_to(folder).as_posix()
    return FoundFile(path, name, problem)


def _problem(path: Path) -> str | None:
    try:
        os.fspath(path).encode()
        mode = path.stat().st_mode
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except OSError as error:
        return error.strerror
    return None if stat.S_ISREG(mode) else "it is not a file"


def file_for(key: str, *, prefix: str, folder: Path) -> Path:
    """Where in a folder an object goes that was found below a prefix.

    Raises:
        UnsafeKey: It would leave the folder, or share its place with another key.
    """
    name = key.removeprefix(prefix)
    parts = name.split("/")
    if ".." in parts or "." in parts:
        raise UnsafeKey(key, "'.' and '..' in a key could lead out of the folder")
    if "" in parts:
        raise UnsafeKey(
            key, "a file system has no empty names, as between '//' or after a last '/'"
        )
    if "\0" in name:
        raise UnsafeKey(key, "a file's name has no NUL in it")
    return folder.joinpath(*parts)


def make_parent(file: Path, *, folder: Path, key: str) -> None:
    """Make the folder that a file goes to.

    Raises:
        UnsafeKey: A link that is there already leads out of the folder.
        OSError: It cannot be made.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise UnsafeKey(key, f"{file.parent} is a link that leads out of the folder")
