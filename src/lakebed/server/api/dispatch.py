"""Dispatch of API requests: authentication, permissions, arguments, handler, answer.

`Operations` is a step of the pipeline. It uses Falcon's routing table, and Falcon answers requests
that match no operation. Operations avoid Falcon's request and response objects, which took as long
as all other steps of a small request.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final, NoReturn, get_origin
from urllib.parse import unquote_plus
from wsgiref.types import StartResponse, WSGIEnvironment

import msgspec
from falcon import code_to_http_status
from falcon.routing import CompiledRouter

from lakebed.auth import Context, Permission
from lakebed.base.actor import EntryPoint, acting_as
from lakebed.base.invalid import explain, explain_json
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Access, Reply, Route
from lakebed.server.http.admission import Admission
from lakebed.server.http.authentication import actor_of, authenticate
from lakebed.server.http.bodies import Body as RequestBody
from lakebed.server.http.browsers import Sender, sender_of
from lakebed.server.http.errors import JSON_TYPE, BadRequest, NotJSON, error_answer
from lakebed.server.http.request import RequestRecord
from lakebed.server.services import Services

SMALL_BYTES: Final = 1 << 16
"""A stream up to this size is answered as one piece, which costs the server less."""

OPEN_BYTES_MAX: Final = 16 << 10
"""The largest body accepted from unauthenticated clients, for a login for example."""
OPEN_SECONDS_MAX: Final = 10.0
"""The time limit of such a body."""

_PATHS_MAX: Final = 1024
"""The number of paths with a cached route; most requests use few paths."""
_PATH_LENGTH_MAX: Final = 256

_TYPE: Final = "content-type"
_LENGTH: Final = "content-length"
_BODILESS: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})

_encode: Final = msgspec.json.Encoder().encode

Arguments = dict[str, Any]
"""Of a handler, by parameter."""
Headers = dict[str, str]
"""Response headers; names in lower case."""


class Operations:
    """Pipeline step that answers the operations of the API and passes all other requests on."""

    def __init__(self, router: CompiledRouter) -> None:
        """Take the routing table with all operations; see `add_operations`."""
        self._find = router.find
        self._find_known = lru_cache(maxsize=_PATHS_MAX)(router.find)

    def answer(
        self, environ: WSGIEnvironment, start_response: StartResponse, record: RequestRecord
    ) -> Iterable[bytes] | None:
        """Answer a request, or return None if no operation matches."""
        path: str = environ["PATH_INFO"]
        if not path.isascii():
            path = path.encode("latin-1").decode("utf-8", "replace")
        found = (self._find_known if len(path) <= _PATH_LENGTH_MAX else self._find)(path)
        if found is None:
            return None
        _, methods, parts, template = found
        operation: object = methods.get(environ["REQUEST_METHOD"])
        if not isinstance(operation, RestOperation):
            return None
        try:
            result = operation.handle(environ, record, parts, template or "")
            status, headers, body = _read_reply(operation.route, result)
        except Exception as error:  # noqa: BLE001 - the last place that can answer
            status, headers, body = error_answer(error, operation.route.operation, parts)
            if sender_of(environ) is Sender.SAME_ORIGIN:
                # The page has its own login form; this header would open the browser's.
                headers.pop("www-authenticate", None)
        return send_answer(environ, start_response, status, headers, body)


def add_operations(
    router: CompiledRouter,
    routes: Iterable[Route],
    services: Services,
    admission: Admission,
    *,
    base_path: str,
) -> None:
    """Add operations to a routing table, for `Operations` to find."""
    by_path: dict[str, dict[str, RestOperation]] = {}
    for route in routes:
        methods = by_path.setdefault(base_path + route.path, {})
        methods[f"on_{route.method.lower()}"] = RestOperation(route, services, admission)
    for path, methods in by_path.items():
        router.add_route(path, SimpleNamespace(**methods))


class RestOperation:
    """Request handler of one operation."""

    def __init__(self, route: Route, services: Services, admission: Admission) -> None:
        self.route: Final = route
        self._services = services
        self._admit = partial(admission.admit, is_transfer=route.transfer)
        self._lists = _list_fields(route.query)
        self._decode = None if route.body is None else msgspec.json.Decoder(route.body).decode
        parts = (("query", route.query), ("body", route.body))
        self._force_parts = [part for part, struct in parts if "force" in _names(struct)]
        """The arguments by which a client may write to a read-only repository."""
        self._can_skip = "skip_hooks" in _names(route.query)
        self._needs_permissions = isinstance(route.needs, tuple)

    def __call__(self) -> NoReturn:
        """Fail: Falcon's routing table accepts only callables, and Falcon never calls this."""
        raise NotImplementedError("operations are answered by `Operations`")

    def handle(
        self,
        environ: WSGIEnvironment,
        record: RequestRecord,
        parts: Mapping[str, str],
        template: str,
    ) -> object:
        """Return the handler's result, given the path's parameters and its template."""
        route, services = self.route, self._services
        record.operation = route.operation
        identity = None
        if route.needs is not Access.ANYONE:
            identity = authenticate(services.auth, environ, client=record.client)
            record.user = identity.user_id
        if route.needs_slot:
            self._admit(record)
        if identity is not None:
            services.catalog.usage.count()  # occasionally writes to the store
        context = Context(source_ip=record.client)
        request = ApiRequest(services, environ, template, identity, context)
        given: Arguments = {"request": request, **parts}
        if route.query is not None:
            given["query"] = _read_query(environ["QUERY_STRING"], route.query, self._lists)
        if self._decode is not None:
            text = _read_small_body(request, is_open=route.needs is Access.ANYONE)
            if text or not route.body_optional:
                given["body"] = _decode(self._decode, text, route.body)
        if identity is not None and self._needs_permissions:
            services.auth.authorize(identity, context, *permissions(route, parts, given))
        actor = actor_of(
            services.auth,
            environ,
            identity,
            record,
            entry_point=EntryPoint.API,
            force=any(getattr(given.get(part), "force", False) for part in self._force_parts),
            skips_hooks=self._can_skip and given["query"].skip_hooks,
        )
        for name in route.unused:
            given.pop(name, None)
        with acting_as(actor):
            return route.handler(**given)


# Permissions


def permissions(route: Route, parts: Mapping[str, str], given: Arguments) -> tuple[Permission, ...]:
    """Return the permissions that a request needs."""
    assert isinstance(route.needs, tuple)
    fields = {**parts, "query": given.get("query"), "body": given.get("body")}
    found: list[Permission] = []
    for need in route.needs:
        if need.when is not None and not getattr(fields["query"], need.when):
            continue
        if need.each is None:
            found.append(Permission(need.action, need.resource.format_map(fields)))
            continue
        # Even an empty list needs a permission: else the answer reveals existing names.
        found += [
            Permission(need.action, need.resource.format(**fields, each=value))
            for value in need.each(fields["body"]) or [""]
        ]
    return tuple(found)


# Arguments


def _read_small_body(request: ApiRequest, *, is_open: bool) -> bytes:
    """Return the body of a request, of type JSON.

    Browsers send bodies of other types for pages of other origins without a preflight request.
    """
    environ = request.environ
    if "HTTP_TRANSFER_ENCODING" in environ or environ.get("CONTENT_LENGTH") not in {None, "", "0"}:
        content_type: str = environ.get("CONTENT_TYPE") or ""
        kind = content_type.partition(";")[0].strip().lower()
        if "," in content_type or not (kind == JSON_TYPE or kind.endswith("+json")):
            raise NotJSON(content_type)
    limits = request.services.settings.limits
    seconds_max, bytes_max = limits.request_seconds, limits.json_bytes_max
    if is_open:
        seconds_max, bytes_max = OPEN_SECONDS_MAX, OPEN_BYTES_MAX
    rate_min = limits.body_bytes_per_second
    body = RequestBody(environ, seconds_max=seconds_max, rate_min=rate_min)
    return body.read(bytes_max)


def _names(struct: object) -> tuple[str, ...]:
    return getattr(struct, "__struct_fields__", ())


def _list_fields(query: type[msgspec.Struct] | None) -> frozenset[str]:
    fields = () if query is None else msgspec.structs.fields(query)
    return frozenset(each.name for each in fields if get_origin(each.type) is list)


def _read_query(text: str, query: type[msgspec.Struct], lists: frozenset[str]) -> msgspec.Struct:
    """Return the parameters of a query, decoded in a third of the standard library's time."""
    values: dict[str, Any] = {}
    is_plain = "%" not in text and "+" not in text
    try:
        for item in filter(None, text.split("&")):
            name, _, value = item.partition("=")
            if not is_plain:
                name = unquote_plus(name, errors="strict")
                value = unquote_plus(value, errors="strict")
            if "\x00" in name or "\x00" in value:
                raise BadRequest("the query contains a NUL character")
            if name in lists:
                values.setdefault(name, []).append(value)
            else:
                values[name] = value
    except UnicodeDecodeError:
        raise BadRequest("the query is not UTF-8") from None
    try:
        return msgspec.convert(values, query, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"invalid query: {explain(error, query, values)}") from None


def _decode(decode: Callable[[bytes], object], text: bytes, kind: object) -> object:
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"invalid body: {explain_json(error, kind, text)}") from None
    except RecursionError:
        raise BadRequest("invalid body: lists and objects are nested too deeply") from None


# Answers

Body = bytes | Iterable[bytes] | None


def _read_reply(route: Route, result: object) -> tuple[int, Headers, Body]:
    """Return status, headers and body for the result of a handler."""
    if not isinstance(result, Reply):
        if result is None:
            return route.status, {}, None
        return route.status, {_TYPE: JSON_TYPE}, _encode(result)
    status, body = result.status or route.status, result.body
    headers = {name.lower(): value for name, value in result.headers.items()}
    if body is None:
        return status, headers, None
    if isinstance(body, str):
        body = body.encode()
    if isinstance(body, bytes):
        headers[_TYPE] = result.content_type or "application/octet-stream"
    elif result.content_length is not None:
        if result.content_type is not None:
            headers[_TYPE] = result.content_type
        if result.content_length <= SMALL_BYTES:
            body = b"".join(body)
        else:
            headers[_LENGTH] = str(result.content_length)
    else:
        headers[_TYPE] = JSON_TYPE
        body = _encode(body)
    return status, headers, body


def send_answer(
    environ: WSGIEnvironment,
    start_response: StartResponse,
    status: int,
    headers: Headers,
    body: Body,
) -> Iterable[bytes]:
    """Start an answer, and return its body."""
    is_head = environ["REQUEST_METHOD"] == "HEAD"
    has_body = not is_head and status not in _BODILESS
    if body is None or isinstance(body, bytes):
        if has_body or (is_head and status not in _BODILESS and _LENGTH not in headers):
            headers[_LENGTH] = str(len(body or b""))
        body = [body] if body else []
    start_response(code_to_http_status(status), list(headers.items()))
    return body if has_body else []
