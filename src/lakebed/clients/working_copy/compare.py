"""Three-way comparison of the base commit, a target commit and the files on disk.

All three are sorted by the bytes of their paths and merged in one pass, so memory use does not
grow with the number of files.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from lakebed.clients.working_copy.errors import BadNames
from lakebed.clients.working_copy.folder import IGNORED_NAMES, OWN_FOLDER
from lakebed.clients.working_copy.hashes import LocalFile
from lakebed.clients.working_copy.remote import RemoteFile

_NAME_BYTES_MAX: Final = 255
_PROBLEMS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One path with its entry on each side, or None where it is absent."""

    path: str
    base: RemoteFile | None
    """In the commit that the directory was checked out from."""
    target: RemoteFile | None
    """In the target commit."""
    local: LocalFile | None


class SyncAction(Enum):
    """Change to a path that brings the directory to the target."""

    KEEP = "keep"
    FETCH = "fetch"
    REMOVE = "remove"
    CONFLICT = "conflict"


IsSame = Callable[[LocalFile | None, RemoteFile | None], bool]
"""Whether a local file and an object have the same bytes, or are both missing."""


def rows(
    base: Iterable[RemoteFile],
    changes: Iterable[tuple[str, RemoteFile | None]],
    local: Iterable[LocalFile],
) -> Iterator[Row]:
    """Join the base, the changes from base to target, and the files on disk by path."""
    sides = (
        ((item.path, item) for item in base),
        ((path, (item,)) for path, item in changes),
        ((file.path, file) for file in local),
    )
    for path, (before, change, file) in align(*sides):
        target = change[0] if change is not None else before
        yield Row(path, before, target, file)


def align(*sides: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Merge sorted sides by path: yield each path and its entry on each side, or None."""
    heads = [next(side, None) for side in sides]
    while left := [head[0] for head in heads if head is not None]:
        path = min(left, key=str.encode)
        found: list[Any] = []
        for number, head in enumerate(heads):
            is_here = head is not None and head[0] == path
            found.append(head[1] if head is not None and is_here else None)
            if is_here:
                heads[number] = next(sides[number], None)
        yield path, found


def judge(
    row: Row, is_same: IsSame, *, discard_changes: bool = False, restore_deleted: bool = False
) -> SyncAction:
    """Decide how to bring a path to its target.

    Local changes are kept unless `discard_changes`. With `restore_deleted`, a file that was deleted
    locally and changed in the target is fetched again instead of being a conflict.
    """
    if not discard_changes and _are_same(row.base, row.target):
        return SyncAction.KEEP
    if is_same(row.local, row.target):
        return SyncAction.KEEP
    may_replace = discard_changes or (restore_deleted and row.local is None)
    if not may_replace and not is_same(row.local, row.base):
        return SyncAction.CONFLICT
    return SyncAction.FETCH if row.target else SyncAction.REMOVE


def describe(row: Row, is_same: IsSame) -> tuple[str, str] | None:
    """Return the side that changed a path, and lakectl's word for the change, if any."""
    here, there = is_same(row.local, row.base), _are_same(row.base, row.target)
    if (here and there) or (not there and is_same(row.local, row.target)):
        return None
    if not here and not there:
        return "local", "conflict"
    after: object = row.local if there else row.target
    kind = "added" if row.base is None else "removed" if after is None else "modified"
    return ("local" if there else "remote"), kind


def _are_same(one: RemoteFile | None, other: RemoteFile | None) -> bool:
    return one is other or (one is not None and one.is_same(other))


class NameCheck:
    """Collector of paths that cannot be files in one directory. Paths arrive sorted."""

    def __init__(self, *, ignores_case: bool) -> None:
        self._ignores_case = ignores_case
        self._spellings: dict[str, str] = {}
        self._files: list[str] = []
        """Earlier files that could be a parent of a later path."""
        self._problems: list[str] = []

    def add(self, path: str) -> None:
        problem = _problem_of(path) or self._clash(path)
        if problem is not None and len(self._problems) < _PROBLEMS_MAX:
            self._problems.append(f"{path!r}: {problem}")

    def finish(self) -> None:
        if self._problems:
            raise BadNames(self._problems)

    def _clash(self, path: str) -> str | None:
        # "/" sorts right before "0": a path from "a0" on cannot be below "a".
        self._files = [file for file in self._files if path.encode() < f"{file}0".encode()]
        for file in self._files:
            if path.startswith(f"{file}/"):
                return f"conflicts with {file!r}, which is a file and cannot also be a folder"
        self._files.append(path)
        return self._other_spelling(path) if self._ignores_case else None

    def _other_spelling(self, path: str) -> str | None:
        ends = [number for number, letter in enumerate(path) if letter == "/"] + [len(path)]
        for part in (path[:end] for end in ends):
            folded = unicodedata.normalize("NFC", part).casefold()
            if (known := self._spellings.setdefault(folded, part)) != part:
                return f"conflicts with {known!r} on this disk, which ignores case"
        return None


def _problem_of(path: str) -> str | None:
    parts = path.split("/")
    if not {".", ".."}.isdisjoint(parts):
        return "'.' and '..' could lead out of the folder"
    if "" in parts:
        return "file names cannot be empty, as between '//' or after a last '/'"
    if "\0" in path:
        return "file names cannot contain NUL"
    if parts[0] == OWN_FOLDER or parts[-1] in IGNORED_NAMES:
        return "this name is reserved for working copies"
    if any(len(part.encode()) > _NAME_BYTES_MAX for part in parts):
        return f"a part of the path is longer than {_NAME_BYTES_MAX} bytes"
    return None
