"""Who may do what: policies, their patterns and networks, and the tokens of logins."""

import json
import re
from typing import Any, Final

import jwt
from hypothesis import strategies as st

from lakebed.auth import AuthenticationFailed, UniqueID
from lakebed.auth.errors import InvalidPolicy
from lakebed.auth.model import Effect, Policy, PolicyID, Statement
from lakebed.auth.policy.addresses import is_in, parse_address, parse_network
from lakebed.auth.policy.rules import Context, Rules, compile_pattern
from lakebed.auth.policy.statements import check_new_statements
from lakebed.auth.tokens import Tokens
from tests.auth.kit import KEYS, Clockwork
from tests.fuzz.inputs import any_text, json_values, texts
from tests.fuzz.target import Targets, attempt

targets: Final = Targets()

ACTION_WORDS: Final = ["fs:", "auth:", "ReadObject", "*", "?", "Read*", ":", "", " ", "é", "\n"]
RESOURCE_WORDS: Final = [
    "arn:lakefs:fs:::", "arn:lakefs:auth:::", "repository/", "lake", "/object/", "*", "?",
    "${user}", "${", "${other}", "}", "[", "]", '"', ",", "\\", "[*]", "a", "é", "\n", "\ud800",
    "[[[[", "(", "+",
]  # fmt: skip
NETWORK_WORDS: Final = [
    "10.0.0.0", "/8", "/33", "/-1", "/", "::1", "::ffff:10.0.0.1", "/128", "%eth0", "01", ".", ":",
    "²", "1" * 40, "é", "/255.0.0.0", "/0.0.0.255", " ", "",
]  # fmt: skip
fields: Final = st.sampled_from(["SourceIp", "sourceip", "other"])
operators: Final = st.sampled_from(["IpAddress", "NotIpAddress", "StringEquals"])
spelled_networks: Final = texts(
    NETWORK_WORDS,
    st.sampled_from(["10.0.0.0/8", "10.1.2.3", "::1", "2001:db8::/32", "::ffff:10.0.0.0/104"])
    | st.ip_addresses().map(str),
)
CONDITIONS: Final = st.dictionaries(
    operators,
    st.dictionaries(fields, st.lists(spelled_networks, max_size=2).map(tuple), max_size=2),
    max_size=2,
)
statements: Final = st.builds(
    Statement,
    effect=st.sampled_from(Effect),
    actions=st.lists(texts(ACTION_WORDS, st.just("fs:ReadObject")), max_size=3).map(tuple),
    resource=texts(RESOURCE_WORDS, st.just("arn:lakefs:fs:::repository/lake/object/*")),
    condition=st.just({}) | CONDITIONS,
)


@targets.add(
    st.tuples(st.lists(statements, max_size=3), st.sampled_from(["jane", "a*b", "${user}"]))
)
def policies(case: tuple[list[Statement], str]) -> None:
    """Statements that may be stored can be asked, and a denial of everything wins over them."""
    given, user = case
    checked = attempt(InvalidPolicy, check_new_statements, given)
    if checked is None:
        return
    everything = Statement(effect=Effect.DENY, actions=("*",), resource="*")
    resource = "arn:lakefs:fs:::repository/lake/object/" + "a" * 900
    for source in (None, "10.1.2.3", "::1", "x"):
        context = Context(source_ip=source)
        Rules([_policy(*checked)], user).resource_filter("fs:ReadObject", context)(resource)
        denied = Rules([_policy(*checked, everything)], user)
        assert not denied.resource_filter("fs:ReadObject", context)(resource)


def _policy(*given: Statement) -> Policy:
    return Policy(id=PolicyID("p"), unique_id=UniqueID("u"), created_us=0, statements=tuple(given))


@targets.add(
    st.tuples(
        st.text(st.sampled_from("ab*?.[\\$n"), max_size=30),
        st.text(st.sampled_from("ab*?.[\\\n$"), max_size=30),
    )
)
def patterns(case: tuple[str, str]) -> None:
    """A pattern means what its plain translation means."""
    pattern, text = case
    plain = "".join({"*": ".*", "?": "."}.get(each) or re.escape(each) for each in pattern)
    expected = re.fullmatch(plain, text, re.DOTALL) if pattern.count("*") < 8 else None
    if pattern.count("*") < 8:
        assert bool(compile_pattern(pattern)(text)) == bool(expected)


@targets.add(st.tuples(texts(["a", "b", "*", "?", "**", "a*"]), texts(["a", "b", "ab"])))
def costs_of_patterns(case: tuple[str, str]) -> None:
    """The longest pattern that a policy may have, and the longest path, are compared soon."""
    pattern, text = case
    compile_pattern(pattern[:4096])(text[:1024])


@targets.add(st.tuples(spelled_networks, spelled_networks))
def networks(case: tuple[str, str]) -> None:
    """An address lies in the network that its own text spells."""
    network = attempt(ValueError, parse_network, case[0])
    address = parse_address(case[1])
    if network is not None and address is not None:
        is_in(address, [network])
    if address is not None and "%" not in case[1]:
        assert is_in(address, [parse_network(case[1])])


TOKENS: Final = Tokens(KEYS, Clockwork())
_NOW: Final = int(Clockwork().now())
GOOD: Final = {
    "aud": "login", "iss": "auth", "sub": "jane", "uid": "u1", "key": "AKIA", "jti": "1",
    "iat": _NOW, "exp": _NOW + 60,
}  # fmt: skip
claims: Final = st.dictionaries(
    st.sampled_from([*GOOD, "nbf"]),
    json_values | st.sampled_from([_NOW + 60, _NOW - 60, "login", ["login"], 1e400, "9" * 5000]),
    max_size=3,
).map(lambda changes: {**GOOD, **changes})
headers: Final = st.dictionaries(
    st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jku"]), json_values, max_size=2
)


def _signed(content: dict[str, Any], changed: dict[str, Any]) -> str:
    """A token that we signed ourselves, whatever it says."""
    plain = jwt.PyJWS()
    return plain.encode(
        json.dumps(content).encode(),
        KEYS.signing,
        algorithm="HS256",
        headers={key: value for key, value in changed.items() if key in {"crit", "b64", "jku"}},
    )


@targets.add(claims)
def claims_of_logins(content: dict[str, Any]) -> None:
    """Claims of any type are refused, or name a user and a time that has not come."""
    said = attempt(AuthenticationFailed, TOKENS.verify, _signed(content, {}))
    if said is not None:
        assert isinstance(said.user_id, str)
        assert said.expires_at > _NOW


_GOOD_TOKEN: Final = _signed(GOOD, {})


@targets.add(
    texts(
        [".", "=", "A", "-", "_", "eyJhbGciOiJub25lIn0", "é", "\ud800", "\0", "e30", ""],
        st.just(_GOOD_TOKEN),
    )
    | any_text
)
def login_tokens(token: str) -> None:
    """Only what was signed here is believed."""
    said = attempt(AuthenticationFailed, TOKENS.verify, token)
    if said is not None:
        assert (said.user_id, said.expires_at) == ("jane", _NOW + 60)
