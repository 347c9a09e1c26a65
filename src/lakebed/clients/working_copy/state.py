"""The file `.lakefs_ref.yaml`, which links a directory to a path; compatible with lakectl."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from lakebed.clients.working_copy.errors import NotAWorkingCopy

STATE_FILE: Final = ".lakefs_ref.yaml"
_SCHEME: Final = "lakefs://"


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A path of a repository at a ref."""

    repository: str
    ref: str
    prefix: str
    """Empty, or ends with `/`."""

    def __str__(self) -> str:
        return f"{_SCHEME}{self.repository}/{self.ref}/{self.prefix}"


def parse_source(text: str) -> RemotePath:
    """Parse `lakefs://<repository>/<ref>/<path>`; the path is taken as a directory."""
    parts = text.removeprefix(_SCHEME).split("/", 2)
    if not text.startswith(_SCHEME) or len(parts) == 1 or not all(parts[:2]):
        raise NotAWorkingCopy(
            f"{text!r} is not the URI of a folder, such as lakefs://my-repo/main/data/"
        )
    path = "".join(parts[2:])
    return RemotePath(parts[0], parts[1], path if not path or path.endswith("/") else f"{path}/")


@dataclass(frozen=True, slots=True)
class WorkingCopyState:
    """The content of the file."""

    source: RemotePath
    at_head: str
    """The base commit: local changes are differences from this commit."""
    active_operation: str = ""
    """The operation in progress, or empty."""
    others: dict[str, object] = field(default_factory=dict)
    """Unknown fields, preserved."""

    def encoded(self) -> bytes:
        content = {
            "src": str(self.source),
            "at_head": self.at_head,
            "active_operation": self.active_operation,
            **self.others,
        }
        return yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode()


def read_state(folder: Path) -> WorkingCopyState:
    """Read the file of a directory."""
    file = folder / STATE_FILE
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        fields = {name: content.pop(name, "") for name in ("src", "at_head", "active_operation")}
    except FileNotFoundError:
        raise NotAWorkingCopy(f"{folder} is not a working copy: {STATE_FILE} is missing") from None
    except (UnicodeDecodeError, yaml.YAMLError, AttributeError, TypeError):
        raise NotAWorkingCopy(f"{file} cannot be read: expected src and at_head in YAML") from None
    texts = {name: "" if value is None else str(value) for name, value in fields.items()}
    if not texts["at_head"]:
        raise NotAWorkingCopy(f"{file} has no at_head: expected a commit id")
    return WorkingCopyState(
        parse_source(texts["src"]), texts["at_head"], texts["active_operation"], content
    )


def find_root(start: Path) -> Path:
    """Return the working copy that contains a directory."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / STATE_FILE).is_file():
            return folder
    raise NotAWorkingCopy(
        f"{start} is not in a working copy: run `lakebed local clone` or `lakebed local init`"
    )


def find_below(start: Path) -> Iterator[Path]:
    """Yield the working copies below a directory; skip hidden and nested ones."""
    for parent, folders, files in os.walk(start):
        if STATE_FILE in files:
            folders.clear()
            yield Path(parent)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
