"""Request heads: parsed as they arrive, and converted to WSGI environments.

The parser (llhttp, by httptools) receives only the bytes of the head. This module finds the end of
the head by its empty line, and refuses a head that the parser ends elsewhere, so no byte can belong
to two requests. The body's framing is decided here, from the headers alone.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NoReturn
from urllib.parse import unquote_to_bytes
from wsgiref.types import WSGIEnvironment

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

HEADERS_MAX: Final = 128
"""Maximum number of headers of a request."""
_END: Final = b"\r\n\r\n"
_NAMES_MAX: Final = 1024
_BARE: Final = {"HTTP_CONTENT_TYPE": "CONTENT_TYPE", "HTTP_CONTENT_LENGTH": "CONTENT_LENGTH"}
_ONLY_ONCE: Final = frozenset({"HTTP_HOST", "CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING"})
_VERSIONS: Final = {"1.1": "HTTP/1.1", "1.0": "HTTP/1.0"}
_UNKNOWN: Final = "0.0"
"""HTTP version before the first line is parsed."""
_SCHEMES: Final = frozenset({b"http", b"https"})

_keys: dict[bytes, str] = {}


class BadHeadError(Exception):
    """The head of a request is refused, and its connection is closed."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(slots=True)
class Head:
    """Head of a request."""

    environ: WSGIEnvironment
    """WSGI environment except ``wsgi.input``."""
    method: str
    length: int | None
    """Length of the body, or None if chunked."""
    keeps_alive: bool
    """Whether the client wants to keep the connection."""
    is_old: bool
    """Whether the request is HTTP/1.0."""
    expects_continue: bool
    """Whether the client waits for "100 Continue"."""


class HeadReader:
    """Reads the head of a request."""

    def __init__(self, environ: WSGIEnvironment, bytes_max: int) -> None:
        """Begin a head.

        Args:
            environ: Environment common to all requests; the head is added to it.
            bytes_max: Maximum size of a head.
        """
        self._environ = environ
        self._bytes_max = bytes_max
        self._parser = HttpRequestParser(self)
        self._tail = b""
        self.size = 0
        """Number of bytes received so far."""
        self._line = b""
        """Request line, possibly with surrounding bytes."""
        self._url = b""
        self._names: dict[str, bytes] = {}
        self._repeats = 0
        self._begun = 0
        self._is_complete = False

    def feed(self, data: bytes) -> bytes | None:
        """Parse received bytes; return the bytes after the head, or None while it is incomplete.

        Raises:
            BadHeadError: The head is malformed or refused.
        """
        while not self._is_complete:
            tail = self._tail
            end = (tail + data).find(_END) if tail else data.find(_END)
            taken = end + len(_END) - len(tail) if end >= 0 else len(data)
            self.size += taken
            if self.size > self._bytes_max:
                self._refuse_size(data[:taken])
            if b"\r\n" not in self._line.lstrip(b"\r\n"):
                self._line += data[:taken]
            self._parse(data[:taken])
            if end < 0:
                self._tail = (tail + data)[-len(_END) + 1 :]
                if self._is_complete:
                    _refuse("the head of the request does not end with an empty line")
                return None
            self._tail, data = b"", data[taken:]
        return data

    def finish(self) -> Head:
        """Return the completed head.

        Raises:
            BadHeadError: The head is refused.
        """
        environ, parser = self._environ, self._parser
        # Break the reference cycle with the parser, which otherwise waits for garbage collection.
        del self._parser
        version = parser.get_http_version()
        if version not in _VERSIONS:
            _refuse(f"HTTP/{version} is not supported: use HTTP/1.1")
        is_old = version == "1.0"
        method = parser.get_method().decode("ascii")
        line = f"{method} {self._url.decode('latin-1')} HTTP/{version}"
        if not self._line.lstrip(b"\r\n").startswith(line.encode("latin-1")):
            _refuse("the request line has more than one space between its parts")
        environ["REQUEST_METHOD"] = method
        environ["SERVER_PROTOCOL"] = _VERSIONS[version]
        self._read_target()
        if not is_old and "HTTP_HOST" not in environ:
            _refuse("the request has no Host header")
        wants: str = environ.get("HTTP_CONNECTION", "").lower()
        return Head(
            environ,
            method,
            self._body_length(is_old=is_old),
            "close" not in wants and (not is_old or "keep-alive" in wants),
            is_old,
            not is_old and environ.get("HTTP_EXPECT", "").lower() == "100-continue",
        )

    def _body_length(self, *, is_old: bool) -> int | None:
        environ = self._environ
        coding: str | None = environ.get("HTTP_TRANSFER_ENCODING")
        if coding is None:
            return int(environ.get("CONTENT_LENGTH", "0"))
        if coding.lower() != "chunked" or is_old or "CONTENT_LENGTH" in environ:
            _refuse(
                f"a body with Transfer-Encoding {coding[:40]!r} is not supported: send a"
                " Content-Length, or chunked alone over HTTP/1.1"
            )
        return None

    def _read_target(self) -> None:
        target = self._url
        if not target.startswith(b"/"):
            target = self._without_authority(target)
        if b"#" in target:
            _refuse("the target of the request has a fragment (#)")
        _set_target(self._environ, target)

    def _without_authority(self, target: bytes) -> bytes:
        """Return the path of an absolute URL; its host replaces the Host header."""
        scheme, _, rest = target.partition(b"://")
        authority, slash, path = rest.partition(b"/")
        is_host = authority and b"@" not in authority and b"?" not in authority
        if scheme.lower() not in _SCHEMES or not is_host:
            _refuse("the target of the request is not a path")
        self._environ["HTTP_HOST"] = authority.decode("latin-1")
        return slash + path or b"/"

    def _refuse_size(self, more: bytes) -> NoReturn:
        available = self._bytes_max - self.size + len(more)
        is_line = self._parser.get_http_version() == _UNKNOWN and b"\r\n" not in more[:available]
        status = (
            HTTPStatus.REQUEST_URI_TOO_LONG
            if is_line
            else HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        )
        raise BadHeadError(status, f"the head of the request exceeds {self._bytes_max} bytes")

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            # The head is complete. No other protocol is supported, so the upgrade is ignored.
            pass
        except HttpParserError as error:
            if isinstance(error.__context__, BadHeadError):
                raise error.__context__ from None
            _refuse(f"not an HTTP request: {error}")
        if self._begun > 1:
            _refuse("the head of the request has an ambiguous end")

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Count the begin of a request."""
        self._begun += 1

    def on_url(self, url: bytes) -> None:
        """Append a part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        key = _keys.get(name) or _key_of(name)
        text = value.strip(b" \t").decode("latin-1")
        if len(self._names) + self._repeats >= HEADERS_MAX:
            # Checked at once: a header takes many times the memory of its bytes.
            raise BadHeadError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request has more than {HEADERS_MAX} headers",
            )
        if key not in self._names:
            self._names[key] = name
            self._environ[key] = text
        else:
            self._repeat(key, name, text)

    def on_headers_complete(self) -> None:
        """Mark the head as complete."""
        self._is_complete = True

    def on_body(self, _body: bytes) -> None:
        """Refuse a body: the parser was given none."""
        _refuse("the head of the request has an ambiguous end")

    def _repeat(self, key: str, name: bytes, text: str) -> None:
        """Append the value of a repeated header."""
        self._repeats += 1
        if self._names[key].lower() != name.lower():
            # `X_Y` would be read as `X-Y`, which a proxy may have set.
            _refuse(f"the headers {self._names[key]!r} and {name!r} have the same name in WSGI")
        if key in _ONLY_ONCE:
            _refuse(f"the request repeats the header {name.decode('latin-1')}")
        separator = "; " if key == "HTTP_COOKIE" else ","
        self._environ[key] = f"{self._environ[key]}{separator}{text}"


def _set_target(environ: dict[str, object], target: bytes) -> None:
    path, _, query = target.partition(b"?")
    if b"%" in path:
        path = unquote_to_bytes(path)
    environ["PATH_INFO"] = path.decode("latin-1")
    environ["QUERY_STRING"] = query.decode("latin-1")


def _key_of(name: bytes) -> str:
    key = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
    key = _BARE.get(key, key)
    if key in _ONLY_ONCE and b"_" in name:
        # A proxy that does not know such a name would see a different request.
        _refuse(f"the header {name!r} has an underscore: use a hyphen")
    if len(_keys) < _NAMES_MAX:  # clients can invent names without end
        _keys[name] = key
    return key


def _refuse(reason: str) -> NoReturn:
    raise BadHeadError(HTTPStatus.BAD_REQUEST, reason)
