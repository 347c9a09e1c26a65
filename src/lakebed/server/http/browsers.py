"""Protection from requests forged through browsers: CSRF, DNS rebinding, objects opened as pages.

A browser attaches the server's cookies and stored passwords to requests of any page. Three headers
that pages cannot change identify the origin of the page: ``Sec-Fetch-Site`` (to https and to
loopback), ``Origin`` (on all requests that change state) and ``Referer``. `sender_of` reads them.
See design/0011-browsers.md for the rules.

    LakebedError
    └── BrowserRefused     answered by 403
        ├── ForeignPage    a page of another origin sent the request, or may have
        ├── KeysInURL      a URL with an access key was opened in a browser
        ├── ForeignHost    the Host header is not a known name of this server
        └── WrongOrigin    the path belongs to the other origin (objects or everything else)

**Paths.** A request whose path is not UTF-8 is refused. The server passes paths on as decoded
bytes; Falcon would replace bytes that are not UTF-8 by U+FFFD, and so merge two paths into one.
"""

from collections.abc import Callable, Collection
from enum import Enum
from functools import lru_cache
from typing import ClassVar, Final
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIEnvironment

from lakebed.auth.policy.addresses import parse_address
from lakebed.base.errors import LakebedError
from lakebed.server.http.request import RequestRecord

_HADOOP: Final = "https://audit.example.org/hadoop/"
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SHOWN_MAX: Final = 100

SAFE_HEADERS: Final = {
    # A document gets an opaque origin, runs no scripts and loads nothing.
    "content-security-policy": ("Content-Security-Policy", "sandbox; default-src 'none'"),
    # Forbid content sniffing: only the declared type counts.
    "x-content-type-options": ("X-Content-Type-Options", "nosniff"),
    # Pages of other origins cannot embed it.
    "cross-origin-resource-policy": ("Cross-Origin-Resource-Policy", "same-origin"),
}
"""Headers of every answer, by name in lower case, so that no content acts as a page of the server's
origin. Pages set their own policy."""
BROWSER_HEADERS: Final = frozenset(
    {
        "HTTP_COOKIE",
        "HTTP_ORIGIN",
        "HTTP_REFERER",
        "HTTP_SEC_FETCH_MODE",
        "HTTP_SEC_FETCH_SITE",
        "HTTP_UPGRADE_INSECURE_REQUESTS",
    }
)
"""Headers that browsers send and most programs do not."""


class BrowserRefused(LakebedError):
    """A request that a malicious page may have made a browser send; it had no effect."""

    kind: ClassVar[str] = "browser_refused"


class ForeignPage(BrowserRefused):
    """A page of another origin sent the request, or the headers do not rule this out."""

    kind = "foreign_page"


class KeysInURL(BrowserRefused):
    """A URL with an access key in it was opened in a browser."""

    kind = "keys_in_url"


class ForeignHost(BrowserRefused):
    """The Host header is not a known name of this server."""

    kind = "foreign_host"


class WrongOrigin(BrowserRefused):
    """The path is served by another origin."""

    kind = "wrong_origin"


class Sender(Enum):
    """Origin of a request, as far as its headers tell."""

    PROGRAM = "a program"
    """No header names a page."""
    PERSON = "a person"
    """A person typed the address into a browser, or used a bookmark."""
    SAME_ORIGIN = "a page of this server"
    CROSS_ORIGIN = "a page of another origin"


def sender_of(environ: WSGIEnvironment) -> Sender:
    """Return the origin of a request, from its headers."""
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        senders = {"same-origin": Sender.SAME_ORIGIN, "none": Sender.PERSON}
        return senders.get(site, Sender.CROSS_ORIGIN)
    page = environ.get("HTTP_ORIGIN", _referring_page(environ))
    if page is None:
        return Sender.PROGRAM
    return Sender.SAME_ORIGIN if _is_own(page, environ) else Sender.CROSS_ORIGIN


def _referring_page(environ: WSGIEnvironment) -> str | None:
    """Return the ``Referer`` header if it names a page.

    Hadoop's S3A sends its audit context there, in two forms. A page can suppress its browser's
    ``Referer`` but not choose it, so imitating S3A gains an attacker nothing.
    """
    referer: str = environ.get("HTTP_REFERER", "")
    is_page = referer.startswith(("http://", "https://")) and not referer.startswith(_HADOOP)
    return referer if is_page else None


def check_cookie(environ: WSGIEnvironment) -> None:
    """Check that a request with the login cookie comes from a page of this server."""
    if environ["REQUEST_METHOD"] in _SAFE_METHODS or sender_of(environ) is Sender.SAME_ORIGIN:
        return
    raise ForeignPage(
        "a request with the login cookie must come from a page of this server:"
        f" {_origin_text(environ)}; programs authenticate by the header Authorization"
    )


def check_password(environ: WSGIEnvironment) -> None:
    """Check that no page of another origin uses the password that a browser stores."""
    if environ["REQUEST_METHOD"] not in _SAFE_METHODS:
        check_page(environ)


def check_page(environ: WSGIEnvironment) -> None:
    """Check that a request was not sent by a page of another origin."""
    if sender_of(environ) is Sender.CROSS_ORIGIN:
        raise ForeignPage(
            f"cross-origin requests are refused: {_origin_text(environ)};"
            " pages of other origins need a token (Authorization: Bearer)"
        )


class BrowserRules:
    """Rules for browsers that apply before authentication.

    A server that accepts the well-known key pair obeys any client that can reach it, and any page
    that its user opens can make the browser send requests. Such a server therefore accepts requests
    only from programs and its own pages, and only under host names that resolve to this machine.
    """

    def __init__(
        self,
        *,
        keys_are_known: Callable[[], bool] | None,
        host: str,
        domain: str,
        api_path: str,
        objects_path: str,
        objects_origin: str | None,
        cors_origins: Collection[str] = (),
    ) -> None:
        """Create the guard of a server.

        `keys_are_known` returns whether the server accepts the well-known keys now; None: never.
        `domain` is that of the S3 gateway, whose subdomains are buckets. `cors_origins` are other
        origins whose pages may send requests.
        """
        self._keys_are_known = keys_are_known
        self._names = frozenset({"localhost", host.lower(), domain.lower()})
        self._subdomains = (".localhost", f".{domain.lower()}")
        self._api_path = api_path
        self._objects_path = objects_path
        self._objects_origin = objects_origin
        self._cors_origins = frozenset(cors_origins)
        self._is_known = lru_cache(maxsize=256)(self._read_host)

    def applies(self, environ: WSGIEnvironment) -> bool:
        """Whether a request must be checked: a browser sent it, or its host is unknown.

        The host counts even without headers of a browser: with DNS rebinding, the attacker's page
        has the same origin as the server, and its browser sends no other sign.
        """
        if self._keys_are_known is None:
            return False
        host = environ.get("HTTP_HOST", "localhost")
        # Nearly all requests name one of a few hosts. Long names are not cached.
        is_known = self._is_known if len(host) <= _SHOWN_MAX else self._is_known.__wrapped__
        return not (is_known(host) and environ.keys().isdisjoint(BROWSER_HEADERS))

    def check(self, environ: WSGIEnvironment) -> None:
        """Check that a request was not forged by a page of another origin."""
        refusal = self._refusal_reason(environ)
        # Asked last: `keys_are_known` reads the store.
        if refusal is not None and self._keys_are_known is not None and self._keys_are_known():
            raise refusal

    def check_origin(self, environ: WSGIEnvironment) -> None:
        """Check that objects, and all other paths, are requested from their origin."""
        assert self._objects_origin is not None, "objects have an origin of their own"
        is_object = environ["PATH_INFO"].startswith(self._objects_path)
        if is_object and not _is_own(self._objects_origin, environ):
            raise WrongOrigin(f"objects are served at {self._objects_origin}")
        if not is_object and _is_own(self._objects_origin, environ):
            raise WrongOrigin(f"{self._objects_origin} serves only objects")

    def _refusal_reason(self, environ: WSGIEnvironment) -> BrowserRefused | None:
        """Return why a server with well-known keys refuses a request, or None if it does not."""
        host = environ.get("HTTP_HOST")
        if host is not None and not self._read_host(host):
            return ForeignHost(
                f"the host {_shown(host)} is refused, because this server accepts the well-known"
                " keys: use a name of this machine, as http://localhost"
            )
        is_allowed = environ.get("HTTP_ORIGIN") in self._cors_origins or self._is_link(environ)
        if sender_of(environ) is Sender.CROSS_ORIGIN and not is_allowed:
            return ForeignPage(
                "cross-origin requests are refused, because this server accepts the well-known"
                f" keys: {_origin_text(environ)}"
            )
        scheme: str = environ.get("HTTP_AUTHORIZATION", "").partition(" ")[0]
        if _is_navigation(environ) and scheme.lower() == "basic":
            return KeysInURL(
                "URLs with keys are refused, because this server accepts the well-known keys: open"
                " the URL without keys"
            )
        return None

    def _read_host(self, host: str) -> bool:
        """Whether a host name resolves to this machine alone."""
        name, _ = _host_port(host, 0) or ("", 0)
        if name in self._names or name.endswith(self._subdomains):
            return True
        address = parse_address(name)
        return address is not None and address.is_loopback

    def _is_link(self, environ: WSGIEnvironment) -> bool:
        """Whether a person followed a link to a page that changes no state."""
        return (
            environ["REQUEST_METHOD"] == "GET"
            and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
            and environ.get("HTTP_SEC_FETCH_DEST") == "document"
            and not environ["PATH_INFO"].startswith(self._api_path)
        )


def is_https(environ: WSGIEnvironment) -> bool:
    """Whether the client reaches the server by TLS, according to a proxy or the browser.

    The headers can be forged, harmlessly: they decide only the ``Secure`` flag of the client's
    cookie.
    """
    scheme: str = environ.get("HTTP_X_FORWARDED_PROTO") or environ["wsgi.url_scheme"]
    origin: str = environ.get("HTTP_ORIGIN", "")
    return scheme.lower().startswith("https") or origin.lower().startswith("https://")


def _is_navigation(environ: WSGIEnvironment) -> bool:
    """Whether a browser wants to show the answer as a page."""
    mode = environ.get("HTTP_SEC_FETCH_MODE")
    return mode == "navigate" or (mode is None and "HTTP_UPGRADE_INSECURE_REQUESTS" in environ)


def _is_own(url: str, environ: WSGIEnvironment) -> bool:
    """Whether a URL, or an origin, names this server by the host of the request.

    A page can set neither of the two host headers. The scheme is not compared: the server may not
    know that a proxy in front of it terminates TLS.
    """
    default = _DEFAULT_PORTS.get(url.partition("://")[0].lower())
    if default is None:
        return False
    place = _host_port(url.partition("://")[2], default)
    hosts = [environ.get("HTTP_HOST"), environ.get("HTTP_X_FORWARDED_HOST")]
    return place is not None and place in [_host_port(host, default) for host in hosts if host]


def _host_port(text: str, default_port: int) -> tuple[str, int] | None:
    """Return the host name and port of a ``Host`` header or the rest of a URL, or None."""
    # Cached: nearly all requests name one of a few hosts. Long names are not cached.
    read = _read_host_port if len(text) <= _SHOWN_MAX else _read_host_port.__wrapped__
    return read(text, default_port)


@lru_cache(maxsize=256)
def _read_host_port(text: str, default_port: int) -> tuple[str, int] | None:
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    return None if name is None else (name, port or default_port)


def _origin_text(environ: WSGIEnvironment) -> str:
    """Return the origin that a request's headers name."""
    for key, name in (
        ("HTTP_ORIGIN", "Origin"),
        ("HTTP_REFERER", "Referer"),
        ("HTTP_SEC_FETCH_SITE", "Sec-Fetch-Site"),
    ):
        if key in environ:
            return f"this request has {name}: {_shown(environ[key])}"
    return "this request names none (Origin, Sec-Fetch-Site)"


def _shown(value: str) -> str:
    """Return a client's text as messages may show it: printable and truncated."""
    text = "".join(each if each.isprintable() else "?" for each in value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


_KIND: Final = "bad_request"
_REFUSED: Final = (
    b'{"message":"the path of the request is not UTF-8, or contains a NUL","kind":"bad_request"}'
)
_HEADERS: Final = [("Content-Type", "application/json"), ("Content-Length", str(len(_REFUSED)))]


def refuse_path(
    environ: WSGIEnvironment, start: StartResponse, record: RequestRecord
) -> list[bytes] | None:
    """Answer 400 to a request whose path is not valid, or return None."""
    try:
        if "\x00" not in environ["PATH_INFO"].encode("latin-1").decode():
            return None
    except UnicodeError:
        pass
    record.kind = _KIND
    start("400 Bad Request", _HEADERS)
    return [_REFUSED]
