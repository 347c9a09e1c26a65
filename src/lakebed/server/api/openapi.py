"""The OpenAPI description, generated from the routes."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from lakebed import __version__
from lakebed.server.api.routes import Access, Route
from lakebed.wire.base import Error

# Statuses of every operation.
_ALWAYS: Final = (400, 403, 429, 503)
_SIGNED_IN: Final = (401,)
_ON_SOMETHING: Final = (404, 410)
_REF_TEMPLATE: Final = "#/components/schemas/{name}"


def describe(routes: Iterable[Route], *, base_path: str) -> dict[str, Any]:
    """Return the OpenAPI document of some routes."""
    described = list(routes)
    types: list[object] = [Error]
    for route in described:
        types += [each for each in (route.body, route.answer) if each is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF_TEMPLATE)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for route in described:
        path = base_path + route.path.replace(":path}", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lakebed",
            "description": "Git-like version control for data lakes.",
            "version": __version__,
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "An access key id, and its secret as the password.",
                },
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "A token of the operation login.",
                },
            },
        },
        "security": [{"basic": []}, {"bearer": []}],
    }


def _operation(route: Route, by_type: Mapping[str, object]) -> dict[str, object]:
    described: dict[str, object] = {
        "operationId": route.operation,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route),
            *_header_parameters(route),
        ],
        "responses": _responses(route, by_type),
    }
    if route.needs is Access.ANYONE:
        described["security"] = []
    if route.body is not None:
        described["requestBody"] = {
            "required": not route.body_optional,
            "content": {"application/json": {"schema": by_type[repr(route.body)]}},
        }
    elif route.uploads:
        binary = {"schema": {"type": "string", "format": "binary"}}
        form = {"type": "object", "properties": {"content": binary["schema"]}}
        described["requestBody"] = {
            "content": {
                "application/octet-stream": binary,
                "multipart/form-data": {"schema": form},
            }
        }
    return described


def _path_parameters(route: Route) -> list[dict[str, object]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.parameters
    ]


def _query_parameters(route: Route) -> list[dict[str, object]]:
    if route.query is None:
        return []
    (schema,), components = msgspec.json.schema_components([route.query])
    own = components[schema["$ref"].rpartition("/")[2]]
    required = own.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in own["properties"].items()
    ]


def _header_parameters(route: Route) -> list[dict[str, object]]:
    return [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in route.headers
    ]


def _responses(route: Route, by_type: Mapping[str, object]) -> dict[str, object]:
    error: dict[str, object] = {"application/json": {"schema": by_type[repr(Error)]}}
    statuses = {*_ALWAYS, *route.statuses}
    if route.needs is not Access.ANYONE:
        statuses |= {*_SIGNED_IN}
    if route.parameters:
        statuses |= {*_ON_SOMETHING}
    if route.body is not None or route.uploads:
        statuses |= {408, 411, 413}
    if route.body is not None:
        statuses |= {415}
    content: dict[str, object] = {}
    if route.media is not None:
        content = {route.media: {"schema": {"type": "string"}}}
    elif route.answer is not None:
        content = {"application/json": {"schema": by_type[repr(route.answer)]}}
    elif route.status >= HTTPStatus.BAD_REQUEST:
        content = error
    contents: dict[int, dict[str, object]] = {2: content, 3: {}, 4: error, 5: error}
    statuses |= {route.status}
    return {str(status): _response(status, contents[status // 100]) for status in sorted(statuses)}


def _response(status: int, content: dict[str, object]) -> dict[str, object]:
    described: dict[str, object] = {"description": HTTPStatus(status).phrase}
    if content:
        described["content"] = content
    return described
