"""Operations of the API, each declared once as a typed client method and a server route.

An operation is a method without a body. Its parameters are the parts of the path, then the structs
``query`` and ``body``; either may be None where all its fields have defaults. The return type is
the struct of the response:

    class TagsAPI(Resource, tag="tags", path="/repositories/{repository}/tags"):
        @call("getTag", "GET", "/{tag:path}")
        def get(self, repository: str, tag: str) -> Ref: ...

`TagsAPI.get` is an `ApiCall`: its `endpoint` is the route, and `request` builds a request. On an
instance, `tags.get("lake", "v1")` sends that request.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, get_args, overload

import msgspec

P = ParamSpec("P")
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One operation of the API."""

    operation: str
    """Operation id in OpenAPI, from which clients are generated."""
    tag: str
    method: str
    path: str
    """Below the base path, with ``{names}``."""
    status: int
    """Status of a success."""
    transfer: bool = False
    """Whether the operation transfers objects' bytes."""
    uploads: bool = False
    """Whether the body is an object, raw or in a form."""
    query: type[msgspec.Struct] | None = None
    body: object = None
    """Type of the JSON body, if any."""
    body_optional: bool = False
    answer: object = None
    """Type of a JSON response."""
    media: str | None = None
    """Media type of other responses."""
    headers: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    """Other possible statuses."""

    @property
    def parameters(self) -> list[str]:
        """Names of the path parameters."""
        return [part.partition("}")[0].partition(":")[0] for part in self.path.split("{")[1:]]


@dataclass(frozen=True, slots=True)
class WireRequest(Generic[AnswerT_co]):
    """A request for an operation, with the type of its response."""

    endpoint: Endpoint
    segments: tuple[str, ...]
    """Unencoded segments of the path below the base path."""
    query: Mapping[str, Any]
    body: bytes | None
    answer: object
    """Type of the response; strings and bytes are returned unchanged."""


class SendsRequests(Protocol):
    """Sends a request, and returns the response."""

    def __call__(self, request: WireRequest[AnswerT], /) -> AnswerT:
        """Send a request."""


class Resource:
    """Operations of one resource, as methods that send requests."""

    tag: str
    path: str
    """Prefix of the paths of its operations."""

    def __init__(self, send: SendsRequests) -> None:
        self.send = send

    def __init_subclass__(cls, *, tag: str, path: str = "") -> None:
        cls.tag, cls.path = tag, path


class BoundCall(Generic[P, AnswerT]):
    """Operation of a client."""

    __slots__ = ("_send", "call")

    def __init__(self, call: "ApiCall[P, AnswerT]", send: SendsRequests) -> None:
        self.call = call
        self._send = send

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> AnswerT:
        return self._send(self.call.request(*args, **kwargs))


class ApiCall(Generic[P, AnswerT]):
    """Operation of a resource."""

    def __init__(
        self, signature: Callable[..., AnswerT], path: str, fields: dict[str, Any]
    ) -> None:
        self._signature = signature
        self._path = path
        self._fields = fields

    def __set_name__(self, owner: type[Resource], name: str) -> None:
        self._owner = owner

    @overload
    def __get__(self, resource: None, owner: type[Resource]) -> "ApiCall[P, AnswerT]": ...
    @overload
    def __get__(self, resource: Resource, owner: type[Resource]) -> BoundCall[P, AnswerT]: ...
    def __get__(
        self, resource: Resource | None, owner: type[Resource]
    ) -> "ApiCall[P, AnswerT] | BoundCall[P, AnswerT]":
        return self if resource is None else BoundCall(self, resource.send)

    @cached_property
    def endpoint(self) -> Endpoint:
        """The route of the operation."""
        hints = self._signature.__annotations__
        query, _ = _type(hints.get("query"))
        body, body_optional = _type(hints.get("body"))
        media, answer = self._fields.get("media"), hints["return"]
        return Endpoint(
            tag=self._owner.tag,
            path=self._owner.path + self._path,
            query=query,
            body=body,
            body_optional=body_optional,
            answer=None if media else answer,
            **self._fields,
        )

    @cached_property
    def _names(self) -> tuple[str, ...]:
        code = self._signature.__code__
        return code.co_varnames[1 : code.co_argcount]

    def request(self, *args: P.args, **kwargs: P.kwargs) -> WireRequest[AnswerT]:
        given: dict[str, Any] = {**dict(zip(self._names, args, strict=False)), **kwargs}
        query, body = given.pop("query", None), given.pop("body", None)
        return WireRequest(
            self.endpoint,
            tuple(_segment(part, given) for part in self.endpoint.path[1:].split("/")),
            {} if query is None else msgspec.to_builtins(query),
            None if body is None else msgspec.json.encode(body),
            self._signature.__annotations__["return"],
        )


def call(
    operation: str,
    method: str,
    path: str,
    *,
    status: int = 200,
    transfer: bool = False,
    uploads: bool = False,
    statuses: tuple[int, ...] = (),
    media: str | None = None,
    headers: tuple[str, ...] = (),
) -> Callable[[Callable[Concatenate[Any, P], AnswerT]], ApiCall[P, AnswerT]]:
    """Declare a method as an operation; see `Endpoint` for the arguments.

    `path` continues the resource's path.
    """
    fields = {
        "operation": operation,
        "method": method,
        "status": status,
        "transfer": transfer,
        "uploads": uploads,
        "statuses": statuses,
        "media": media,
        "headers": headers,
    }

    def register(signature: Callable[Concatenate[Any, P], AnswerT]) -> ApiCall[P, AnswerT]:
        return ApiCall(signature, path, fields)

    return register


def _type(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was part of the type."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    is_optional = NoneType in get_args(hint)
    return (kinds[0], True) if is_optional else (hint, False)


def _segment(template: str, parts: Mapping[str, str]) -> str:
    if not template.startswith("{"):
        return template
    return parts[template[1:-1].partition(":")[0]]
