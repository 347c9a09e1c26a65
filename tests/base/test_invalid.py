"""Texts about invalid values: field, expectation and value, and no text of a library."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from lakebed.base.invalid import explain, explain_json


class Inner(msgspec.Struct):
    a: int


class Everything(msgspec.Struct):
    amount: int | None = None
    names: list[str] = []
    inner: Inner | None = None
    inners: list[Inner] = []
    kind: Literal["a", "b"] = "a"
    when: datetime | None = None
    counts: dict[str, int] = {}
    flag: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=9, description="not shown")] = 1
    text: Annotated[str, msgspec.Meta(max_length=2)] = ""
    share: float = 1
    data: bytes = b""
    secret_access_key: str = ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"amount": "x"}', 'amount: expected a whole number, not "x"'),
        ('{"amount": 1.5}', "amount: expected a whole number, not 1.5"),
        ('{"names": [1]}', "names[0]: expected a text, not 1"),
        ('{"names": {"a": 1}}', "names: expected a list of texts, not an object"),
        ('{"inner": {}}', "inner.a is missing"),
        ('{"inner": {"a": null}}', "inner.a: expected a whole number, not null"),
        ('{"inners": [{"a": 1}, {"a": true}]}', "inners[1].a: expected a whole number, not true"),
        ('{"kind": "c"}', 'kind: expected one of a, b, not "c"'),
        ('{"when": "now"}', 'when: expected a date like 2026-11-19T12:00:00Z, not "now"'),
        ('{"counts": {"a": 1, "b": "x"}}', 'counts: expected a whole number, not "x"'),
        ('{"flag": 1}', "flag: expected true or false, not 1"),
        ('{"limit": 0}', "limit: expected a whole number, at least 1 and at most 9, not 0"),
        ('{"text": "abc"}', 'text: expected a text, at most 2 characters, not "abc"'),
        ('{"share": "x"}', 'share: expected a number, not "x"'),
        ('{"data": "%"}', 'data: expected a text in Base64, not "%"'),
        ('{"secret_access_key": 5}', "secret_access_key: expected a text"),
        ('[{"secret_access_key": "x"}]', "expected an object, not a list"),
        ('{"amount": "x"', "not JSON (Input data was truncated)"),
        ("{", "not JSON (Input data was truncated)"),
        (
            '{"limit": 1' + "0" * 30 + "}",
            "limit: expected a whole number, at least 1 and at most 9, not 1" + "0" * 30,
        ),
        ('{"share": 1e999}', "a number is out of range"),
        (
            '{"amount": "x", "other": ' + "[" * 100_000 + "]" * 100_000 + "}",
            "lists and objects are nested too deeply",
        ),
    ],
)
def test_the_field_the_expectation_and_the_value(body: str, said: str) -> None:
    with pytest.raises(msgspec.DecodeError) as caught:
        msgspec.json.decode(body, type=Everything)
    assert explain_json(caught.value, Everything, body) == said


def test_a_long_value_is_cut() -> None:
    data: dict[str, Any] = {"amount": "x" * 1000}
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(data, Everything)
    assert len(explain(caught.value, Everything, data)) < 150


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        (dict[Literal["a"], int], '{"b": 1}', "invalid enum value 'b'"),
        (tuple[int, int], "[1]", "expected `array` of length 2"),
        (Literal[1, 2], "3", "expected one of 1, 2, not 3"),
    ],
)
def test_a_wrong_key_or_length_is_told_by_the_reason(kind: Any, text: str, said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(text, type=kind)
    assert said in explain_json(caught.value, kind, text)
