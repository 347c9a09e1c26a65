"""``lakefs`` and ``net/http``: requests to the server."""

from collections.abc import Callable

from lakebed.lake.hooks.lua_child.messages import CALLS, Argument, Call, CallReply, HTTPCall, Pipe
from lakebed.lake.hooks.lua_child.values import CallFailed, number, readable, text


def new_lakefs(pipe: Pipe) -> dict[str, Callable[..., object]]:
    """Return the functions of package ``lakefs``; each returns status and body."""
    return {name: _caller(pipe, name) for name in CALLS}


def new_http(pipe: Pipe) -> dict[str, Callable[..., object]]:
    """Return the functions of package ``net/http``."""

    def request(what: object, body: object = None) -> tuple[object, ...]:
        given: dict[str, object] = what if isinstance(what, dict) else {"url": what, "body": body}
        sent = given.get("body")
        method = given.get("method") or (b"GET" if sent is None else b"POST")
        reply = pipe.ask(
            HTTPCall(
                method=readable(text(method)),
                url=readable(text(given.get("url"))),
                headers=_headers(given.get("headers") or {}),
                body=b"" if sent is None else text(sent),
            )
        )
        if reply.error is not None:
            raise CallFailed(reply.error)
        return reply.status, reply.body, reply.headers, str(reply.status)

    return {"request": request}


def _caller(pipe: Pipe, name: str) -> Callable[..., object]:
    parameters = CALLS[name]

    def call(*given: object) -> tuple[object, ...]:
        arguments: dict[str, Argument] = {}
        for position, parameter in enumerate(parameters, 1):
            value = given[position - 1] if position <= len(given) else None
            if value is not None or not parameter.endswith("?"):
                key = parameter.removesuffix("?")
                arguments[key] = _argument(key, value, position)
        return _results(pipe.ask(Call(name, arguments)))

    return call


def _argument(name: str, value: object, position: int) -> Argument:
    if name == "amount":
        return int(number(value, position))
    if name == "user_metadata":
        return bool(value)
    if name == "metadata":
        if not isinstance(value, dict):
            raise CallFailed(f"bad argument #{position}: a table of strings is expected")
        return {key: readable(text(each, position)) for key, each in value.items()}
    return text(value, position).decode(errors="replace")


def _results(reply: CallReply) -> tuple[object, ...]:
    if reply.error is not None:
        raise CallFailed(reply.error)
    return (reply.status,) if reply.body is None else (reply.status, reply.body)


def _headers(given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        raise CallFailed("headers must be a table of strings")
    headers: dict[str, str] = {}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        headers[name] = ", ".join(readable(text(each)) for each in values)
    return headers
