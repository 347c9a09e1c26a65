"""How often tests repeat what chance decides: a few times, or many times in `make test-long`."""

import os
from typing import Final, TypeVar

LONG: Final = bool(os.environ.get("LAKEBED_TEST_LONG"))

T = TypeVar("T")


def rounds(few: T, *, long: T) -> T:
    """Return `few`; in a long run, `long`."""
    return long if LONG else few
