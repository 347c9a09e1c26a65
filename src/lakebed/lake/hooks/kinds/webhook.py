"""Webhooks: send the event to a URL; a 2xx status lets the operation proceed."""

from urllib.parse import urlencode

from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.kinds.context import HookContext, to_json
from lakebed.lake.hooks.kinds.requests import is_success, send


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
