"""Webhooks: send the event to a URL; a 2xx status lets the operation proceed.

`send` logs the HTTP requests of hooks, with their responses.
"""

from collections.abc import Mapping
from urllib.parse import urlencode

from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import HookContext, to_json
from lakebed.lake.hooks.network import Network, Response


def run(context: HookContext) -> None:
    """Send the event; raise `HookFailed` without a response, or if its status is not 2xx."""
    properties = context.spec.properties
    fill = context.environment.fill_text
    query = [
        (name, fill(value))
        for name, values in properties.get("query_params", {}).items()
        for value in values
    ]
    # The body is always JSON: ignore a content type from the action file.
    headers = {
        name: fill(value)
        for name, value in properties.get("headers", {}).items()
        if name.lower() != "content-type"
    }
    url = _with_query(properties["url"], query)
    response = send(context, "POST", url, headers=headers, body=to_json(context.payload))
    if not is_success(response.status):
        hint = " (redirects are not followed)" if response.status in range(300, 400) else ""
        raise HookFailed(f"the webhook returned status {response.status}{hint}")


def _with_query(url: str, query: list[tuple[str, str]]) -> str:
    url = url.partition("#")[0]
    if not query:
        return url
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


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
