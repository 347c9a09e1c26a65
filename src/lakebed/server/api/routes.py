"""The served operations of the REST API: one `Route` each, with handler and permission.

Their shapes are in `lakebed.wire`. A handler is a plain function whose parameter names have
meaning: ``request`` is the request, ``query`` the struct of query parameters, ``body`` the decoded
JSON body, any other a part of the path. A handler may omit the request, a query of flags obeyed by
the dispatcher, and an unused body. Its result is answered as JSON, unless it is a `Reply`. The same
table yields the dispatcher, the OpenAPI document, and the test of all permissions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import NoneType
from typing import Any, Final, TypeVar, get_type_hints

from msgspec import Raw
from msgspec.structs import fields as fields_of

from lakebed.server.api.request import ApiRequest
from lakebed.wire.calls import ApiCall, Endpoint

HandlerT = TypeVar("HandlerT", bound=Callable[..., object])

ReadValues = Callable[[Any], Sequence[str]]
"""Reads a list of values from a body."""

_FLAGS: Final = frozenset({"force", "skip_hooks"})
"""Query fields obeyed by the dispatcher."""


class Access(Enum):
    """Required authentication of an operation without permissions."""

    ANYONE = "anyone"
    SIGNED_IN = "signed in"


@dataclass(frozen=True, slots=True)
class Need:
    """A required permission.

    The resource is a template, filled with the parts of the path, and with the fields of ``query``
    and ``body``: ``arn:lakefs:fs:::repository/{repository}/branch/{body.name}``.
    """

    action: str
    resource: str
    each: ReadValues | None = None
    """Reads a list of values from the body; the permission is required for each, as ``{each}``."""
    when: str | None = None
    """A field of the query; the permission is required only if the field is true."""


def fs(action: str, resource: str, *, each: ReadValues | None = None) -> Need:
    """A permission on repositories and their content."""
    return Need(f"fs:{action}", f"arn:lakefs:fs:::{resource}", each)


def iam(action: str, resource: str) -> Need:
    """A permission on users, groups and policies."""
    return Need(f"auth:{action}", f"arn:lakefs:auth:::{resource}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer with status, headers or a body other than JSON."""

    status: int | None = None
    """None: the route's status."""
    body: Any = None
    """Bytes, text, an iterator over bytes, or a value to encode as JSON."""
    content_type: str | None = None
    content_length: int | None = None
    """Required for an iterator only."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Endpoint):
    """One served operation."""

    handler: Callable[..., object]
    needs: Access | tuple[Need, ...]
    needs_slot: bool = True
    """Whether a slot is required; operations without cost are answered under any load."""

    unused: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0]


class Routes:
    """The operations of one module, registered by decorators."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def add(
        self,
        call: ApiCall[..., Any],
        needs: Access | Need | tuple[Need, ...],
        *,
        needs_slot: bool = True,
    ) -> Callable[[HandlerT], HandlerT]:
        """Register a function as the handler of an operation."""

        def register(handler: HandlerT) -> HandlerT:
            hints = get_type_hints(handler, include_extras=True)
            answer, shape = hints.pop("return"), call.endpoint
            if shape.answer is Raw:  # encoded by the handler
                shape = replace(shape, answer=answer)
            expected = {"request": ApiRequest, "query": shape.query, "body": shape.body}
            unused = tuple(name for name, kind in expected.items() if kind and name not in hints)
            if shape.query is not None and "query" in unused:
                assert {each.name for each in fields_of(shape.query)} <= _FLAGS, shape.operation
            for name in expected.keys() & hints.keys():
                assert hints.pop(name) == expected[name], f"{shape.operation}: {name}"
            assert answer in {shape.answer or NoneType, Reply}, f"{shape.operation}: {answer}"
            assert set(hints) == set(shape.parameters), f"{shape.operation}: {set(hints)}"
            self._routes.append(
                Route(
                    **{each.name: getattr(shape, each.name) for each in fields(shape)},
                    handler=handler,
                    needs=(needs,) if isinstance(needs, Need) else needs,
                    needs_slot=needs_slot,
                    unused=unused,
                )
            )
            return handler

        return register
