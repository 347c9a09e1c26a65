"""The files and modules that the documents name are there."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "lakebed"
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("design/*.md"), *ROOT.glob("docs/*.md")])

_FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_FILE: Final = re.compile(r"([\w.-]+/)*[\w-]+\.(py|md|proto)")
_FOLDER: Final = re.compile(r"([\w-]+)(/[\w-]+)+/?")
_MODULE: Final = re.compile(r"lakebed(\.\w+)+")
_NOT_MODULES: Final = {"lakebed.access", "lakebed.log"}
"""The logger of requests, and a file."""


@cache
def files() -> tuple[str, ...]:
    """All files that a page may name, as paths that begin with a slash."""
    folders = ("src", "tests", "benchmarks", "design", "docs")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    return tuple(f"/{path.relative_to(ROOT)}" for path in (*found, *ROOT.glob("*.md")))


def is_missing(name: str) -> bool:
    """Whether a page names a file, a folder or a module that does not exist."""
    if _FILE.fullmatch(name):
        return not any(path.endswith(f"/{name}") for path in files())
    if folder := _FOLDER.fullmatch(name):
        parents = [parent for parent in (ROOT, PACKAGE) if (parent / folder[1]).is_dir()]
        return bool(parents) and not any((parent / name).exists() for parent in parents)
    is_module = _MODULE.fullmatch(name) is not None and name not in _NOT_MODULES
    return is_module and not can_import(name)


def can_import(name: str) -> bool:
    """Whether a name is that of a module, or of something in one."""
    parts = name.split(".")
    if f"/src/{'/'.join(parts)}.py" in files():
        return True  # also where what it imports is not installed
    for count in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def names_in(text: str) -> Iterator[str]:
    """The names that a page has in backquotes, also those that a line break has cut."""
    for code in _CODE.findall(_FENCED.sub("", text)):
        yield re.sub(r"\s+", "", code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    assert [name for name in names_in(text) if is_missing(name)] == []
    links = [link for link in _LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_design_notes_are_numbered_by_their_titles() -> None:
    for page in ROOT.glob("design/*.md"):
        title = page.read_text().partition("\n")[0]
        assert re.fullmatch(rf"# {page.name[:4]}: [A-Z].*[^.]", title), (page.name, title)


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("design/0001-key-value-store.md", False),
        ("kv/store.py", False),
        ("kv/stores.py", True),
        ("store.py", False),
        ("kv/drivers", False),
        ("kv/rivers", True),
        ("tests/simulation", False),
        ("tests/simulations/", True),
        ("lakebed.kv.Store", False),
        ("lakebed.kv.Stores", True),
        ("lakebed.kvs", True),
        ("a/b", False),
    ],
)
def test_what_is_missing_is_found(name: str, *, missing: bool) -> None:
    assert is_missing(name) is missing
