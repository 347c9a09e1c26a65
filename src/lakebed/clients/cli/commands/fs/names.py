"""Mapping between keys and file names."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lakebed.clients.cli.errors import UnsafeKey


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a directory."""

    path: Path
    name: str
    """Path relative to the directory, with `/` as separator."""
    problem: str | None = None
    """Why the file cannot be uploaded, or None."""


def files_below(folder: Path) -> Iterator[FoundFile]:
    """Yield all files below a directory in order, including files that cannot be uploaded."""
    for parent, folders, files in os.walk(folder, onerror=_raise):
        for name in sorted(name for name in folders if Path(parent, name).is_symlink()):
            yield _local_file(folder, Path(parent, name), "links to folders are not followed")
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
    return None if stat.S_ISREG(mode) else "it is not a regular file"


def file_for(key: str, *, prefix: str, folder: Path) -> Path:
    """Return the file for an object below a prefix."""
    name = key.removeprefix(prefix)
    parts = name.split("/")
    if ".." in parts or "." in parts:
        raise UnsafeKey(key, "'.' and '..' in a key could lead out of the folder")
    if "" in parts:
        raise UnsafeKey(key, "file names cannot be empty, as between '//' or after a last '/'")
    if "\0" in name:
        raise UnsafeKey(key, "file names cannot contain NUL")
    return folder.joinpath(*parts)


def make_parent(file: Path, *, folder: Path, key: str) -> None:
    """Create the parent directory of a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise UnsafeKey(key, f"{file.parent} is a link that leads out of the folder")
