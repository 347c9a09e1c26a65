"""Who changed what: the commit a folder was made from, another commit, and the disk, side by side.

All three come in the order of the bytes of their paths, so they are read once and together, and a
folder of any number of files fits into memory.
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
    """One path, and what is there on each side; None: nothing."""

    path: str
    base: RemoteFile | None
    """In the commit that the folder was made from."""
    target: RemoteFile | None
    """In the commit that it is compared with."""
    local: LocalFile | None
    """On the disk."""


class SyncAction(Enum):
    """What has to be done to a path, so that the folder has what the target has."""

    KEEP = "keep"
    FETCH = "fetch"
    REMOVE = "remove"
    CONFLICT = "conflict"


IsSame = Callable[[LocalFile | None, RemoteFile | None], bool]
"""Whether a file on the disk holds the bytes of an object; both may be missing."""


def rows(
    base: Iterable[RemoteFile],
    changes: Iterable[tuple[str, RemoteFile | None]],
    local: Iterable[LocalFile],
) -> Iterator[Row]:
    """Put the sides together: a base, what the target changed in it, and the disk."""
    sides = (
        ((item.path, item) for item in base),
        ((path, (item,)) for path, item in changes),
        ((file.path, file) for file in local),
    )
    for path, (before, change, file) in align(*sides):
        target = change[0] if change is not None else before
        yield Row(path, before, target, file)


def align(*sides: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield each path that any side has, and what each has there; None: nothing."""
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
    row: Row, is_same: IsSame, *, throw_away: bool = False, bring_back: bool = False
) -> SyncAction:
    """Say what has to be done to a path.

    Changes that were made here stay, unless `throw_away`: then the folder gets what the target has.
    With `bring_back`, a file that is missing here, and was changed there, is no conflict: whoever
    moves a file out of the way gets the other one.
    """
    if not throw_away and _are_same(row.base, row.target):
        return SyncAction.KEEP
    if is_same(row.local, row.target):
        return SyncAction.KEEP
    may_replace = throw_away or (bring_back and row.local is None)
    if not may_replace and not is_same(row.local, row.base):
        return SyncAction.CONFLICT
    return SyncAction.FETCH if row.target else SyncAction.REMOVE


def describe(row: Row, is_same: IsSame) -> tuple[str, str] | None:
    """Return who changed a path, and how: `local` or `remote`, and a word of lakectl's."""
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
    """Collects the paths that cannot be files of one folder together; they come in order."""

    def __init__(self, *, ignores_case: bool) -> None:
        self._ignores_case = ignores_case
        self._spellings: dict[str, str] = {}
        self._files: list[str] = []
        """The files so far that a path to come could be below."""
        self._problems: list[str] = []

    def add(self, path: str) -> None:
        """Look at one more path that will be a file."""
        problem = _problem_of(path) or self._clash(path)
        if problem is not None and len(self._problems) < _PROBLEMS_MAX:
            self._problems.append(f"{path!r}: {problem}")

    def finish(self) -> None:
        """Complain.

        Raises:
            BadNames: Some cannot be files.
        """
        if self._problems:
            raise BadNames(self._problems)

    def _clash(self, path: str) -> str | None:
        # What sorts behind "a0" is not below "a" any more, as "/" sorts right before "0".
        self._files = [file for file in self._files if path.encode() < f"{file}0".encode()]
        for file in self._files:
            if path.startswith(f"{file}/"):
                return f"{file!r} is a file, and cannot be a folder too"
        self._files.append(path)
        return self._other_spelling(path) if self._ignores_case else None

    def _other_spelling(self, path: str) -> str | None:
        ends = [number for number, letter in enumerate(path) if letter == "/"] + [len(path)]
        for part in (path[:end] for end in ends):
            folded = unicodedata.normalize("NFC", part).casefold()
            if (known := self._spellings.setdefault(folded, part)) != part:
                return f"{known!r} has the same name on this disk, which ignores case"
        return None


def _problem_of(path: str) -> str | None:
    parts = path.split("/")
    if not {".", ".."}.isdisjoint(parts):
        return "'.' and '..' could lead out of the folder"
    if "" in parts:
        return "a file system has no empty names, as between '//' or after a last '/'"
    if "\0" in path:
        return "a file's name has no NUL in it"
    if parts[0] == OWN_FOLDER or parts[-1] in IGNORED_NAMES:
        return "working copies use this name themselves"
    if any(len(part.encode()) > _NAME_BYTES_MAX for part in parts):
        return f"a name in it is longer than {_NAME_BYTES_MAX} bytes"
    return None
