"""Structs shared by all operations: errors, pages, flags. Times are seconds since 1970."""

from typing import Annotated, Final, Generic, TypeVar

from msgspec import Meta, Struct, field

WireT = TypeVar("WireT")

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000

Seconds = Annotated[int, Meta(ge=-62_135_596_800, le=253_402_300_799)]
"""Since 1970, within the years 1 to 9999, the range of Python's `datetime`."""


Size = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""In bytes."""


class Wire(Struct, kw_only=True, omit_defaults=True):
    """A JSON object."""


class Error(Wire):
    """Error response."""

    message: str
    """lakeFS-compatible text."""
    kind: str = "error"
    """Stable identifier."""
    detail: str = ""
    """Cause with the value, and remedy."""


class ErrorBody(Wire):
    """Error response of any server; all fields are optional."""

    message: str = ""
    kind: str = ""
    detail: str = ""
    conflicts: list[str] = field(default_factory=list)
    """For a merge: some of the conflicting paths."""
    conflicts_total: int = 0


Force = Annotated[bool, Meta(description="write even to a read-only repository")]


class ForceQuery(Wire):
    force: Force = False


class SkipQuery(Wire):
    skip_hooks: Annotated[
        bool,
        Meta(description="skip hooks before the operation; recorded (for administrators)"),
    ] = False


class ForceSkipQuery(SkipQuery):
    force: Force = False


class PageQuery(Wire):
    """Selection of a page."""

    prefix: str = ""
    after: str = ""
    amount: Annotated[int, Meta(ge=-1, le=PAGE_MAX, description="below 1: 100")] = PAGE_DEFAULT

    @property
    def limit(self) -> int:
        """Maximum number of items on a page."""
        return PAGE_DEFAULT if self.amount <= 0 else self.amount


class KeysQuery(PageQuery):
    """Selection of a page of keys."""

    delimiter: Annotated[
        str, Meta(description="group keys with the delimiter after the prefix")
    ] = ""


class Pagination(Struct, kw_only=True):
    """Position of the next page."""

    has_more: bool
    next_offset: str
    results: int = 0
    max_per_page: int = PAGE_MAX


class Page(Struct, Generic[WireT], kw_only=True):
    """A page of a list."""

    pagination: Pagination
    results: list[WireT]


class TaskInfo(Wire):
    id: str
