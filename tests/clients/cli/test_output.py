import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakebed.clients.cli.output import Output, moment, printable, size

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.text())
@example("\x1b[2J\x07")
@example("a\nb\tc\r")
@example("\u202egnp.exe")
def test_control_characters_are_escaped(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    if text.isprintable():
        assert shown == text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=4))
def test_a_list_is_one_document(
    capsys: pytest.CaptureFixture[str], items: list[dict[str, Any]]
) -> None:
    Output(as_json=True).lines(iter(items), str, [])
    assert json.loads(capsys.readouterr().out) == items
    Output(as_json=True).table(iter(items), [])
    assert json.loads(capsys.readouterr().out) == items


def test_a_list_is_written_as_it_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    def items() -> Iterator[dict[str, Any]]:
        yield {"id": 1}
        assert '{"id": 1}' in capsys.readouterr().out
        yield {"id": 2}

    Output(as_json=True).lines(items(), str, [])


def test_in_a_pipe_a_table_is_lines_with_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    items: list[dict[str, object]] = [
        {"id": "a\tb", "n": 1},
        {"id": "[bold]x" + "y" * 300, "n": None},
    ]
    Output(as_json=False).table(
        items, [("Id", lambda item: item["id"]), ("N", lambda item: item["n"])]
    )
    assert capsys.readouterr().out == "a\\tb\t1\n[bold]x" + "y" * 300 + "\t\n"


def test_a_record_shows_its_fields(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    record = {
        "id": "x",
        "creation_date": 0,
        "metadata": {"k": "v", "l": "\n"},
        "parents": ["p", "q"],
        "mtime": 60,
        "mergeable": False,
    }
    Output(as_json=False).record(record)
    assert capsys.readouterr().out.splitlines() == [
        "id\tx",
        "creation_date\t1970-01-01 00:00:00+00:00",
        "metadata\tk=v, l=\\n",
        "parents\tp q",
        "mtime\t1970-01-01 00:01:00+00:00",
        "mergeable\tfalse",
    ]
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout.isatty", lambda: True)
        Output(as_json=False).record(record)
    assert capsys.readouterr().out.splitlines() == [
        "Id:            x",
        "Creation date: 1970-01-01 00:00:00+00:00",
        "Metadata:      k=v, l=\\n",
        "Parents:       p q",
        "Mtime:         1970-01-01 00:01:00+00:00",
        "Mergeable:     false",
    ]
    Output(as_json=True).record(record)
    assert json.loads(capsys.readouterr().out) == record
    del os.environ["TZ"]
    time.tzset()


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_499, "999.5 kB"),
        (999_500, "1.0 MB"),
        (1_500_000_000, "1.5 GB"),
        (10**21, "1000000.0 PB"),
        (None, ""),
    ],
)
def test_sizes_are_rounded(count: int | None, shown: str) -> None:
    assert size(count) == shown


def test_a_moment_that_no_calendar_has_is_a_number() -> None:
    assert moment(10**30) == str(10**30)
    assert moment(None) == ""
