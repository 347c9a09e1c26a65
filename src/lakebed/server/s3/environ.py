"""Headers, query parameters and numbers of a WSGI request.

Signature verification and operations share these functions, so a request cannot be signed with one
interpretation and executed with another.
"""

from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

Environ = dict[str, Any]


@lru_cache(maxsize=1024)
def environ_key(name: str) -> str:
    """Return the WSGI key of a header; `name` is in lower case."""
    key = name.upper().replace("-", "_")
    return key if name in {"content-type", "content-length"} else f"HTTP_{key}"


def folded_header(environ: Environ, key: str) -> str:
    """Return a header's value with runs of spaces collapsed; empty if missing.

    Splits bytes, because Latin-1 has more kinds of spaces than ASCII.
    """
    value: str = environ.get(key, "")
    return b" ".join(value.encode("latin-1").split()).decode("latin-1")


def query_parameters(query: str) -> list[tuple[bytes, bytes]]:
    """Return the decoded parameters of a query in order; a plus sign is a space."""
    parameters = []
    for item in query.split("&"):
        if item:
            name, _, value = item.replace("+", "%20").encode("latin-1").partition(b"=")
            parameters.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return parameters


def parse_number(text: str, *, digits_max: int) -> int | None:
    """Return the number of a text of plain digits, or None for any other text."""
    if text.isascii() and text.isdecimal() and len(text) <= digits_max:
        return int(text)
    return None
