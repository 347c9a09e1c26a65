"""What the docstrings of the library show is what happens."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import lakebed

MODULES = ("files", "filesystem", "lake", "objects", "refs", "values")
EXAMPLES = [
    example
    for name in MODULES
    for example in doctest.DocTestFinder(exclude_empty=True).find(
        import_module(f"lakebed.clients.library.{name}")
    )
    if example.examples and example.name.startswith("lakebed.clients.library")
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
