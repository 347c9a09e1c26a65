"""httpx without its own command line.

That one is imported with httpx wherever click and Rich are installed, and takes as long as httpx
itself. httpx does without it where it cannot be imported. Whoever imports httpx first decides.
"""

import sys
from typing import Final

__all__ = ["httpx"]

_COMMAND_LINE: Final = "httpx._main"

if "httpx" in sys.modules:
    import httpx
else:
    # The entry None makes the import fail.
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]
    import httpx

    del sys.modules[_COMMAND_LINE]
