"""Detection of a server without users."""

from typing import Final

import httpx
import msgspec

from lakebed.wire.config import SetupState

_SECONDS: Final = 30.0


def waits_for_setup(endpoint: str) -> bool:
    """Return whether a local server needs its initial setup; False if it does not respond."""
    try:
        answer = httpx.get(
            f"{endpoint}/api/v1/setup_lakefs",
            trust_env=False,
            # The certificate is for another name, and no secret is sent.
            verify=False,  # noqa: S501
            timeout=_SECONDS,
        )
        return msgspec.json.decode(answer.content, type=SetupState).state == "not_initialized"
    except (httpx.HTTPError, ValueError):
        return False
