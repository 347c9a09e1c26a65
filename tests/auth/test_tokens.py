"""Tokens: whose they are, who may have signed them, and when they end."""

import base64
import json
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth import AccessKeyID, AuthenticationFailed, UniqueID, UserID
from lakebed.auth.tokens import LIFE_SECONDS, Tokens
from tests.auth.kit import KEYS, Clockwork

WEEK = 7 * 24 * 3600


def claims(**changes: object) -> dict[str, Any]:
    """Those of a good token, but for changes; None takes a claim away."""
    now = int(Clockwork().now())
    good: dict[str, object] = {
        "aud": "login",
        "iss": "auth",
        "sub": "jane",
        "uid": "u1",
        "key": "AKIA1",
        "iat": now,
        "exp": now + 60,
        "jti": "1",
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def signed(content: dict[str, Any], algorithm: str = "HS256", key: bytes = KEYS.signing) -> str:
    return jwt.encode(content, key, algorithm=algorithm)


def test_a_token_says_who_it_is_for_a_week() -> None:
    clock = Clockwork()
    tokens = Tokens(KEYS, clock)
    token, expires_at = tokens.issue(UserID("jane"), UniqueID("u1"), AccessKeyID("AKIA1"))
    assert expires_at == int(clock.now()) + WEEK == int(clock.now()) + LIFE_SECONDS
    said = tokens.verify(token)
    assert (said.user_id, said.unique_id, said.expires_at) == ("jane", "u1", expires_at)
    assert said.access_key_id == "AKIA1"
    content = jwt.decode(token, options={"verify_signature": False})
    assert (content["aud"], content["iss"], content["sub"]) == ("login", "auth", "jane")
    again, _ = tokens.issue(UserID("jane"), UniqueID("u1"), AccessKeyID("AKIA1"))
    assert token != again, "each has an id of its own"
    clock.sleep(WEEK - 1)
    tokens.verify(token)
    clock.sleep(1)
    with pytest.raises(AuthenticationFailed):
        tokens.verify(token)


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_the_usual_signatures_are_accepted(algorithm: str) -> None:
    assert Tokens(KEYS, Clockwork()).verify(signed(claims(), algorithm)).user_id == "jane"


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": None},
        {"exp": 1},
        {"exp": "soon"},
        {"exp": [1]},
        {"exp": float("inf")},
        {"nbf": int(Clockwork().now()) + 10},
        {"nbf": "later"},
        {"aud": None},
        {"aud": "other"},
        {"iss": None},
        {"iss": "other"},
        {"sub": None},
        {"uid": None},
        {"uid": 7},
        {"uid": ["u1"]},
        {"key": None},
        {"key": 7},
        {"jti": None},
        {"jti": ["1"]},
    ],
    ids=str,
)
def test_a_token_that_lacks_something_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(AuthenticationFailed):
        Tokens(KEYS, Clockwork()).verify(signed(claims(**changes)))


def test_a_token_that_nobody_signed_is_refused() -> None:
    tokens = Tokens(KEYS, Clockwork())

    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    body = part(claims())
    unsigned = f"{part({'alg': 'none', 'typ': 'JWT'})}.{body}."
    other_key = signed(claims(), key=b"k" * 64)
    head, _, signature = signed(claims()).split(".")
    swapped = f"{head}.{part(claims(sub='admin'))}.{signature}"
    for token in (
        unsigned,
        other_key,
        swapped,
        signed(claims()) + "A" * 10_000,
        "",
        ".",
        "..",
        "\ud800",
    ):
        with pytest.raises(AuthenticationFailed):
            tokens.verify(token)


@given(st.text(max_size=40) | st.from_regex(r"[\w-]*\.[\w-]*\.[\w-]*", fullmatch=True))
def test_forged_tokens_are_refused(token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        Tokens(KEYS, Clockwork()).verify(token)
