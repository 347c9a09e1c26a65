"""The requests and answers of a client as lines of the log, with every secret masked.

Credentials are in headers; secrets and tokens are in some bodies; and whoever has a presigned URL
may read with it. Bytes of objects are not shown.
"""

import json
import logging
from collections.abc import Iterable
from typing import Final

import httpx

LOGGER: Final = logging.getLogger(__name__)
# Whoever wants to see this asks for it by itself: other logs have a line for each request.
LOGGER.setLevel(logging.INFO)

_MASK: Final = "********"
_SECRET_HEADERS: Final = frozenset({"authorization", "cookie", "set-cookie"})
_SECRET_WORDS: Final = ("secret", "token", "password")
_BODY_MAX: Final = 2000
"""So many characters of a body are shown."""


def is_shown() -> bool:
    """Whether anybody looks."""
    return LOGGER.isEnabledFor(logging.DEBUG)


def show_request(request: httpx.Request) -> None:
    """Write down a request that is about to be sent."""
    if not is_shown():
        return
    LOGGER.debug("> %s %s", request.method, _masked_request(str(request.url)))
    _show_headers(">", request.headers.items())
    if request.headers.get("Content-Type") == "application/json":
        _show_body(">", request.read())


def show_answer(response: httpx.Response) -> None:
    """Write down how an answer begins."""
    if is_shown():
        LOGGER.debug("< %d %s", response.status_code, response.reason_phrase)
        _show_headers("<", response.headers.items())


def show_answer_body(response: httpx.Response) -> None:
    """Write down the body of an answer that was read."""
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
    """A text; a URL without its query, as it may be a presigned one."""
    if not text.startswith(("http://", "https://")):
        return text
    before, mark, _ = text.partition("?")
    return f"{before}?{_MASK}" if mark else text


def _masked_request(url: str) -> str:
    """The URL of a request, with what it asks for, but neither secrets nor a signature."""
    before, mark, query = url.partition("?")
    if "sign" in query.lower():
        return _masked_text(url)
    pairs = (
        f"{name}={_MASK if _is_secret(name) else value}"
        for name, _, value in (pair.partition("=") for pair in query.split("&"))
    )
    return f"{before}?{'&'.join(pairs)}" if mark else url
