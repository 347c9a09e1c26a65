"""The operations of the REST API as data: one `Route` each, made from its handler's signature.

A handler is a plain function. The names of its parameters say what they are: ``request`` is the
request itself, ``query`` a struct of query parameters, ``body`` what the JSON body holds, any other
a part of the path. What it returns is answered as JSON, unless it is a `Reply`. From the same table
come the dispatcher, the OpenAPI page, and the test that walks through all permissions.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])

_NOT_IN_PATH: Final = frozenset({"request", "query", "body"})


class Access(Enum):
    """Who may call an operation that needs no permission."""

    ANYONE = "anyone"
    SIGNED_IN = "signed in"


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that an operation needs.

    The resource is a template, filled with the parts of the path, and with the fields of ``query``
    and ``body``: ``arn:lakefs:fs:::repository/{repository}/branch/{body.name}``.
    """

    action: str
    resource: str
    each: str | None = None
    """A field of the body with many values; the permission is needed for each, as ``{each}``."""
    when: str | None = None
    """A field of the query; the permission is needed only if that is set."""


def fs(action: str, resource: str, *, each: str | None = None) -> Need:
    """A permission on repositories and what is in them."""
    return Need(f"fs:{action}", f"arn:lakefs:fs:::{resource}", each)


def iam(action: str, resource: str) -> Need:
    """A permission on users, groups and policies."""
    return Need(f"auth:{action}", f"arn:lakefs:auth:::{resource}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer that is more than a value as JSON."""

    status: int | None = None
    """None: that of the route."""
    body: Any = None
    """Bytes, text, an iterator over bytes, or a value to answer as JSON."""
    content_type: str | None = None
    content_length: int | None = None
    """Of an iterator only."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation."""

    operation: str
    """Its name in the API, which clients are generated from."""
    tag: str
    method: str
    path: str
    """Below the base path, with ``{names}``."""
    handler: Callable[..., Any]
    needs: Access | tuple[Need, ...]
    status: int
    """Of a success."""
    transfer: bool = False
    """Whether it moves the bytes of objects; such requests have slots of their own."""
    needs_slot: bool = True
    """Whether it has to wait its turn: an answer that costs nothing is given whatever the load."""
    uploads: bool = False
    """Whether the body is an object, raw or in a form."""
    query: type[msgspec.Struct] | None = None
    body: Any = None
    """The type of the JSON body, if there is one."""
    body_optional: bool = False
    answer: Any = None
    """The type of the JSON answer, if it is one."""
    media: str | None = None
    """The type of an answer that is not JSON."""
    headers: tuple[str, ...] = ()
    """The headers that it reads."""
    statuses: tuple[int, ...] = ()
    """Other statuses that it may answer."""

    @property
    def parameters(self) -> list[str]:
        """The names in the path."""
        return [part.partition("}")[0].partition(":")[0] for part in self.path.split("{")[1:]]

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.handler.__doc__ or "").partition("\n")[0]


class Routes:
    """The operations of one resource, collected by decorators."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def add(
        self,
        operation: str,
        method: str,
        path: str,
        needs: Access | Need | tuple[Need, ...],
        *,
        status: int = 200,
        transfer: bool = False,
        needs_slot: bool = True,
        uploads: bool = False,
        statuses: tuple[int, ...] = (),
        answer: Any = None,
        media: str | None = None,
        headers: tuple[str, ...] = (),
    ) -> Callable[[HandlerT], HandlerT]:
        """Make a function the handler of an operation.

        If the handler returns a `Reply`, `answer` or `media` says what is in it.
        """

        def register(handler: HandlerT) -> HandlerT:
            hints = get_type_hints(handler)
            body = inspect.signature(handler).parameters.get("body")
            route = Route(
                operation=operation,
                tag=self._tag,
                method=method,
                path=path,
                handler=handler,
                needs=(needs,) if isinstance(needs, Need) else needs,
                status=status,
                transfer=transfer,
                needs_slot=needs_slot,
                uploads=uploads,
                query=hints.get("query"),
                body=hints.get("body"),
                body_optional=body is not None and body.default is not inspect.Parameter.empty,
                answer=answer or _answer(hints["return"]),
                media=media,
                headers=headers,
                statuses=statuses,
            )
            taken = set(inspect.signature(handler).parameters) - _NOT_IN_PATH
            assert taken == set(route.parameters), f"{operation}: {taken} and {path} differ"
            self._routes.append(route)
            return handler

        return register


def _answer(hint: Any) -> Any:
    return None if hint in {Reply, type(None)} else hint
