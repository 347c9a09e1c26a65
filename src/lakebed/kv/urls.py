"""Reads the URLs of stores without ever quoting what may be a password."""

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from lakebed.kv.errors import InvalidArgument

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMESPACE_OPTION: Final = "namespace"


def split_url(
    url: str, *, options: Collection[str], example: str
) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts of a URL, and its options.

    Raises:
        InvalidArgument: It is malformed, or has other options; `example` is one that is right.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it raises if it is not a number
    except ValueError:
        # Without the reason: it quotes parts of the URL.
        raise InvalidArgument(
            f"the URL is malformed: use {example}, with special characters as %xx"
        ) from None
    found = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(found.keys() - set(options))
    if unknown:
        raise InvalidArgument(
            f"a {parts.scheme} URL has no option {', '.join(unknown)}: use"
            f" {', '.join(sorted(options))}"
        )
    return parts, found


def is_on(options: dict[str, str], name: str) -> bool:
    """Whether an option is ``true``; without it, it is not.

    Raises:
        InvalidArgument: It is neither ``true`` nor ``false``.
    """
    value = options.get(name, "false")
    if value not in {"true", "false"}:
        raise InvalidArgument(f"{name} must be true or false, not '{value}'")
    return value == "true"


def take_namespace(url: str) -> tuple[str, str | None]:
    """Return a URL without its option ``namespace``, and the namespace.

    Raises:
        InvalidArgument: It is not a name.
    """
    rest, question_mark, query = url.rpartition("?")
    options = query.split("&") if question_mark else []
    namespaces = [
        value
        for name, _, value in (option.partition("=") for option in options)
        if name == _NAMESPACE_OPTION
    ]
    if not namespaces:
        return url, None
    others = [option for option in options if option.partition("=")[0] != _NAMESPACE_OPTION]
    if len(namespaces) > 1 or not _NAMESPACE.fullmatch(namespaces[0]):
        raise InvalidArgument(
            f"'{'&'.join(namespaces)}' is not a namespace: use one name of 1 to 64 letters, digits,"
            " and _ . -"
        )
    return f"{rest}?{'&'.join(others)}" if others else rest, namespaces[0]
