"""Which paths a cloud's libraries carry to it unchanged.

obstore drops slashes at both ends of a path and refuses empty and dot segments and control
characters; the vendors' libraries resolve dot segments. A path that would arrive as another one
is refused by name.
"""

import re
from typing import Final

from lakebed.block.errors import InvalidAddress

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_spelling(path: str, *, length_max: int) -> None:
    """Refuse a path that would not arrive as it is.

    Raises:
        InvalidAddress: It holds an empty or a dot segment or a control character, begins or ends
            with a slash, or has more than `length_max` bytes.
    """
    if _CONTROL.search(path):
        raise InvalidAddress(
            f"the path {path!r} has a control character in it, which clouds do not keep"
        )
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise InvalidAddress(
            f"the path {path!r} has a segment that is empty, '.' or '..', which clouds do not keep"
        )
    if len(path.encode()) > length_max:
        raise InvalidAddress(f"the path {path!r} has more than {length_max} bytes")
