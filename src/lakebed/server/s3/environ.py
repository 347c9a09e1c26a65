"""What WSGI hands over of a request: its headers, its query, numbers in them.

The signature of a request and its meaning are both read by these functions. So a request cannot be
signed in one reading and carried out in another.
"""

from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

Environ = dict[str, Any]
"""A request as WSGI hands it over."""


@lru_cache(maxsize=1024)
def environ_key(name: str) -> str:
    """Return the key under which WSGI keeps a header; `name` is in lower case."""
    key = name.upper().replace("-", "_")
    return key if name in {"content-type", "content-length"} else f"HTTP_{key}"


def folded_header(environ: Environ, key: str) -> str:
    """Return the value of a header with every run of spaces as one; empty if it did not arrive.

    The value is split as bytes, because Latin-1 has more kinds of spaces than ASCII.
    """
    value: str = environ.get(key, "")
    return b" ".join(value.encode("latin-1").split()).decode("latin-1")


def query_parameters(query: str) -> list[tuple[bytes, bytes]]:
    """Return the parameters of a query, decoded, in their order; a plus sign is a space."""
    parameters = []
    for item in query.split("&"):
        if item:
            name, _, value = item.replace("+", "%20").encode("latin-1").partition(b"=")
            parameters.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return parameters


def parse_number(text: str, *, digits_max: int) -> int | None:
    """Return the number that a text spells in plain digits; None if it does not spell one."""
    if text.isascii() and text.isdecimal() and len(text) <= digits_max:
        return int(text)
    return None
