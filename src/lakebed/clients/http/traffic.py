"""Debug log of requests and responses, with secrets masked.

Headers, bodies and presigned URLs can contain secrets. Contents of objects are not logged.
"""

import json
import logging
from collections.abc import Iterable
from typing import Final

import httpx

LOGGER: Final = logging.getLogger(__name__)
# Enabled separately: other debug logs have one line a request.
LOGGER.setLevel(logging.INFO)

_MASK: Final = "********"
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "set-cookie"})
_SECRET_WORDS: Final = ("secret", "token", "password")
_BODY_MAX: Final = 2000
"""Logged characters of a body."""


def is_shown() -> bool:
    """Whether requests are logged."""
    return LOGGER.isEnabledFor(logging.DEBUG)


def show_request(request: httpx.Request) -> None:
    """Log a request before sending."""
    if not is_shown():
        return
    LOGGER.debug("> %s %s", request.method, _masked_request(str(request.url)))
    _show_headers(">", request.headers.items())
    if request.headers.get("Content-Type") == "application/json":
        _show_body(">", request.read())


def show_answer(response: httpx.Response) -> None:
    """Log the status and headers of a response."""
    if is_shown():
        LOGGER.debug("< %d %s", response.status_code, response.reason_phrase)
        _show_headers("<", response.headers.items())


def show_answer_body(response: httpx.Response) -> None:
    """Log the body of a response."""
    if is_shown() and response.headers.get("Content-Type", "").startswith("application/json"):
        _show_body("<", response.content)


def _show_headers(sign: str, headers: Iterable[tuple[str, str]]) -> None:
    for name, value in headers:
        shown = _MASK if name.lower() in _SECRET_HEADERS else _masked_text(value)
        LOGGER.debug("%s %s: %s", sign, name, shown)


def _show_body(sign: str, body: bytes) -> None:
    try:
        text = json.dumps(_masked(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        text = f"({len(body)} bytes that are not JSON)"
    LOGGER.debug("%s %s", sign, text if len(text) <= _BODY_MAX else f"{text[:_BODY_MAX]} …")


def _masked(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: _MASK if _is_secret(name) and isinstance(inner, str) else _masked(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    return _masked_text(value) if isinstance(value, str) else value


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in _SECRET_WORDS)


def _masked_text(text: str) -> str:
    """Mask the query of a URL, as the URL may be presigned."""
    if not text.startswith(("http://", "https://")):
        return text
    before, separator, _ = text.partition("?")
    return f"{before}?{_MASK}" if separator else text


def _masked_request(url: str) -> str:
    """Mask secrets in the query of a request, or all of a signed query."""
    before, separator, query = url.partition("?")
    if "sign" in query.lower():
        return _masked_text(url)
    pairs = (
        f"{name}={_MASK if _is_secret(name) else value}"
        for name, _, value in (pair.partition("=") for pair in query.split("&"))
    )
    return f"{before}?{'&'.join(pairs)}" if separator else url
