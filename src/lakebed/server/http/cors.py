"""Cross-origin resource sharing: pages of the origins in ``listen.cors_origins`` may use the APIs.

Browsers ask for permission by a preflight request, and show a page only answers that name its
origin. The server grants neither cookies nor stored passwords to such pages: they sign requests or
send a token themselves.
"""

from collections.abc import Iterable
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

from lakebed.server.http.request import RequestRecord

_METHODS: Final = "DELETE, GET, HEAD, PATCH, POST, PUT"
_SECONDS: Final = "600"


class CrossOrigin:
    """Pipeline step for requests of pages of other origins."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins: Final = frozenset(origins)

    def applies(self, environ: WSGIEnvironment) -> bool:
        """Whether the request comes from a page of an allowed origin."""
        return environ.get("HTTP_ORIGIN") in self._origins

    def act(
        self, environ: WSGIEnvironment, start_response: StartResponse, record: RequestRecord
    ) -> Iterable[bytes] | None:
        """Answer a preflight; let the page read the answer of any other request."""
        record.answer_headers = (
            ("Access-Control-Allow-Origin", environ["HTTP_ORIGIN"]),
            ("Access-Control-Expose-Headers", "*"),
            ("Vary", "Origin"),
        )
        is_preflight = "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ
        if not (is_preflight and environ["REQUEST_METHOD"] == "OPTIONS"):
            return None
        asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
        start_response(
            "204 No Content",
            [
                ("Access-Control-Allow-Methods", _METHODS),
                ("Access-Control-Allow-Headers", asked),
                ("Access-Control-Max-Age", _SECONDS),
            ],
        )
        return []
