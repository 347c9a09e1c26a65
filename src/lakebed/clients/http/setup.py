"""Whether a server waits for its first user."""

from typing import Final

import httpx
import msgspec

from lakebed.wire.config import SetupState

_SECONDS: Final = 30.0


def waits_for_setup(endpoint: str) -> bool:
    """Ask the server that this machine has just started; False if it cannot be asked."""
    try:
        answer = httpx.get(
            f"{endpoint}/api/v1/setup_lakefs",
            trust_env=False,
            # It is our own server, whatever name its certificate has, and nothing secret is sent.
            verify=False,  # noqa: S501
            timeout=_SECONDS,
        )
        return msgspec.json.decode(answer.content, type=SetupState).state == "not_initialized"
    except (httpx.HTTPError, ValueError):
        return False
