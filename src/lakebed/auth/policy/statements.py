"""Validation of policy statements: anything that would be ignored later is refused here."""

import json
import re
from collections.abc import Iterable
from typing import Final

from lakebed.auth.errors import InvalidPolicy
from lakebed.auth.model import Conditions, Statement
from lakebed.auth.policy.actions import SERVICES
from lakebed.auth.policy.addresses import parse_network

SOURCE_IP: Final = "SourceIp"
"""The only field of conditions: the client's address."""

IP_ADDRESS: Final = "IpAddress"
NOT_IP_ADDRESS: Final = "NotIpAddress"
_ACTION: Final = re.compile(r"\*|[a-z]+:[A-Za-z0-9*?]+")
# arn : lakefs : service : region : account : resource, with wildcards in the last part only.
_ARN: Final = re.compile(r"arn:lakefs:[a-z]+:[a-z0-9-]*:[a-z0-9-]*:.+", re.DOTALL)
_PATTERN_CHARACTERS_MAX: Final = 4096
_PATTERNS_MAX: Final = 1000  # every request of a user is matched with them
_SHOWN_CHARACTERS_MAX: Final = 100
_VARIABLE: Final = re.compile(r"\$\{(?!user\})")


def check_statements(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return the statements of a policy if well formed."""
    checked = tuple(statements)
    if not checked:
        raise InvalidPolicy("a policy needs at least one statement")
    for statement in checked:
        if not statement.actions:
            raise InvalidPolicy("a statement needs at least one action")
        for action in statement.actions:
            _check_action(action)
        for resource in resource_patterns(statement.resource):
            _check_resource(resource)
        _check_conditions(statement.condition)
    return checked


def check_new_statements(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return the statements of a new policy if within the limit of patterns.

    A policy stored under another limit keeps its meaning: otherwise its users could do nothing.

    Raises:
        InvalidPolicy: As in `check_statements`, or the policy has too many patterns.
    """
    checked = check_statements(statements)
    for action in (action for statement in checked for action in statement.actions):
        _check_service(action)
    patterns = sum(
        len(statement.actions)
        + len(resource_patterns(statement.resource))
        + sum(len(fields[SOURCE_IP]) for fields in statement.condition.values())
        for statement in checked
    )
    if patterns > _PATTERNS_MAX:
        raise InvalidPolicy(
            f"a policy has at most {_PATTERNS_MAX} actions, resources and addresses, not {patterns}"
        )
    return checked


def _check_service(action: str) -> None:
    service = action.partition(":")[0]
    if service != "*" and service not in SERVICES:
        raise InvalidPolicy(
            f"action {_shown(action)} has an unknown service: use one of"
            f" {', '.join(sorted(SERVICES))}"
        )


def resource_patterns(resource: str) -> list[str]:
    """Return the patterns in the resource of a statement: itself, or its JSON list."""
    if not resource.startswith("["):
        return [resource]
    try:
        patterns = json.loads(resource)
    except (ValueError, RecursionError):
        patterns = None
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise InvalidPolicy(f"resource {_shown(resource)} is not a JSON list of resources")
    return list(patterns)


def _check_action(action: str) -> None:
    if not _ACTION.fullmatch(action):
        raise InvalidPolicy(
            f"invalid action {_shown(action)}: use * or service:name, with wildcards in the name,"
            " as in fs:ReadObject or fs:Read*"
        )
    if len(action) > _PATTERN_CHARACTERS_MAX:
        raise InvalidPolicy(f"an action has at most {_PATTERN_CHARACTERS_MAX} characters")


def _check_resource(pattern: str) -> None:
    if pattern != "*" and not _ARN.fullmatch(pattern):
        raise InvalidPolicy(
            f"invalid resource {_shown(pattern)}: use * or a name or pattern as in"
            " arn:lakefs:fs:::repository/my-repo/object/*"
        )
    if len(pattern) > _PATTERN_CHARACTERS_MAX:
        raise InvalidPolicy(
            f"a resource has at most {_PATTERN_CHARACTERS_MAX} characters, not {len(pattern)}"
        )
    if _VARIABLE.search(pattern):
        raise InvalidPolicy(f"unknown variable in {_shown(pattern)}: only ${{user}} is supported")


def _check_conditions(conditions: Conditions) -> None:
    for operator, fields in conditions.items():
        if operator not in {IP_ADDRESS, NOT_IP_ADDRESS}:
            raise InvalidPolicy(
                f"condition {_shown(operator)} is not supported: use {IP_ADDRESS} or"
                f" {NOT_IP_ADDRESS}"
            )
        if set(fields) != {SOURCE_IP} or not fields[SOURCE_IP]:
            raise InvalidPolicy(
                f"condition {operator} needs addresses or networks for {SOURCE_IP}, and no other"
                " field"
            )
        for value in fields[SOURCE_IP]:
            _check_network(value)


def _check_network(value: str) -> None:
    try:
        parse_network(value)
    except ValueError:
        raise InvalidPolicy(
            f"invalid address or network {_shown(value)}: write 10.1.2.3 or 10.0.0.0/8"
        ) from None


def _shown(text: str) -> str:
    """Return a client's text quoted, cut to the length of a line."""
    shown = text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
    return repr(shown)
