"""Every `console` block of README and the documentation does what it shows, on a real server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.console import ROOT, Block, Names, Step, blocks, pages
from tests.docs.shell import Quickstart, Shell, run_quickstart

REASONS: Final = {
    "installs",
    "make",
    "needs a cloud",
    "needs a cluster",
    "needs gunicorn",
    "needs containers",
    "needs systemd",
}
"""Why a block may be left out."""

PAGES: Final = {str(page.relative_to(ROOT)): list(blocks(page)) for page in pages()}
MARKS: Final = [(name, each) for name, found in PAGES.items() for each in found if each.not_run]
TO_RUN: Final = {
    name: chosen
    for name, found in PAGES.items()
    if (chosen := [each for each in found if each.kind == "console" and not each.not_run])
}


def test_there_are_blocks_to_run() -> None:
    assert "README.md" in TO_RUN
    assert len(TO_RUN) > 5


@pytest.mark.parametrize(("name", "block"), MARKS, ids=[f"{n}:{b.line}" for n, b in MARKS])
def test_a_block_that_is_not_run_has_a_reason_that_counts(name: str, block: Block) -> None:
    assert block.not_run in REASONS, f"{name}:{block.line}: say one of {sorted(REASONS)}"


@pytest.mark.parametrize("name", PAGES)
def test_what_is_typed_stands_in_console_blocks(name: str) -> None:
    """Nothing is kept from the tests by another name."""
    typed = [
        f"{name}:{block.line}"
        for block in PAGES[name]
        if block.kind != "console" and any(line.startswith("$ ") for line in block.lines)
    ]
    assert typed == []


def test_an_id_stands_for_the_same_thing_throughout_a_page() -> None:
    ours, theirs, other = "a" * 64, "b" * 64, "c" * 64
    names = Names()
    assert names.difference([f"made {ours}"], [f"made {theirs}"]) is None
    assert names.as_typed(f"show {ours}") == f"show {theirs}"
    assert names.difference([f"made {ours}"], [f"made {other}"]) is not None


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        (["one", "two"], ["one", "two"], True),
        (["one"], ["one", "two"], False),
        (["one", "two"], ["one"], False),
        (["one", "..."], ["one", "two", "three"], True),
        (["...", "three"], ["one", "two", "three"], True),
        (["...", "four"], ["one", "two", "three"], False),
        (["at 2026-01-01 10:00:00+00:00"], ["at 2027-01-01 10:00:01+00:00"], True),
        (["a  b"], ["a b"], True),
        (["a b"], ["a c"], False),
    ],
)
def test_what_fits(shown: list[str], printed: list[str], *, fits: bool) -> None:
    assert (Names().difference(shown, printed) is None) is fits


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quickstart]:
    """One server for all pages."""
    with run_quickstart(tmp_path_factory.mktemp("quickstart")) as server:
        yield server


# `make test` runs the blocks of the README alone.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "README.md" else pytest.mark.extended)
        for name in TO_RUN
    ],
)
def test_the_blocks_of_a_page_do_what_they_show(
    quickstart: Quickstart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shell = Shell(quickstart, tmp_path, monkeypatch)
    try:
        for block in TO_RUN[name]:
            for step in block.steps():
                try:
                    shell.check(step)
                except AssertionError as error:
                    pytest.fail(f"{name}:{step.line}: {error}", pytrace=False)
    finally:
        shell.clean_up()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("README.md", ["['new/one.csv', 'new/two.csv']"]),
        ("docs/clients.md", ["1161", "['Tanganyika', 'Baikal']"]),
        ("docs/index.md", [""]),
    ],
)
def test_the_python_blocks_of_a_page_run(
    quickstart: Quickstart,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    printed: list[str],
) -> None:
    shell = Shell(quickstart, tmp_path, monkeypatch)
    found = [each for each in PAGES[name] if each.kind == "python"]
    assert len(found) == len(printed)
    for block, line in zip(found, printed, strict=True):
        program = "\n".join(["python - <<'END'", *block.lines, "END"])
        shell.check(Step(block.line, program, [line]))
