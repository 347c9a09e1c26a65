"""What policies allow, against a naive reading of the same rules."""

import json
import timeit
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from typing import Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth import (
    Action,
    Context,
    Effect,
    InvalidPolicy,
    Permission,
    Policy,
    PolicyID,
    Statement,
    UniqueID,
)
from lakebed.auth.policy.addresses import Address, Network
from lakebed.auth.policy.defaults import BASE_GROUPS, BASE_POLICIES
from lakebed.auth.policy.rules import Rules, compile_pattern
from lakebed.auth.policy.statements import check_new_statements, check_statements, resource_patterns
from tests.auth.kit import NO_ADDRESS, allow, deny

OBJECT: Final = "arn:lakefs:fs:::repository/lake/object/"


def policy(*statements: Statement) -> Policy:
    return Policy(id=PolicyID("p"), unique_id=UniqueID("u"), created_us=0, statements=statements)


def is_allowed(
    policies: Sequence[Policy], user: str, asked: Permission, context: Context = NO_ADDRESS
) -> bool:
    return bool(Rules(policies, user).resource_filter(asked.action, context)(asked.resource))


# Wildcards


def naive(pattern: str, text: str) -> bool:
    """The meaning of wildcards, written down; exponential."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return naive(pattern[1:], text) or (bool(text) and naive(pattern, text[1:]))
    return bool(text) and pattern[0] in {"?", text[0]} and naive(pattern[1:], text[1:])


@given(st.text("ab*?.\n", max_size=8), st.text("ab*?.\n", max_size=10))
def test_wildcards_match_what_a_naive_matcher_does(pattern: str, text: str) -> None:
    assert bool(compile_pattern(pattern)(text)) == naive(pattern, text)


@given(st.data())
def test_a_text_made_from_a_pattern_matches_it(data: st.DataObject) -> None:
    pattern = data.draw(st.text("ab/*?", max_size=12))
    filled = {"*": st.text(max_size=3), "?": st.characters()}
    text = "".join(data.draw(filled.get(part, st.just(part))) for part in pattern)
    assert compile_pattern(pattern)(text)


@given(st.text(max_size=5), st.text(max_size=10))
def test_the_name_of_a_user_is_no_pattern(user: str, text: str) -> None:
    assert bool(compile_pattern("user/${user}", user=user)("user/" + text)) == (user == text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("*a" * 400 + "b", "a" * 2000),
        ("*" + "a?" * 500 + "b*c", "a" * 2000),
        ("*" * 2000 + "b", "a" * 2000),
        (("*" + "a" * 30) * 30 + "?b", "a" * 2000),
    ],
    ids=["stars", "question marks", "only stars", "pieces"],
)
def test_no_pattern_takes_long(pattern: str, text: str) -> None:
    matches = compile_pattern(pattern)
    assert not matches(text)
    assert min(timeit.repeat(lambda: matches(text), number=1, repeat=5)) < 0.1


# Statements against a naive reading


ACTIONS: Final = ["fs:ReadObject", "fs:WriteObject", "auth:ReadUser"]
RESOURCES: Final = [OBJECT + "a", OBJECT + "b", "arn:lakefs:auth:::user/jane", "*"]
ACTION_PATTERNS: Final = [*ACTIONS, "*", "fs:*", "fs:Read*", "auth:ReadUse?"]
RESOURCE_PATTERNS: Final = [
    *RESOURCES,
    OBJECT + "*",
    "arn:lakefs:fs:::*",
    OBJECT + "?",
    "arn:lakefs:auth:::user/${user}",
]

statements = st.builds(
    Statement,
    effect=st.sampled_from(Effect),
    actions=st.lists(st.sampled_from(ACTION_PATTERNS), min_size=1, max_size=2).map(tuple),
    resource=st.sampled_from(RESOURCE_PATTERNS)
    | st.lists(st.sampled_from(RESOURCE_PATTERNS), min_size=1, max_size=2).map(json.dumps),
)
permissions = st.builds(Permission, st.sampled_from(ACTIONS), st.sampled_from(RESOURCES))


def effects(given_statements: Sequence[Statement], user: str, asked: Permission) -> set[Effect]:
    return {
        statement.effect
        for statement in given_statements
        if any(naive(action, asked.action) for action in statement.actions)
        and any(
            naive(pattern.replace("${user}", user), asked.resource)
            for pattern in resource_patterns(statement.resource)
        )
    }


@given(st.lists(statements, max_size=5), st.sampled_from(["jane", "a", "*"]), permissions)
def test_rules_say_what_a_naive_reading_says(
    given_statements: list[Statement], user: str, asked: Permission
) -> None:
    # A user whose name looks like a wildcard is not everybody.
    name = "nobody" if user == "*" else user
    expected = effects(given_statements, name, asked) == {Effect.ALLOW}
    policies = [policy(statement) for statement in given_statements]
    assert is_allowed(policies, user, asked) == expected


def test_a_user_without_policies_is_denied() -> None:
    assert not is_allowed([], "jane", Permission("fs:ReadObject", "*"))


def test_deny_wins_over_any_number_of_allows() -> None:
    read = Permission("fs:ReadObject", OBJECT + "secret/plan")
    policies = [policy(allow("*")), policy(deny("fs:Read*", resource=OBJECT + "secret/*"))]
    assert not is_allowed(policies, "jane", read)
    assert is_allowed(policies, "jane", Permission("fs:ReadObject", OBJECT + "open"))


def test_the_resource_of_everything_needs_a_statement_on_everything() -> None:
    listing = Permission("fs:ListRepositories", "*")
    assert is_allowed([policy(allow("fs:*"))], "jane", listing)
    assert not is_allowed([policy(allow("fs:*", resource="arn:lakefs:fs:::*"))], "jane", listing)


def test_users_manage_their_own_credentials_only() -> None:
    own = [policy(*BASE_POLICIES["AuthManageOwnCredentials"])]
    mine = Permission("auth:CreateCredentials", "arn:lakefs:auth:::user/jane")
    assert is_allowed(own, "jane", mine)
    for other in ("joe", "jan", "janes", "*", "jan?"):
        assert not is_allowed(own, other, mine)


def test_the_base_groups_may_do_what_their_names_say() -> None:
    def may(group: str, action: Action) -> bool:
        policies = [policy(*BASE_POLICIES[name]) for name in BASE_GROUPS[group]]
        return is_allowed(policies, "jane", Permission(action, "*"))

    assert all(may("Admins", action) for action in Action)
    reads = {action for action in Action if may("Viewers", action)}
    assert Action.READ_OBJECT in reads
    assert all(action.startswith(("fs:Read", "fs:List")) for action in reads)
    assert reads < {action for action in Action if may("Developers", action)}
    assert may("Developers", Action.CREATE_COMMIT)
    assert not may("Developers", Action.DELETE_REPOSITORY)
    assert may("SuperUsers", Action.DELETE_REPOSITORY)
    assert not may("SuperUsers", Action.CREATE_USER)


# Conditions


def from_address(effect: Effect, operator: str, *networks: str) -> Policy:
    condition = {operator: {"SourceIp": networks}}
    return policy(Statement(effect=effect, actions=("*",), resource="*", condition=condition))


READ: Final = Permission("fs:ReadObject", OBJECT + "a")


@st.composite
def networks(draw: st.DrawFn, version: Literal[4, 6] | None = None) -> Network:
    """A network around a random address; often one that holds it and others near it."""
    address = draw(st.ip_addresses(v=version))
    bits = draw(st.integers(0, address.max_prefixlen))
    first, length = int(address) >> bits << bits, address.max_prefixlen - bits
    return IPv4Network((first, length)) if address.version == 4 else IPv6Network((first, length))


MAPPED: Final = "0" * 80 + "1" * 16
"""What the bits of an IPv4 address begin with when it is written as IPv6."""


def naive_contains(network: Network, address: Address) -> bool:
    """Compare bit by bit, with all of IPv4 written as IPv6; all of IPv6 holds nothing of IPv4."""
    bits = f"{int(address):0{address.max_prefixlen}b}"
    begin = f"{int(network.network_address):0{network.max_prefixlen}b}"[: network.prefixlen]
    bits = bits if address.version == 6 else MAPPED + bits
    begin = begin if network.version == 6 else MAPPED + begin
    return bits.startswith(begin) and bits.startswith(MAPPED) == begin.startswith(MAPPED)


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:10.1.2.3", True),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
    ],
)
def test_conditions_compare_the_address(address: str, *, inside: bool) -> None:
    networks = ("10.0.0.0/8", "2001:db8::/32")
    context = Context(source_ip=address)
    only_inside = from_address(Effect.ALLOW, "IpAddress", *networks)
    assert is_allowed([only_inside], "jane", READ, context) is inside
    only_outside = from_address(Effect.ALLOW, "NotIpAddress", *networks)
    assert is_allowed([only_outside], "jane", READ, context) is not inside
    shut_out = [policy(allow("*")), from_address(Effect.DENY, "NotIpAddress", *networks)]
    assert is_allowed(shut_out, "jane", READ, context) is inside


def test_all_conditions_must_hold() -> None:
    both = policy(
        Statement(
            effect=Effect.ALLOW,
            actions=("*",),
            resource="*",
            condition={
                "IpAddress": {"SourceIp": ("10.0.0.0/8",)},
                "NotIpAddress": {"SourceIp": ("10.1.0.0/16",)},
            },
        )
    )
    assert is_allowed([both], "jane", READ, Context(source_ip="10.2.0.1"))
    assert not is_allowed([both], "jane", READ, Context(source_ip="10.1.0.1"))


@pytest.mark.parametrize("address", [None, "", "not an address", "unix:"])
def test_an_unknown_address_counts_against_the_caller(address: str | None) -> None:
    context = Context(source_ip=address)
    for operator in ("IpAddress", "NotIpAddress"):
        assert not is_allowed(
            [from_address(Effect.ALLOW, operator, "0.0.0.0/0")], "jane", READ, context
        )
        denied = [policy(allow("*")), from_address(Effect.DENY, operator, "0.0.0.0/0")]
        assert not is_allowed(denied, "jane", READ, context)


@given(st.ip_addresses(), st.lists(networks(), min_size=1, max_size=3))
def test_a_network_holds_what_a_naive_reading_says(
    address: Address, given_networks: list[Network]
) -> None:
    inside = any(naive_contains(network, address) for network in given_networks)
    texts = [str(network) for network in given_networks]
    context = Context(source_ip=str(address))
    assert is_allowed([from_address(Effect.ALLOW, "IpAddress", *texts)], "u", READ, context) is (
        inside
    )
    outside = [from_address(Effect.ALLOW, "NotIpAddress", *texts)]
    assert is_allowed(outside, "u", READ, context) is not inside


@given(st.ip_addresses(v=4), networks(4))
def test_an_address_of_ipv4_counts_the_same_written_as_ipv6(
    address: IPv4Address, network: Network
) -> None:
    high, low = divmod(int(address), 1 << 16)
    addresses = [str(address), f"::ffff:{address}", f"0:0:0:0:0:FFFF:{high:x}:{low:x}"]
    texts = [str(network), f"::ffff:{network.network_address}/{network.prefixlen + 96}"]
    answers = {
        is_allowed([from_address(Effect.ALLOW, "IpAddress", text)], "u", READ, Context(source_ip=a))
        for a in addresses
        for text in texts
    }
    assert answers == {naive_contains(network, address)}


# What a policy may say


def with_condition(operator: str, **fields: tuple[str, ...]) -> Statement:
    return Statement(
        effect=Effect.ALLOW, actions=("*",), resource="*", condition={operator: fields}
    )


@pytest.mark.parametrize(
    "statement",
    [
        allow(),
        allow(""),
        allow("ReadObject"),
        allow("fs:"),
        allow("fs:Read Object"),
        allow("*:Read"),
        allow("fs:Read\n"),
        allow("fs:" + "a" * 5000),
        allow("fs:*", resource=""),
        allow("fs:*", resource="lake"),
        allow("fs:*", resource="arn:aws:s3:::bucket"),
        allow("fs:*", resource="arn:lakefs:fs:::"),
        allow("fs:*", resource="arn:lakefs:*:::repository/lake"),
        allow("fs:*", resource="arn:lakefs:fs:::repository/${group}"),
        allow("fs:*", resource="arn:lakefs:fs:::" + "a" * 5000),
        allow("fs:*", resource="[]"),
        allow("fs:*", resource="[1]"),
        allow("fs:*", resource='["*", "lake"]'),
        allow("fs:*", resource='["*"'),
        allow("fs:*", resource="[" * 100_000),
        with_condition("StringLike", SourceIp=("10.0.0.1",)),
        with_condition("StringNotLike", SourceIp=("10.0.0.1",)),
        with_condition("IpAddress", Referer=("10.0.0.1",)),
        with_condition("IpAddress", SourceIp=("10.0.0.1",), Referer=("x",)),
        with_condition("IpAddress", SourceIp=()),
        with_condition("IpAddress", SourceIp=("10.0.0.0/99",)),
        with_condition("IpAddress", SourceIp=("10.0.0.0/8", "")),
        with_condition("IpAddress", SourceIp=("10.0.0",)),
        with_condition("NotIpAddress", SourceIp=("everywhere",)),
        with_condition("IpAddress"),
    ],
    ids=lambda statement: repr(statement)[:80],
)
def test_unsupported_statements_are_refused(statement: Statement) -> None:
    with pytest.raises(InvalidPolicy) as error:
        check_statements([statement])
    assert len(str(error.value)) < 300
    with pytest.raises(InvalidPolicy):
        is_allowed([policy(allow("*"), statement)], "jane", READ)


def test_a_policy_says_something_and_not_too_much() -> None:
    with pytest.raises(InvalidPolicy):
        check_statements([])
    check_new_statements([allow("fs:ReadObject")] * 500)
    with pytest.raises(InvalidPolicy, match="at most 1000"):
        check_new_statements([allow("fs:ReadObject")] * 501)
    with pytest.raises(InvalidPolicy, match="at most 1000"):
        check_new_statements([allow("fs:ReadObject", resource=json.dumps(["*"] * 1000))])
    check_new_statements([with_condition("IpAddress", SourceIp=("10.0.0.1",) * 998)])
    with pytest.raises(InvalidPolicy, match="at most 1000"):
        check_new_statements([with_condition("IpAddress", SourceIp=("10.0.0.1",) * 999)])


def test_a_wrong_network_is_named() -> None:
    with pytest.raises(InvalidPolicy) as error:
        check_new_statements([with_condition("IpAddress", SourceIp=("10.0.0.0/99",))])
    assert str(error.value) == (
        "invalid address or network '10.0.0.0/99': write 10.1.2.3 or 10.0.0.0/8"
    )


def test_base_policies_are_well_formed() -> None:
    for some in BASE_POLICIES.values():
        check_statements(some)
    assert {name for names in BASE_GROUPS.values() for name in names} <= set(BASE_POLICIES)


def test_a_stored_policy_with_more_than_may_be_stored_now_still_counts() -> None:
    many = with_condition("IpAddress", SourceIp=("10.0.0.1",) * 2000)
    assert is_allowed([policy(many), policy(allow("*"))], "jane", READ)
