"""Which statements a policy may have; whatever would be ignored later is refused here."""

import json
import re
from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final

from lakebed.auth.errors import InvalidPolicy
from lakebed.auth.model import Conditions, Statement

SOURCE_IP: Final = "SourceIp"
"""The one field that conditions may ask for."""

_OPERATORS: Final = frozenset({"IpAddress", "NotIpAddress"})
_ACTION: Final = re.compile(r"\*|[a-z]+:[A-Za-z0-9*?]+")
# arn : lakefs : service : region : account : what, with wildcards in the last part only.
_ARN: Final = re.compile(r"arn:lakefs:[a-z]+:[a-z0-9-]*:[a-z0-9-]*:.+", re.DOTALL)
_PATTERN_CHARACTERS_MAX: Final = 4096
_PATTERNS_MAX: Final = 1000  # every request of a user is compared with them
_VARIABLE: Final = re.compile(r"\$\{(?!user\})")


def check_statements(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return the statements of a policy, if they are well formed.

    Raises:
        InvalidPolicy: One is not, or there is none.
    """
    checked = tuple(statements)
    if not checked:
        raise InvalidPolicy("a policy needs at least one statement")
    patterns = 0
    for statement in checked:
        if not statement.actions:
            raise InvalidPolicy("a statement needs at least one action")
        resources = resource_patterns(statement.resource)
        patterns += len(statement.actions) + len(resources)
        for action in statement.actions:
            _check_action(action)
        for resource in resources:
            _check_resource(resource)
        _check_conditions(statement.condition)
    if patterns > _PATTERNS_MAX:
        raise InvalidPolicy(f"a policy has at most {_PATTERNS_MAX} actions and resources")
    return checked


def resource_patterns(resource: str) -> list[str]:
    """The patterns that the resource of a statement stands for: itself, or those that it lists.

    Raises:
        InvalidPolicy: It looks like a JSON list and is none of strings.
    """
    if not resource.startswith("["):
        return [resource]
    try:
        patterns = json.loads(resource)
    except (ValueError, RecursionError):
        patterns = None
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise InvalidPolicy(f"the resource {_shown(resource)} is not a JSON list of resources")
    return list(patterns)


def _check_action(action: str) -> None:
    if not _ACTION.fullmatch(action):
        raise InvalidPolicy(
            f"{_shown(action)} is no action: use *, or a service, a colon and a name or pattern,"
            " as in fs:ReadObject or fs:Read*"
        )


def _check_resource(pattern: str) -> None:
    if pattern != "*" and not _ARN.fullmatch(pattern):
        raise InvalidPolicy(
            f"{_shown(pattern)} is no resource: use *, or a name or pattern as in"
            " arn:lakefs:fs:::repository/my-repo/object/*"
        )
    if len(pattern) > _PATTERN_CHARACTERS_MAX:
        raise InvalidPolicy(f"a resource has at most {_PATTERN_CHARACTERS_MAX} characters")
    if _VARIABLE.search(pattern):
        raise InvalidPolicy(f"{_shown(pattern)} names an unknown variable: only ${{user}} is known")


def _check_conditions(conditions: Conditions) -> None:
    for operator, fields in conditions.items():
        if operator not in _OPERATORS:
            raise InvalidPolicy(
                f"the condition {_shown(operator)} is not supported: use IpAddress or NotIpAddress"
            )
        if set(fields) != {SOURCE_IP} or not fields[SOURCE_IP]:
            raise InvalidPolicy(f"the condition {operator} needs values for {SOURCE_IP}, only")
        for value in fields[SOURCE_IP]:
            _check_network(value)


def _check_network(value: str) -> None:
    try:
        ip_network(value, strict=False)
    except ValueError:
        raise InvalidPolicy(f"{_shown(value)} is no address or network") from None


def _shown(text: str) -> str:
    """A text that a client sent, for a message: not a novel."""
    return repr(text if len(text) <= 100 else text[:100] + "…")  # noqa: PLR2004 - a line's worth
