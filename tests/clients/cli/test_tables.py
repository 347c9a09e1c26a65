"""Tables on terminals of any width."""

import msgspec
import pytest

from lakebed.clients.cli.commands.history import graph_lines
from lakebed.clients.cli.output import Column, CommitId, Size, Whole, table_lines
from lakebed.wire.refs import Commit

COMMIT = "0123456789abcdef" * 4
COLUMNS: list[Column[dict[str, str]]] = [
    ("Branch", lambda item: item["id"]),
    ("Commit", lambda item: CommitId(item["commit"])),
    ("Run", lambda item: Whole(item["run"])),
    ("Size", lambda item: Size(1_500_000)),
]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def lines(name: str, width: int) -> list[str]:
    run = "4pi3sa85p80htbg1mll0"
    return table_lines([{"id": name, "commit": COMMIT, "run": run}], COLUMNS, terminal_width=width)


def test_fitting_values_are_not_shortened() -> None:
    title, row = lines("dev", 80)
    assert title.split() == ["Branch", "Commit", "Run", "Size"]
    assert row == "dev     0123456789abcdef  4pi3sa85p80htbg1mll0  1.5 MB"


@pytest.mark.parametrize("name", ["x" * 200, "文" * 100])
def test_a_long_name_is_shortened_and_no_id_is_folded(name: str) -> None:
    title, row = lines(name, 80)
    assert "…  0123456789abcdef  4pi3sa85p80htbg1mll0  1.5 MB" in row
    assert title.index("Commit") == 80 - len("0123456789abcdef  4pi3sa85p80htbg1mll0  1.5 MB")


def test_on_a_narrow_terminal_ids_stay_whole_all_the_same() -> None:
    _, row = lines("x" * 200, 20)
    assert row == "xxxxxxx…  0123456789abcdef  4pi3sa85p80htbg1mll0  1.5 MB"


@pytest.mark.parametrize(("variable", "is_bold"), [("", True), ("1", False)])
def test_colours_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, variable: str, *, is_bold: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", variable)
    monkeypatch.setenv("TERM", "xterm")
    assert ("\x1b" in lines("dev", 80)[0]) == is_bold


def test_a_graph_has_a_lane_for_each_line_of_commits() -> None:
    parents = {"g": "fe", "f": "d", "e": "dc", "d": "b", "c": "a", "b": "a", "a": "", "z": ""}
    nothing = {"committer": "", "message": "", "creation_date": 0, "meta_range_id": ""}
    commits = [
        msgspec.convert({"id": name, "parents": list(parents[name]), **nothing}, Commit)
        for name in parents
    ]
    assert list(graph_lines(commits, lambda commit: commit.id)) == [
        "* g",
        "|\\",
        "* | f",
        "| * e",
        "| |\\",
        "|/ /",
        "* | d",
        "| * c",
        "* | b",
        "|/",
        "* a",
        "* z",
    ]
