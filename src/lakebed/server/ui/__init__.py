"""The page at ``/``: what this server is, and what to paste to use it."""

from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

from lakebed import __version__

CONTENT_TYPE: Final = "text/html; charset=utf-8"
SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""For the header ``Content-Security-Policy``: the page needs nothing from anywhere, and no other
page may show it in a frame."""


def page(endpoint: str) -> bytes:
    """Return the page, for a server that its reader reaches by the given URL."""
    filled = _template().replace("{{endpoint}}", escape(endpoint))
    return filled.replace("{{version}}", escape(__version__)).encode()


@cache
def _template() -> str:
    return files(__name__).joinpath("page.html").read_text(encoding="utf-8")
