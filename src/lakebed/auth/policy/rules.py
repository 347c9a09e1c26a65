"""What policies allow: pure logic, without a store.

A request *requires* something: a `Permission` (an action on a resource), or `AllOf` or `AnyOf` such
requirements. A statement *speaks of* a permission if one of its actions, one of its resources and
all of its conditions match. Then:

- a permission is denied if any statement that denies speaks of it, else allowed if any that allows
  does, else neither;
- a requirement is denied if any permission in it is: **deny wins**, also in an `AnyOf`;
- only what is allowed is allowed.

Resources are ``*``, a resource name with wildcards in its last part, or a JSON list of these;
``${user}`` in them is the name of the user who asks. A condition compares the address that a
request comes from; where that is not known, a statement that allows does not speak of the request,
and one that denies does.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

from lakebed.auth.model import Conditions, Effect, Policy, Statement
from lakebed.auth.policy.patterns import Matcher, compile_pattern
from lakebed.auth.policy.statements import SOURCE_IP, check_statements, resource_patterns


@dataclass(frozen=True, slots=True)
class Permission:
    """To do something to something."""

    action: str
    resource: str


@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """Every one of these."""

    requirements: tuple["Requirement", ...]

    # At least one: of none, `AnyOf` would be a riddle.
    def __init__(self, first: "Requirement", *rest: "Requirement") -> None:
        object.__setattr__(self, "requirements", (first, *rest))


@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """At least one of these, and none of them denied."""

    requirements: tuple["Requirement", ...]

    def __init__(self, first: "Requirement", *rest: "Requirement") -> None:
        object.__setattr__(self, "requirements", (first, *rest))


Requirement = Permission | AllOf | AnyOf


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What conditions may ask about a request."""

    source_ip: str | None = None


NO_CONTEXT: Final = Context()


def is_allowed(
    policies: Iterable[Policy],
    user_id: str,
    requirement: Requirement,
    context: Context = NO_CONTEXT,
) -> bool:
    """Whether policies allow a user what a request requires.

    Raises:
        InvalidPolicy: A statement is not well formed; it is not ignored.
    """
    return Rules(policies, user_id).missing(requirement, context) is None


@dataclass(frozen=True, slots=True)
class _Rule:
    """A statement, made ready for one user."""

    actions: tuple[Matcher, ...]
    resources: tuple[Matcher, ...]
    holds: Callable[[Context], bool] | None
    """Whether its conditions do; None, if it has none."""

    def speaks_of(self, resource: str, context: Context) -> bool:
        return any(matches(resource) for matches in self.resources) and (
            self.holds is None or self.holds(context)
        )


class Rules:
    """All policies of one user, made ready to be asked many times.

    Raises:
        InvalidPolicy: A statement is not well formed.
    """

    def __init__(self, policies: Iterable[Policy], user_id: str) -> None:
        self._allow: list[_Rule] = []
        self._deny: list[_Rule] = []
        for policy in policies:
            for statement in check_statements(policy.statements):
                denies = statement.effect is Effect.DENY
                (self._deny if denies else self._allow).append(_rule(statement, user_id))
        # There are only as many actions as requests name; each is matched with the rules once.
        self._by_action: dict[str, tuple[list[_Rule], list[_Rule]]] = {}

    def missing(self, requirement: Requirement, context: Context = NO_CONTEXT) -> Permission | None:
        """Return a permission for want of which the requirement is not met; None if it is."""
        if isinstance(requirement, Permission):
            if self._denies(requirement, context) or not self._allows(requirement, context):
                return requirement
            return None
        return self._denied(requirement, context) or self._lacking(requirement, context)

    def _lacking(self, requirement: Requirement, context: Context) -> Permission | None:
        """As `missing`, where nothing is denied."""
        if isinstance(requirement, Permission):
            return None if self._allows(requirement, context) else requirement
        lacking = [self._lacking(part, context) for part in requirement.requirements]
        if isinstance(requirement, AnyOf) and None in lacking:
            return None
        return next((permission for permission in lacking if permission is not None), None)

    def _denied(self, requirement: Requirement, context: Context) -> Permission | None:
        """The first permission in a requirement that a statement denies."""
        if isinstance(requirement, Permission):
            return requirement if self._denies(requirement, context) else None
        found = (self._denied(part, context) for part in requirement.requirements)
        return next((permission for permission in found if permission is not None), None)

    def _denies(self, permission: Permission, context: Context) -> bool:
        _, deny = self._rules(permission.action)
        return any(rule.speaks_of(permission.resource, context) for rule in deny)

    def _allows(self, permission: Permission, context: Context) -> bool:
        allow, _ = self._rules(permission.action)
        return any(rule.speaks_of(permission.resource, context) for rule in allow)

    def _rules(self, action: str) -> tuple[list[_Rule], list[_Rule]]:
        rules = self._by_action.get(action)
        if rules is None:
            rules = _about(self._allow, action), _about(self._deny, action)
            self._by_action[action] = rules
        return rules


def _about(rules: Sequence[_Rule], action: str) -> list[_Rule]:
    return [rule for rule in rules if any(matches(action) for matches in rule.actions)]


def _rule(statement: Statement, user_id: str) -> _Rule:
    return _Rule(
        tuple(compile_pattern(action) for action in statement.actions),
        tuple(
            compile_pattern(pattern, user=user_id)
            for pattern in resource_patterns(statement.resource)
        ),
        _condition(statement) if statement.condition else None,
    )


def _condition(statement: Statement) -> Callable[[Context], bool]:
    """What tells whether all conditions of a statement hold."""
    tests = list(_address_tests(statement.condition))
    when_unknown = statement.effect is Effect.DENY

    def holds(context: Context) -> bool:
        address = _parse(context.source_ip)
        return when_unknown if address is None else all(test(address) for test in tests)

    return holds


_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


def _address_tests(conditions: Conditions) -> Iterable[Callable[[_Address], bool]]:
    for operator, fields in conditions.items():
        networks = [ip_network(value, strict=False) for value in fields[SOURCE_IP]]
        yield partial(_is_from, networks, wanted=operator == "IpAddress")


def _is_from(networks: Sequence[_Network], address: _Address, *, wanted: bool) -> bool:
    return any(address in network for network in networks) is wanted


def _parse(source_ip: str | None) -> _Address | None:
    try:
        address = ip_address(source_ip or "")
    except ValueError:
        return None
    # A server that listens on IPv6 sees the clients of IPv4 so.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
