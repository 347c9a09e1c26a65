"""Conditions, durations, secrets: the small texts inside action files."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.lake.hooks.conditions import InvalidCondition, evaluate
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import Environment
from lakebed.lake.hooks.properties import parse_duration
from lakebed.lake.hooks.settings import EnvironmentSettings


@pytest.mark.parametrize(
    ("text", "after_success", "after_failure"),
    [
        ("", True, False),
        ("  ", True, False),
        ("success()", True, False),
        ("failure()", False, True),
        ("success() || failure()", True, True),
        ("success() and failure()", False, False),
        ("!success()", False, True),
        ("not failure() && true", True, False),
        ("true", True, True),
        ("false or failure( )", False, True),
        ("success() == failure()", False, False),
        ("success() != failure()", True, True),
        ("!success() == failure()", True, True),
        ("true || false && false", True, True),
        ("(true || false) && false", False, False),
    ],
)
def test_conditions(text: str, after_success: bool, after_failure: bool) -> None:
    assert evaluate(text, has_failed=False) is after_success
    assert evaluate(text, has_failed=True) is after_failure


@pytest.mark.parametrize(
    "text",
    [
        *("success", "success(1)", "1", "'a'", "success() &&", "&& success()", "(success()", "os"),
        *("success() failure()", "success() & failure()", "(" * 300, "success())", "always()"),
        "a.b",
    ],
)
def test_invalid_conditions(text: str) -> None:
    with pytest.raises(InvalidCondition):
        evaluate(text, has_failed=False)


@given(st.text("success()failure!&|=ntor ", max_size=40))
def test_a_condition_is_answered_or_refused(text: str) -> None:
    with suppress(InvalidCondition):
        assert evaluate(text, has_failed=True) in {True, False}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("1m", 60), ("30s", 30), ("1m30s", 90), ("1.5h", 5400), ("100ms", 0.1), ("0", 0)),
        *(("1h2m3s4ms", 3723.004), (".5s", 0.5), ("1us", 1e-6), ("1µs", 1e-6), ("+5s", 5)),
        ("-2s", -2),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "s", "1 m", "1d", "1m 30s", "--1s", "1e3s", "\u0661s"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


VARIABLES = {"LAKEFSACTION_A": "alpha", "LAKEFSACTION_B": "beta", "HOME": "/root"}


def test_secrets_are_put_in_and_hidden() -> None:
    hidden: list[str] = []
    environment = Environment(EnvironmentSettings(), hidden.append, VARIABLES)
    given = {
        "a": ["x {{ ENV.LAKEFSACTION_A }} {{ENV.LAKEFSACTION_B}}", 1, None, True],
        "home": "{{ ENV.HOME }}|",
        "not": "{{ env.A }} { ENV.A } {{ENVA}}",
    }
    assert environment.fill(given) == {
        "a": ["x alpha beta", 1, None, True],
        "home": "|",
        "not": "{{ env.A }} { ENV.A } {{ENVA}}",
    }
    assert hidden == ["alpha", "beta"]


def test_a_secret_that_is_not_set_fails_the_hook() -> None:
    environment = Environment(EnvironmentSettings(), print, VARIABLES)
    with pytest.raises(HookFailed, match="no variable LAKEFSACTION_C"):
        environment.fill_text("{{ ENV.LAKEFSACTION_C }}")


def test_secrets_can_be_turned_off_or_have_another_prefix() -> None:
    off = Environment(EnvironmentSettings(enabled=False), print, VARIABLES)
    assert not off.fill_text("{{ ENV.LAKEFSACTION_A }}")
    other = Environment(EnvironmentSettings(prefix="HO"), print, VARIABLES)
    assert other.fill_text("{{ ENV.HOME }}") == "/root"


def test_secrets_of_the_server_itself_are_never_given() -> None:
    own = {"LAKEBED_SERVER__AUTH__SECRET_KEY": "key of everything"}
    environment = Environment(EnvironmentSettings(prefix=""), print, own)
    assert not environment.fill_text("{{ ENV.LAKEBED_SERVER__AUTH__SECRET_KEY }}")
