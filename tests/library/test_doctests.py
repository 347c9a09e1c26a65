"""What the docstrings of the library and its page show is what happens."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import lakebed

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MODULES = ("files", "filesystem", "lake", "objects", "refs", "values")
EXAMPLES = [
    example
    for name in MODULES
    for example in doctest.DocTestFinder(exclude_empty=True).find(
        import_module(f"lakebed.library.{name}")
    )
    if example.examples and example.name.startswith("lakebed.library")
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 15


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_is_true(example: doctest.DocTest, tmp_path: Path) -> None:
    with lakebed.open(tmp_path / "lake") as lake:
        main = lake.repository("books").create().branch("main")
        main.object("authors.txt").upload("Ursula K. Le Guin\n")
        main.commit("Add authors")
        example.globs |= {"lake": lake, "folder": str(tmp_path / "lake")}
        report: list[str] = []
        doctest.DocTestRunner().run(example, out=report.append, clear_globs=False)
    assert not report, "".join(report)


def test_the_page_about_python_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text()
    blocks = re.findall(r"^```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks)
    example = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append, clear_globs=False)
    assert not report, "".join(report)
