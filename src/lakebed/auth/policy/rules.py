"""Evaluation of policies: pure logic, without a store.

A request needs permissions: actions on resources. A statement *matches* a permission if any of its
actions, any of its resources and all of its conditions match. Then:

- a permission is refused if a denying statement matches: **deny wins**;
- otherwise, a permission is granted if an allowing statement matches;
- otherwise, a permission is refused.

A resource is ``*``, a resource name with wildcards in its last part, or a JSON list of these;
``${user}`` in a resource stands for the requesting user's name. A condition compares the client's
address. An unknown address counts against the client: an allowing statement does not match, and a
denying statement does.

**Wildcards.** ``*`` stands for any number of characters, and ``?`` for exactly one. A pattern
becomes a regular expression in which every piece between two stars is an atomic group, matched only
at its first possible place. If the first place does not lead to a match, no later place does. So
matching costs at most the product of the lengths of pattern and text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.auth.model import Conditions, Effect, Policy, Statement
from lakebed.auth.policy.actions import namespace_arn
from lakebed.auth.policy.addresses import Address, Network, is_in, parse_address, parse_network
from lakebed.auth.policy.statements import (
    IP_ADDRESS,
    SOURCE_IP,
    check_statements,
    resource_patterns,
)

Matcher = Callable[[str], object]
"""Returns a true value if the text matches."""

USER_VARIABLE: Final = "${user}"
"""Variable for the requesting user's name."""

_NAMESPACE: Final = namespace_arn("")
_SCHEME: Final = re.compile(r"\A([A-Za-z0-9]+)")
_AZURE_HOST: Final = re.compile(r"\A(https://[^/$]*?)(?::443)?(?=/|\Z)", re.ASCII)
_PART: Final = re.compile(r"\$\{user\}|.", re.DOTALL)


def compile_pattern(pattern: str, *, user: str = USER_VARIABLE) -> Matcher:
    """Return a function that matches a whole text against a pattern.

    The user's name is taken literally: a star in the name is not a wildcard.
    """
    if pattern == "*":
        return is_anything
    pieces = [""]
    for part in _PART.findall(pattern):
        if part == "*":
            pieces.append("")
        elif part == "?":
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(user if part == USER_VARIABLE else part)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL).fullmatch
    first, *between, last = pieces
    found = "".join(f"(?>.*?{piece})" for piece in between if piece)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL).fullmatch


def compile_resource(pattern: str, *, user: str) -> Matcher:
    """Return a function that matches a resource against a pattern of resource names.

    Resources spell a storage location in canonical form. A pattern may use other spellings: its
    scheme and the host of an Azure account in capital letters, a port, a trailing slash.
    """
    if not pattern.startswith(_NAMESPACE):
        return compile_pattern(pattern, user=user)
    place = _SCHEME.sub(_lower, pattern.removeprefix(_NAMESPACE))
    matches = compile_pattern(_NAMESPACE + _AZURE_HOST.sub(_lower, place), user=user)
    return lambda resource: matches(resource) or matches(f"{resource}/")


def _lower(found: re.Match[str]) -> str:
    return found[1].lower()


is_anything: Final[Matcher] = re.compile("").match
"""Matches every text."""


@dataclass(frozen=True, slots=True)
class Permission:
    """An action on a resource."""

    action: str
    resource: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Properties of a request used by conditions."""

    source_ip: str | None
    """The client's address; None, or a text that is not an address, if unknown."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A statement compiled for one user."""

    actions: tuple[Matcher, ...]
    resources: tuple[Matcher, ...]
    conditions_hold: Callable[[Context], bool] | None
    """None if the statement has no conditions."""


class Rules:
    """All policies of one user, compiled for many requests.

    Raises:
        InvalidPolicy: A statement is malformed; it is not ignored.
    """

    def __init__(self, policies: Iterable[Policy], user_id: str) -> None:
        self._allow: list[_Rule] = []
        self._deny: list[_Rule] = []
        for policy in policies:
            for statement in check_statements(policy.statements):
                denies = statement.effect is Effect.DENY
                (self._deny if denies else self._allow).append(_rule(statement, user_id))
        # Requests use few distinct actions; each is matched with the rules once.
        self._by_action: dict[str, Callable[[Context], Matcher]] = {}

    def resource_filter(self, action: str, context: Context) -> Matcher:
        """Return a predicate for the resources on which the user may perform an action.

        Conditions are evaluated now, once for the many resources of a listing.
        """
        test_in = self._by_action.get(action)
        if test_in is None:
            test_in = _tests(_about(self._allow, action), _about(self._deny, action))
            self._by_action[action] = test_in
        return test_in(context)


def _tests(allow: Sequence[_Rule], deny: Sequence[_Rule]) -> Callable[[Context], Matcher]:
    """Return a function from a request's context to the predicate of some rules."""

    def test_in(context: Context) -> Matcher:
        return _test(_resources(allow, context), _resources(deny, context))

    if any(rule.conditions_hold is not None for rule in (*allow, *deny)):
        return test_in
    # Without conditions, the predicate is the same for all requests.
    test = test_in(Context(source_ip=None))
    return lambda _context: test


def _test(allow: Sequence[Matcher], deny: Sequence[Matcher]) -> Matcher:
    if not deny and is_anything in allow:
        return is_anything

    def is_granted(resource: str) -> bool:
        return not any(matches(resource) for matches in deny) and any(
            matches(resource) for matches in allow
        )

    return is_granted


def _about(rules: Sequence[_Rule], action: str) -> list[_Rule]:
    return [rule for rule in rules if any(matches(action) for matches in rule.actions)]


def _resources(rules: Sequence[_Rule], context: Context) -> list[Matcher]:
    """Return the resources of the rules whose conditions hold."""
    return [
        matches
        for rule in rules
        if rule.conditions_hold is None or rule.conditions_hold(context)
        for matches in rule.resources
    ]


def _rule(statement: Statement, user_id: str) -> _Rule:
    return _Rule(
        tuple(compile_pattern(action) for action in statement.actions),
        tuple(
            compile_resource(pattern, user=user_id)
            for pattern in resource_patterns(statement.resource)
        ),
        _condition(statement) if statement.condition else None,
    )


def _condition(statement: Statement) -> Callable[[Context], bool]:
    """Return a function that evaluates all conditions of a statement."""
    tests = list(_address_tests(statement.condition))
    when_unknown = statement.effect is Effect.DENY

    def conditions_hold(context: Context) -> bool:
        address = parse_address(context.source_ip or "")
        return when_unknown if address is None else all(test(address) for test in tests)

    return conditions_hold


def _address_tests(conditions: Conditions) -> Iterator[Callable[[Address], bool]]:
    for operator, fields in conditions.items():
        networks = [parse_network(value) for value in fields[SOURCE_IP]]
        yield partial(_is_from, networks, wanted=operator == IP_ADDRESS)


def _is_from(networks: Sequence[Network], address: Address, *, wanted: bool) -> bool:
    return is_in(address, networks) is wanted
