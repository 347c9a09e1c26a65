"""The files and modules that the documents name are there."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.everything import PARTS

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "src" / "lakebed"
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("design/*.md"), *ROOT.glob("docs/*.md")])

_FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
_FILE: Final = re.compile(r"([\w.-]+/)*[\w-]+\.(py|md|proto)")
_DEFINITION: Final = re.compile(r"((?:[\w.-]+/)*[\w-]+\.py):([\w.]+)")
_MEMBER: Final = re.compile(r"([A-Z]\w+)\.([a-z_]\w*)(?:\(.*\))?")
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
    if defined := _DEFINITION.fullmatch(name):
        paths = [path for path in files() if path.endswith(f"/{defined[1]}")]
        return not any(defined[2] in definitions(path) for path in paths)
    if (member := _MEMBER.fullmatch(name)) and (texts := texts_of_class(member[1])):
        return not any(re.search(rf"\b{member[2]}\b", text) for text in texts)
    if folder := _FOLDER.fullmatch(name):
        parents = [parent for parent in (ROOT, PACKAGE) if (parent / folder[1]).is_dir()]
        return bool(parents) and not any((parent / name).exists() for parent in parents)
    is_module = _MODULE.fullmatch(name) is not None and name not in _NOT_MODULES
    return is_module and not can_import(name)


@cache
def definitions(path: str) -> frozenset[str]:
    """Return the names that a module defines, those of methods and fields after their class."""
    found: set[str] = set()
    for outer in ast.parse((ROOT / path[1:]).read_text()).body:
        names = _names_of(outer)
        found.update(names)
        if isinstance(outer, ast.ClassDef):
            found.update(
                f"{outer.name}.{name}" for inner in outer.body for name in _names_of(inner)
            )
    return frozenset(found)


@cache
def modules() -> tuple[str, ...]:
    """Return the texts of all modules of the package."""
    return tuple(path.read_text() for path in PACKAGE.rglob("*.py"))


@cache
def texts_of_class(name: str) -> tuple[str, ...]:
    """Return the texts of the modules that define a class."""
    defined = re.compile(rf"^class {name}\b", re.MULTILINE)
    return tuple(text for text in modules() if defined.search(text))


def _names_of(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


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
def test_targets_of_links_exist(page: Path) -> None:
    text = page.read_text()
    names = list(names_in(text))
    if page.name == "CHANGELOG.md":  # it names members that were removed
        names = [name for name in names if not _MEMBER.fullmatch(name)]
    assert [name for name in names if is_missing(name)] == []
    links = [link for link in _LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_contributing_lists_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [each["layers"] for each in contracts["contracts"] if each["type"] == "layers"]
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layers")[2].partition("\n## ")[0]
    listed = re.findall(r"^ {4}(\S+(?: \| \S+)*) {2,}\S", section, re.MULTILINE)
    assert listed == layers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_targets_of_make_that_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # older versions had other targets
    text = page.read_text()
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z][\w-]*)", text)) - targets == set()
    named = re.findall(r"`make test-all PARTS=\"?([a-z ]+)", text)
    assert {part for parts in named for part in parts.split()} <= {part.name for part in PARTS}


def test_packages_say_what_they_import_and_what_is_public() -> None:
    for page in PACKAGE.glob("*/__init__.py"):
        text = ast.get_docstring(ast.parse(page.read_text())) or ""
        assert re.search(r"\b[Ii]mports?\b.*\bPublic\b", text, re.DOTALL), page.parent.name


def test_the_architecture_is_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.split()) <= 1500
    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_design_notes_are_numbered_by_their_titles() -> None:
    for page in ROOT.glob("design/*.md"):
        title = page.read_text().partition("\n")[0]
        assert re.fullmatch(rf"# {page.name[:4]}: [A-Z].*[^.]", title), (page.name, title)


def test_design_notes_begin_with_their_decision() -> None:
    for page in ROOT.glob("design/*.md"):
        decision = page.read_text().partition("\n\n## ")[0].partition("\n\n")[2]
        assert 20 <= len(decision.split()) <= 80, page.name


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("design/0001-key-value-store.md", False),
        ("kv/store.py", False),
        ("kv/stores.py", True),
        ("store.py", False),
        ("kv/store.py:Store.write", False),
        ("kv/store.py:ANY", False),
        ("kv/store.py:Store.journal", True),
        ("kv/stores.py:Store.write", True),
        ("Store.write", False),
        ("Store.scan(prefix=…)", False),
        ("Store.journal", True),
        ("Journal.write", False),
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
