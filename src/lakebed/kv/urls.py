"""Parse the URLs of stores; `InvalidArgument` for malformed URLs does not quote passwords."""

import re
import ssl
from collections.abc import Collection
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

from lakebed.kv.errors import InvalidArgument

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NAMESPACE_OPTION: Final = "namespace"
POOL_SIZE_MAX: Final = 1000
MASK: Final = "********"
_OPTION_NAME: Final = re.compile(r"[A-Za-z_]{1,64}")
TLS_OPTIONS: Final = frozenset({"tls", "ca", "cert", "key"})
"""Options of `tls_context`."""
_ENDPOINT_OPTIONS: Final = ("endpoint", "emulator")
"""Options with the URL of a server other than the vendor's."""
_WITH_TLS_OPTION: Final = frozenset(
    {"mysql", "mariadb", "etcd", "valkey", "redis", "cassandra", "hbase", "mongodb"}
)


def split_url(
    url: str, *, options: Collection[str], example: str
) -> tuple[SplitResult, dict[str, str]]:
    """Return the parts of a URL, and its options; errors quote `example`."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if the port is not a number
    except ValueError:
        # Omit the reason: it quotes parts of the URL.
        raise InvalidArgument(
            f"the URL is malformed: use {example}, and percent-encode special characters"
        ) from None
    found = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(found.keys() - set(options))
    if unknown:
        # An invalid option name may be the part of a password after a question mark.
        named = [name if _OPTION_NAME.fullmatch(name) else MASK for name in unknown]
        raise InvalidArgument(
            f"unknown option of a {parts.scheme} URL: {', '.join(named)}; use"
            f" {', '.join(sorted(options))}"
        )
    return parts, found


def check_credentials(url: str) -> None:
    """Reject a URL in which a part of a password would be parsed as host, path or option.

    Drivers and databases quote hosts, paths and options in their errors.
    """
    rest = url.partition("://")[2]
    authority, path, query = _split(rest)
    options = [option.partition("=") for option in query.split("&")]
    if (
        authority.count("@") > 1
        or (authority and "@" in path)
        or any("@" in name for name, _, _ in options)
    ):
        raise InvalidArgument(
            "the URL is malformed: percent-encode special characters in the user and password: @"
            " as %40, / as %2F, ? as %3F, # as %23 and : as %3A"
        )
    for name, _, value in options:
        if name in _ENDPOINT_OPTIONS and "@" in value:
            raise InvalidArgument(f"the option {name} must not contain a user or password")


def _split(rest: str) -> tuple[str, str, str]:
    """Split a URL without its scheme into user and hosts, path and query."""
    before, _, query = rest.partition("?")
    end = min((place for each in "/#" if (place := before.find(each)) >= 0), default=len(before))
    return before[:end], before[end:], query


def unencrypted_hosts(url: str) -> list[str]:
    """Return the hosts to which a database connects over a network without TLS."""
    scheme, _, rest = url.partition("://")
    authority, _, query = _split(rest)
    options = dict(parse_qsl(query))
    if scheme in _WITH_TLS_OPTION:
        encrypted = options.get("tls", options.get("ssl")) == "true"
    elif scheme == "postgresql":
        encrypted = options.get("sslmode") in {"require", "verify-ca", "verify-full"}
    elif any(options.get(name, "").startswith("http://") for name in _ENDPOINT_OPTIONS):
        authority = _split(
            next(options[name] for name in _ENDPOINT_OPTIONS if name in options)[7:]
        )[0]
        encrypted = False
    else:
        return []
    hosts = options.get("host", authority.rpartition("@")[2]).split(",")
    return [] if encrypted else [each for each in map(_without_port, hosts) if _is_remote(each)]


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_remote(host: str) -> bool:
    """Return whether a host name denotes another machine; a socket does not."""
    if not host or host.startswith("/") or host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def is_on(options: dict[str, str], name: str) -> bool:
    """Return whether an option is ``true``; the default is ``false``."""
    value = options.get(name, "false")
    if value not in {"true", "false"}:
        raise InvalidArgument(f"{name} must be true or false, not '{value}'")
    return value == "true"


def tls_context(options: dict[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context of `TLS_OPTIONS`, or None without TLS.

    ``ca`` is a file of certificate authorities; ``cert`` and ``key`` are the client's certificate
    and private key. Without ``key``, the file of ``cert`` contains both.
    """
    files = sorted(TLS_OPTIONS & options.keys() - {"tls"})
    if not is_on(options, "tls"):
        if files:
            raise InvalidArgument(f"{' and '.join(files)} without TLS: add tls=true")
        return None
    ca, cert, key = (options.get(name) for name in ("ca", "cert", "key"))
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise InvalidArgument(f"cannot read the certificates in {ca}: {error}") from None
    if cert is None:
        if key is not None:
            raise InvalidArgument("key without cert: add cert=, the file of its certificate")
        return context

    def refuse() -> str:
        raise InvalidArgument(f"the private key in {key or cert} has a password: remove it")

    try:
        context.load_cert_chain(cert, key, password=refuse)
    except OSError as error:
        where = cert if key is None else f"{cert} with the private key in {key}"
        raise InvalidArgument(f"cannot use the client certificate in {where}: {error}") from None
    return context


def pool_size(options: dict[str, str], default: int) -> int:
    """Return the maximum number of connections per process, from the option ``pool_size``."""
    size = options.get("pool_size", str(default))
    if not (size.isascii() and size.isdigit() and 1 <= int(size) <= POOL_SIZE_MAX):
        raise InvalidArgument(f"pool_size must be a number from 1 to {POOL_SIZE_MAX}, not '{size}'")
    return int(size)


def split_namespace(url: str) -> tuple[str, str | None]:
    """Return a URL without its option ``namespace``, and the namespace."""
    rest, options = take_options(url, {_NAMESPACE_OPTION})
    if not options:
        return url, None
    namespaces = [value for _, value in options]
    if len(namespaces) > 1 or not _NAMESPACE.fullmatch(namespaces[0]):
        raise InvalidArgument(
            f"invalid namespace '{'&'.join(namespaces)}': use 1 to 64 letters, digits, and _ . -"
        )
    return rest, namespaces[0]


def take_options(url: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]]]:
    """Return a URL without some of its options, otherwise unchanged, and these options."""
    rest, question_mark, query = url.rpartition("?")
    options = query.split("&") if question_mark else []
    taken = [option for option in options if option.partition("=")[0] in names]
    if not taken:
        return url, []
    others = [option for option in options if option not in taken]
    pairs = parse_qsl("&".join(taken), keep_blank_values=True)
    return f"{rest}?{'&'.join(others)}" if others else rest, pairs
