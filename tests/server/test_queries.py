"""Queries are read as the standard library reads them."""

import json
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.server.api.dispatch import _read_query
from lakebed.server.http.errors import BadRequest
from tests.server.kit import server

LISTS: Any = dict[str, list[str]]


class Everything(frozenset[str]):
    """The names of all parameters."""

    def __contains__(self, name: object) -> bool:
        return True


def of_library(text: str) -> object:
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        return "the query is not UTF-8"
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


@given(st.text(alphabet="ab=&+%;20cC3A9é/ \x00", max_size=30))
@example("a=1&b=&c&&=d&e==f&a=2")
@example("path=a%2Fb+c%20d&x=%C3%A9")
@example("path=a;b&x=%zz%")
def test_a_query_is_read_as_the_library_reads_it(text: str) -> None:
    try:
        found: object = _read_query(text, LISTS, Everything())
    except BadRequest as error:
        found = str(error)
    if "\x00" in unquote_plus(text):
        assert isinstance(found, str)
    else:
        assert found == of_library(text)


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        (
            "GET",
            "?amount=a",
            None,
            'invalid query: amount: expected a whole number, at least -1 and at most 1000, not "a"',
        ),
        ("POST", "", {"name": 5}, "invalid body: name: expected a text, not 5"),
        ("POST", "", {"name": "new"}, "invalid body: storage_namespace is missing"),
        ("POST", "", "{", "invalid body: not JSON (Input data was truncated)"),
    ],
)
def test_an_invalid_argument_is_named_with_its_value(
    method: str, path: str, body: object, said: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    with server() as found:
        answer = found.call(
            method,
            f"/repositories{path.partition('?')[0]}",
            query_string=path.partition("?")[2],
            body=text if method == "POST" else None,
            headers={"Content-Type": "application/json"},
        )
    assert answer.status_code == 400
    assert answer.json["message"] == said
