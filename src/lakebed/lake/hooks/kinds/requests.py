"""HTTP requests of hooks, logged with their responses."""

from collections.abc import Mapping

from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import HookContext
from lakebed.lake.hooks.network import Network, Response

RUN_ID_HEADER = "X-Lakebed-Run-Id"
"""Equal for all deliveries of an event, so that receivers can detect a repeat."""


def send(
    context: HookContext,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
    deadline: Deadline | None = None,
    is_secret: bool = False,
) -> Response:
    """Send a request, and log request and response; known secrets are masked.

    If `is_secret`, the bodies are not logged. Raises `HookFailed` without a complete response.
    """
    sent = {**headers, RUN_ID_HEADER: context.event.run_id}
    if body:
        sent["Content-Type"] = "application/json"
    for name, value in sent.items():
        if not value.isprintable():
            raise HookFailed(f"the header {name} contains a line break or a control character")
    output = context.output
    output.print(f"{method} {url}")
    for name, value in sent.items():
        output.print(f"{name}: {value}")
    output.write(b"\n" + body + b"\n\n" if body and not is_secret else b"\n")
    network = Network(context.settings)
    response = network.request(
        method, url, headers=sent, body=body, deadline=deadline or context.deadline
    )
    output.print(f"Response: {response.status}")
    for name, value in response.headers:
        output.print(f"{name}: {value}")
    output.write(b"\n" + response.body + b"\n" if not is_secret else b"\n")
    if response.is_cut:
        output.print(f"[truncated: only {len(response.body)} bytes of the response were read]")
    return response


def is_success(status: int) -> bool:
    """Return whether a status is 2xx."""
    return status in range(200, 300)
