"""Reads the URLs of stores without ever quoting what may be a password."""

import re
import ssl
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from lakebed.kv.errors import InvalidArgument

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMESPACE_OPTION: Final = "namespace"
POOL_SIZE_MAX: Final = 1000


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


def tls_context(options: dict[str, str]) -> ssl.SSLContext | None:
    """Return how to encrypt, by the options ``tls`` and ``ca``; None: not at all.

    Raises:
        InvalidArgument: The certificates cannot be read.
    """
    if not is_on(options, "tls"):
        return None
    try:
        return ssl.create_default_context(cafile=options.get("ca"))
    except OSError as error:
        raise InvalidArgument(
            f"cannot read the certificates in {options.get('ca')}: {error}"
        ) from None


def pool_size(options: dict[str, str], default: int) -> int:
    """Return how many connections a process keeps at most, by the option ``pool_size``.

    Raises:
        InvalidArgument: It is not a number in its bounds.
    """
    size = options.get("pool_size", str(default))
    if not (size.isascii() and size.isdigit() and 1 <= int(size) <= POOL_SIZE_MAX):
        raise InvalidArgument(f"pool_size must be a number from 1 to {POOL_SIZE_MAX}, not '{size}'")
    return int(size)


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
