"""How often tests repeat what chance decides: seldom in a fast run, often in a long one."""

import os
from typing import Final, TypeVar

_LONG: Final = bool(os.environ.get("LAKEBED_TEST_LONG"))
_FAST: Final = bool(os.environ.get("LAKEBED_TEST_FAST"))

T = TypeVar("T")


def rounds(usual: T, *, long: T, fast: T | None = None) -> T:
    """Return what fits this run; without `fast`, a fast run is as long as the usual one."""
    if _LONG:
        return long
    return fast if _FAST and fast is not None else usual
