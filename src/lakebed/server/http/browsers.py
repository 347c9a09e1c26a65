"""What browsers may be made to do: by the pages of others, and by objects that are opened as pages.

A browser sends requests on behalf of any page, with the cookies and the passwords that it keeps for
the server. It tells which page that was in headers that no page can change: ``Sec-Fetch-Site``
(to https and to loopback), ``Origin`` (with all that changes something) and ``Referer``.
`sender_of` reads them. See design/0011-browsers.md for the rules.

    LakebedError
    └── BrowserRefused     answered by 403
        ├── ForeignPage    a page of another origin sent the request, or may have
        ├── KeysInURL      an address with a key in it was opened in a browser
        ├── ForeignHost    the request names a host that this server is not known by
        └── WrongOrigin    objects, or all but objects, are served by another origin

**Paths.** A request whose path is not UTF-8 is refused. The server hands paths on decoded, byte by
byte; Falcon would put a mark in the place of bytes that are not UTF-8, and so take two paths for
one.
"""

from collections.abc import Callable
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
    # A document gets an origin of its own, runs nothing and loads nothing.
    "content-security-policy": ("Content-Security-Policy", "sandbox; default-src 'none'"),
    # What is no script, style or document by its type is not taken for one.
    "x-content-type-options": ("X-Content-Type-Options", "nosniff"),
    # Pages of other origins cannot embed it.
    "cross-origin-resource-policy": ("Cross-Origin-Resource-Policy", "same-origin"),
}
"""Headers of every answer, whatever is in it: it is no document of the server's origin. Pages set
their own policy. By name in lower case."""
_BROWSER_HEADERS: Final = frozenset(
    {
        "HTTP_COOKIE",
        "HTTP_ORIGIN",
        "HTTP_REFERER",
        "HTTP_SEC_FETCH_MODE",
        "HTTP_SEC_FETCH_SITE",
        "HTTP_UPGRADE_INSECURE_REQUESTS",
    }
)
"""Headers by which browsers are told from programs."""


class BrowserRefused(LakebedError):
    """A request that a browser may have been made to send; nothing was done."""

    kind: ClassVar[str] = "browser_refused"


class ForeignPage(BrowserRefused):
    """A page of another origin sent the request, or nothing shows that none did."""

    kind = "foreign_page"


class KeysInURL(BrowserRefused):
    """A URL with an access key in it was opened in a browser."""

    kind = "keys_in_url"


class ForeignHost(BrowserRefused):
    """The request names a host that this server is not known by."""

    kind = "foreign_host"


class WrongOrigin(BrowserRefused):
    """What is asked for is served by another origin."""

    kind = "wrong_origin"


class Sender(Enum):
    """On whose behalf a request was sent."""

    PROGRAM = "a program"
    """Nothing says that it came from a browser."""
    PERSON = "a person"
    """Who typed the address into a browser, or took a bookmark."""
    OWN_PAGE = "a page of this server"
    OTHER_PAGE = "a page of another origin"


def is_from_browser(environ: WSGIEnvironment) -> bool:
    """Whether a request has a header that browsers send; most programs send none of them."""
    return not environ.keys().isdisjoint(_BROWSER_HEADERS)


def sender_of(environ: WSGIEnvironment) -> Sender:
    """Return on whose behalf a request was sent."""
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is not None:
        senders = {"same-origin": Sender.OWN_PAGE, "none": Sender.PERSON}
        return senders.get(site, Sender.OTHER_PAGE)
    page = environ.get("HTTP_ORIGIN", _referring_page(environ))
    if page is None:
        return Sender.PROGRAM
    return Sender.OWN_PAGE if _is_own(page, environ) else Sender.OTHER_PAGE


def _referring_page(environ: WSGIEnvironment) -> str | None:
    """Return the page that a browser names as the one that it was at.

    Hadoop's S3A is no browser, and sends what it does there, in two forms. No page can choose what
    its browser sends as ``Referer``, only that nothing is sent: so nobody gains by looking like it.
    """
    referer: str = environ.get("HTTP_REFERER", "")
    is_page = referer.startswith(("http://", "https://")) and not referer.startswith(_HADOOP)
    return referer if is_page else None


def check_cookie(environ: WSGIEnvironment) -> None:
    """Make sure that a request with the cookie of a login comes from a page of this server.

    Raises:
        ForeignPage: It changes something, and nothing shows that it does.
    """
    if environ["REQUEST_METHOD"] in _SAFE_METHODS or sender_of(environ) is Sender.OWN_PAGE:
        return
    raise ForeignPage(
        "a request with the cookie of a login must come from a page of this server, and"
        f" {_seen(environ)}; programs send their keys or a token in the header Authorization"
    )


def check_password(environ: WSGIEnvironment) -> None:
    """Make sure that no page of others uses the password that a browser keeps for the server.

    Raises:
        ForeignPage: It does, to change something.
    """
    if environ["REQUEST_METHOD"] not in _SAFE_METHODS:
        check_page(environ)


def check_page(environ: WSGIEnvironment) -> None:
    """Make sure that a request which changes something was not sent for a page of others.

    Raises:
        ForeignPage: It was.
    """
    if sender_of(environ) is Sender.OTHER_PAGE:
        raise ForeignPage(
            f"a browser sent this request for a page of another origin: {_seen(environ)};"
            " a page that shall use the API from elsewhere needs a token (Authorization: Bearer)"
        )


class BrowserGuard:
    """What a server refuses to browsers before it looks any further.

    A server that accepts the pair of keys that everyone knows belongs to whoever can send it a
    request, and every page that its user opens makes the browser send some. So it takes requests
    only from programs and from its own pages, and under names that lead to this machine alone.
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
    ) -> None:
        """Make the guard of a server.

        Args:
            keys_are_known: Whether the server accepts keys that everyone knows, at this moment;
                None: it never does.
            host: The name that it listens at.
            domain: The domain of the S3 gateway, whose subdomains are buckets.
            api_path: What the paths of the API begin with.
            objects_path: What the paths begin with that objects are served at.
            objects_origin: The origin that serves objects and nothing else, if there is one.
        """
        self._keys_are_known = keys_are_known
        self._names = frozenset({"localhost", host.lower(), domain.lower()})
        self._subdomains = (".localhost", f".{domain.lower()}")
        self._api_path = api_path
        self._objects_path = objects_path
        self._objects_origin = objects_origin
        self._is_known = lru_cache(maxsize=256)(self._read_host)

    def applies(self, environ: WSGIEnvironment) -> bool:
        """Whether a request has to be checked: a browser sent it, or it names an unknown host.

        The host counts without any header of a browser: a page whose own name leads to this machine
        (DNS rebinding) is of one origin with the server, and its browser says nothing more.
        """
        if self._keys_are_known is None:
            return False
        host = environ.get("HTTP_HOST", "localhost")
        # Nearly all requests name one of a few hosts. What is long is not cached.
        is_known = self._is_known if len(host) <= _SHOWN_MAX else self._is_known.__wrapped__
        return not is_known(host) or is_from_browser(environ)

    def check(self, environ: WSGIEnvironment) -> None:
        """Make sure that a request is not one that a page of others made a browser send.

        Raises:
            BrowserRefused: It may be.
        """
        refusal = self._suspicion(environ)
        # Asked last, because the answer is in the store.
        if refusal is not None and self._keys_are_known is not None and self._keys_are_known():
            raise refusal

    def check_origin(self, environ: WSGIEnvironment) -> None:
        """Make sure that objects and all the rest are asked for where they are served.

        Raises:
            WrongOrigin: They are not.
        """
        assert self._objects_origin is not None, "objects have an origin of their own"
        is_object = environ["PATH_INFO"].startswith(self._objects_path)
        if is_object and not _is_own(self._objects_origin, environ):
            raise WrongOrigin(f"objects are served at {self._objects_origin}")
        if not is_object and _is_own(self._objects_origin, environ):
            raise WrongOrigin(f"{self._objects_origin} serves objects and nothing else")

    def _suspicion(self, environ: WSGIEnvironment) -> BrowserRefused | None:
        """Return why a server whose keys are known refuses a request; None: it does not."""
        host = environ.get("HTTP_HOST")
        if host is not None and not self._read_host(host):
            return ForeignHost(
                f"this server has keys that everyone knows, so it answers to names of this machine"
                f" only, as http://localhost, and not to {_shown(host)}"
            )
        if sender_of(environ) is Sender.OTHER_PAGE and not self._is_link(environ):
            return ForeignPage(
                "this server has keys that everyone knows, so it takes no requests from pages of"
                f" other origins: {_seen(environ)}"
            )
        if _is_navigation(environ) and _has_password(environ):
            return KeysInURL(
                "this server has keys that everyone knows, so it takes none from the address line"
                " of a browser: open the address without them"
            )
        return None

    def _read_host(self, host: str) -> bool:
        """Whether a host leads to this machine alone."""
        name, _ = _place(host, 0) or ("", 0)
        if name in self._names or name.endswith(self._subdomains):
            return True
        address = parse_address(name)
        return address is not None and address.is_loopback

    def _is_link(self, environ: WSGIEnvironment) -> bool:
        """Whether a person followed a link to something that may be looked at."""
        return (
            environ["REQUEST_METHOD"] == "GET"
            and environ.get("HTTP_SEC_FETCH_MODE") == "navigate"
            and environ.get("HTTP_SEC_FETCH_DEST") == "document"
            and not environ["PATH_INFO"].startswith(self._api_path)
        )


def is_https(environ: WSGIEnvironment) -> bool:
    """Whether the client reaches the server by TLS, as far as anybody says so.

    Who lies about it harms nobody else: it decides what the client's own cookie is kept for.
    """
    scheme: str = environ.get("HTTP_X_FORWARDED_PROTO") or environ["wsgi.url_scheme"]
    origin: str = environ.get("HTTP_ORIGIN", "")
    return scheme.lower().startswith("https") or origin.lower().startswith("https://")


def _is_navigation(environ: WSGIEnvironment) -> bool:
    """Whether a browser wants to show the answer as a page."""
    mode = environ.get("HTTP_SEC_FETCH_MODE")
    return mode == "navigate" or (mode is None and "HTTP_UPGRADE_INSECURE_REQUESTS" in environ)


def _has_password(environ: WSGIEnvironment) -> bool:
    scheme: str = environ.get("HTTP_AUTHORIZATION", "").partition(" ")[0]
    return scheme.lower() == "basic"


def _is_own(url: str, environ: WSGIEnvironment) -> bool:
    """Whether a URL, or an origin, is of this server under the name by which it was called.

    A page can set neither of the two headers that say so. The scheme is not compared: nobody may
    have told the server that a proxy in front of it speaks TLS.
    """
    default = _DEFAULT_PORTS.get(url.partition("://")[0].lower())
    if default is None:
        return False
    place = _place(url.partition("://")[2], default)
    hosts = [environ.get("HTTP_HOST"), environ.get("HTTP_X_FORWARDED_HOST")]
    return place is not None and place in [_place(host, default) for host in hosts if host]


def _place(text: str, default_port: int) -> tuple[str, int] | None:
    """Return the name and the port that a host, or the rest of a URL, names; None: none."""
    # Nearly all requests name one of a few hosts. What is long is not kept.
    read = _read_place if len(text) <= _SHOWN_MAX else _read_place.__wrapped__
    return read(text, default_port)


@lru_cache(maxsize=256)
def _read_place(text: str, default_port: int) -> tuple[str, int] | None:
    try:
        parts = urlsplit(f"//{text}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    return None if name is None else (name, port or default_port)


def _seen(environ: WSGIEnvironment) -> str:
    """Return what a request says about where it comes from."""
    for key, name in (
        ("HTTP_ORIGIN", "Origin"),
        ("HTTP_REFERER", "Referer"),
        ("HTTP_SEC_FETCH_SITE", "Sec-Fetch-Site"),
    ):
        if key in environ:
            return f"this one has {name}: {_shown(environ[key])}"
    return "this one does not say (Origin, Sec-Fetch-Site)"


def _shown(value: str) -> str:
    """Return what a client sent, as messages may show it."""
    text = "".join(each if each.isprintable() else "?" for each in value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


_KIND: Final = "bad_request"
_REFUSED: Final = (
    b'{"message":"the path of the request is not UTF-8, or holds a NUL","kind":"bad_request"}'
)
_HEADERS: Final = [("Content-Type", "application/json"), ("Content-Length", str(len(_REFUSED)))]


def is_unusual(environ: WSGIEnvironment) -> bool:
    """Whether the path of a request has characters beyond ASCII, or a NUL."""
    path: str = environ["PATH_INFO"]
    return not path.isascii() or "\x00" in path


def refuse_path(
    environ: WSGIEnvironment, start: StartResponse, record: RequestRecord
) -> list[bytes] | None:
    """Answer 400 to a request whose path is not valid; return None if it is."""
    try:
        if "\x00" not in environ["PATH_INFO"].encode("latin-1").decode():
            return None
    except UnicodeError:
        pass
    record.kind = _KIND
    start("400 Bad Request", _HEADERS)
    return [_REFUSED]
