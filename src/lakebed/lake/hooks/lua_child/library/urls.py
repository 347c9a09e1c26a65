"""``net/url``: URLs as Go reads and writes them."""

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lakebed.lake.hooks.lua_child.values import CallFailed, text

_CONTROLS: Final = re.compile(rb"[\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_SCHEME: Final = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):")
_USER: Final = re.compile(rb"[A-Za-z0-9_.:~!$&'()*+,;=%@-]*")
_HOST: Final = re.compile(rb"\[?[A-Za-z0-9_.~!$&'()*+,;=:<>\"%\x80-\xff-]*")
_ASCII_ESCAPE: Final = re.compile(rb"%[0-7].")
_PORT: Final = re.compile(rb"(:[0-9]*)?")

# What stays as it is in a part, besides letters, digits and _.-~
_IN_SEGMENT: Final = "$&+:=@"
_IN_PATH: Final = _IN_SEGMENT + ",/;"
_IN_FRAGMENT: Final = _IN_PATH + "!()*?"
_IN_HOST: Final = "!$&'()*+,;=:[]<>\""


def _parse(url: object) -> dict[str, bytes]:
    given = text(url)
    try:
        return _split(given)
    except CallFailed as error:
        raise CallFailed(f"invalid URL {given.decode(errors='replace')!r}: {error}") from None


def _split(url: bytes) -> dict[str, bytes]:
    if _CONTROLS.search(url):
        raise CallFailed("it has a control character")
    rest, _, fragment = url.partition(b"#")
    if rest.startswith(b":"):
        raise CallFailed("the scheme before : is missing")
    found = _SCHEME.match(rest)
    scheme = found[1].lower() if found else b""
    rest, _, query = rest[found.end() if found else 0 :].partition(b"?")
    host = b""
    if not rest.startswith(b"/"):
        if found:
            rest = b""  # opaque, like mailto:
        elif b":" in rest.partition(b"/")[0]:
            raise CallFailed("the first segment of a path cannot contain a colon")
    elif rest.startswith(b"//") and (found or not rest.startswith(b"///")):
        authority, slash, path = rest[2:].partition(b"/")
        host, rest = _host(authority), slash + path
    return {
        "scheme": scheme,
        "host": host,
        "path": _unescape(rest),
        "query": query,
        "fragment": _unescape(fragment),
    }


def _host(authority: bytes) -> bytes:
    user, _, host = authority.rpartition(b"@")
    if not _USER.fullmatch(user):
        raise CallFailed("the user name has an invalid character")
    _unescape(user)
    name, bracket, port = host.rpartition(b"]") if host.startswith(b"[") else host.partition(b":")
    if host.startswith(b"[") and not bracket:
        raise CallFailed("] is missing in the host")
    if not _PORT.fullmatch(port if bracket == b"]" else bracket + port):
        raise CallFailed("the port is not a number")
    outside_zone, _, _ = name.partition(b"%25") if bracket == b"]" else (name, b"", b"")
    if not _HOST.fullmatch(outside_zone) or _ASCII_ESCAPE.search(outside_zone):
        raise CallFailed("the host has an invalid character")
    return _unescape(host)


def _unescape(written: bytes) -> bytes:
    wrong = _ESCAPE.search(written)
    if wrong:
        raise CallFailed(f"invalid escape {wrong[0].decode(errors='replace')!r}")
    return unquote_to_bytes(written)


def _build(
    scheme: object,
    host: object,
    path: object = b"",
    query: object = b"",
    fragment: object = b"",
) -> bytes:
    start, name, end = text(scheme), text(host, 2), text(path, 3)
    built = start + b":" if start else b""
    if name or (start and end):
        built += b"//" + quote_from_bytes(name, _IN_HOST).encode()
    if name and end and not end.startswith(b"/"):
        built += b"/"
    if not built and b":" in end.partition(b"/")[0]:
        built = b"./"
    built += b"*" if end == b"*" else quote_from_bytes(end, _IN_PATH).encode()
    asked, last = text(query, 4), quote_from_bytes(text(fragment, 5), _IN_FRAGMENT).encode()
    return built + (b"?" + asked if asked else b"") + (b"#" + last if last else b"")


URL: Final = {
    "parse": _parse,
    "query_unescape": lambda query: _unescape(text(query).replace(b"+", b" ")),
    "path_escape": lambda path: quote_from_bytes(text(path), _IN_SEGMENT),
    "build_url": _build,
}
