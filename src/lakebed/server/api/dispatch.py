"""From a request to a handler and back: who asks, whether they may, what they ask, the answer."""

from collections.abc import Callable, Iterator
from typing import Any, Final, get_origin
from urllib.parse import unquote_plus

import falcon
import msgspec

from lakebed.auth import Context, Permission
from lakebed.catalog.nouns import acting_as, read_only_lifted
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Access, Reply, Route
from lakebed.server.http.admission import Admission
from lakebed.server.http.authentication import authenticate
from lakebed.server.http.bodies import Body, has_body
from lakebed.server.http.browsers import Sender, sender_of
from lakebed.server.http.errors import JSON_TYPE, BadRequest, NotJSON, answer_error
from lakebed.server.http.request import current_record
from lakebed.server.services import Services

SMALL_BYTES: Final = 1 << 16
"""A stream up to this size is answered in one piece, which costs the server less."""

OPEN_BYTES_MAX: Final = 16 << 10
"""The largest body that is taken from those who are not signed in, for a login for example."""
OPEN_SECONDS_MAX: Final = 10.0
"""The longest that such a body may take."""

_encode: Final = msgspec.json.Encoder().encode

Responder = Callable[..., None]


def responder(route: Route, services: Services, admission: Admission) -> Responder:
    """Return the function that Falcon calls for an operation."""
    bind = _binder(route)
    can_force = any("force" in _names(each) for each in (route.query, route.body))
    needs_permissions = isinstance(route.needs, tuple)
    admit = admission.admit_transfer if route.transfer else admission.admit_work

    def respond(request: falcon.Request, response: falcon.Response, **parts: str) -> None:
        record = current_record()
        assert record is not None, "requests come in the envelope"
        record.operation = route.operation
        try:
            if route.needs_slot:
                admit(record)
            identity = None
            if route.needs is not Access.ANYONE:
                identity = authenticate(services, request, client=record.client)
                record.user = identity.user_id
                services.catalog.usage.count()
            if route.needs_slot:
                admission.claim(record)
            context = Context(source_ip=record.client)
            given = bind(ApiRequest(services, request, identity, context), parts)
            if identity is not None and needs_permissions:
                services.auth.authorize(identity, context, *permissions(route, parts, given))
            with acting_as(record.user), read_only_lifted(lifted=can_force and _is_forced(given)):
                result = route.handler(**given)
            _answer(route, response, result)
        except Exception as error:  # noqa: BLE001 - the last place that can answer
            answer_error(error, route.operation, response, parts)
            if sender_of(request.env) is Sender.OWN_PAGE:
                # The page asks for keys itself; at this header, the browser would do so.
                response.delete_header("WWW-Authenticate")

    return respond


# Whether they may


def permissions(
    route: Route, parts: dict[str, str], given: dict[str, Any]
) -> tuple[Permission, ...]:
    """Return the permissions that a request needs."""
    assert isinstance(route.needs, tuple)
    fields = {**parts, "query": given.get("query"), "body": given.get("body")}
    found: list[Permission] = []
    for need in route.needs:
        if need.each is None:
            found.append(Permission(need.action, need.resource.format_map(fields)))
            continue
        # Even an empty list needs a permission: else the answer shows what is there.
        found += [
            Permission(need.action, need.resource.format(**fields, each=value))
            for value in getattr(fields["body"], need.each) or [""]
        ]
    return tuple(found)


def _is_forced(given: dict[str, Any]) -> bool:
    """Whether the client wants to write even to a read-only repository."""
    return any(getattr(given.get(part), "force", False) for part in ("query", "body"))


# What they ask


def _binder(route: Route) -> Callable[[ApiRequest, dict[str, str]], dict[str, Any]]:
    """Return the function that reads a handler's arguments from a request."""
    lists = _list_fields(route.query)
    decode = None if route.body is None else msgspec.json.Decoder(route.body).decode

    def bind(request: ApiRequest, parts: dict[str, str]) -> dict[str, Any]:
        given: dict[str, Any] = {"request": request, **parts}
        if route.query is not None:
            given["query"] = _read_query(request.http.query_string, route.query, lists)
        if decode is not None:
            text = _read_small_body(request, is_open=route.needs is Access.ANYONE)
            if text or not route.body_optional:
                given["body"] = _decode(decode, text)
        return given

    return bind


def _read_small_body(request: ApiRequest, *, is_open: bool) -> bytes:
    _check_type(request.http)
    limits = request.services.settings.limits
    seconds_max, bytes_max = limits.request_seconds, limits.json_bytes_max
    if is_open:
        seconds_max, bytes_max = OPEN_SECONDS_MAX, OPEN_BYTES_MAX
    rate_min = limits.body_bytes_per_second
    body = Body(request.http.env, seconds_max=seconds_max, rate_min=rate_min)
    return body.read(bytes_max)


def _check_type(request: falcon.Request) -> None:
    """Make sure that a body says it is JSON.

    A page of another origin can make a browser send bodies of other types without asking first.

    Raises:
        NotJSON: There is a body, and it does not.
    """
    if not has_body(request.env):
        return
    said: str = request.env.get("CONTENT_TYPE") or ""
    kind = said.partition(";")[0].strip().lower()
    if "," in said or not (kind == JSON_TYPE or kind.endswith("+json")):
        raise NotJSON(said)


def _names(struct: Any) -> tuple[str, ...]:
    """Return the names of the fields, if it is a struct."""
    return getattr(struct, "__struct_fields__", ())


def _list_fields(query: type[msgspec.Struct] | None) -> frozenset[str]:
    if query is None:
        return frozenset()
    fields = msgspec.structs.fields(query)
    return frozenset(each.name for each in fields if get_origin(each.type) is list)


def _read_query(text: str, query: type[msgspec.Struct], lists: frozenset[str]) -> msgspec.Struct:
    values: dict[str, Any] = {}
    try:
        for name, value in _parameters(text):
            if "\x00" in name or "\x00" in value:
                raise BadRequest("the query must not have a NUL character in it")
            if name in lists:
                values.setdefault(name, []).append(value)
            else:
                values[name] = value
    except UnicodeDecodeError:
        raise BadRequest("the query has bytes that are not UTF-8") from None
    try:
        return msgspec.convert(values, query, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"in the query: {error}") from None


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a query holds, decoded; the standard library needs three times as long."""
    is_plain = "%" not in text and "+" not in text
    for item in text.split("&"):
        if item:
            name, _, value = item.partition("=")
            if is_plain:
                yield name, value
            else:
                yield unquote_plus(name, errors="strict"), unquote_plus(value, errors="strict")


def _decode(decode: Callable[[bytes], Any], text: bytes) -> Any:
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"in the body: {error}") from None
    except RecursionError:
        raise BadRequest("in the body: lists and objects are nested too deeply") from None


# The answer


def _answer(route: Route, response: falcon.Response, result: Any) -> None:
    if not isinstance(result, Reply):
        response.status = route.status
        if result is not None:
            _answer_value(response, result)
        return
    reply, body = result, result.body
    response.status = reply.status or route.status
    for name, value in reply.headers.items():
        response.append_header(name, value)
    if body is None:
        return
    if isinstance(body, str):
        body = body.encode()
    if isinstance(body, bytes):
        response.data = body
        response.content_type = reply.content_type or "application/octet-stream"
    elif reply.content_length is not None:
        response.content_type = reply.content_type
        if reply.content_length <= SMALL_BYTES:
            response.data = b"".join(body)
        else:
            response.set_stream(body, reply.content_length)
    else:
        _answer_value(response, body)


def _answer_value(response: falcon.Response, value: Any) -> None:
    response.data = _encode(value)
    response.content_type = JSON_TYPE
