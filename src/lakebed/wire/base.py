"""Structs that all operations share: errors, pages, flags. Times are seconds since 1970."""

from typing import Annotated, Final, Generic, TypeVar

from msgspec import Meta, Struct, field

WireT = TypeVar("WireT")

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000

Seconds = Annotated[int, Meta(ge=-62_135_596_800, le=253_402_300_799)]
"""Since 1970, within the years 1 to 9999, which Python can show."""


Size = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""In bytes."""


class Wire(Struct, kw_only=True, omit_defaults=True):
    """A JSON object."""


class Error(Wire):
    """What went wrong."""

    message: str
    """In the words that clients know."""
    kind: str = "error"
    """Stable."""
    detail: str = ""
    """What was wrong, with which value, and what to do; for people."""


class ErrorBody(Wire):
    """What a server says that refuses a request, as far as it says it."""

    message: str = ""
    kind: str = ""
    detail: str = ""
    conflicts: list[str] = field(default_factory=list)
    """Of a merge: some of the paths that both sides changed."""
    conflicts_total: int = 0


Force = Annotated[bool, Meta(description="write even to a read-only repository")]


class ForceQuery(Wire):
    force: Force = False


class SkipQuery(Wire):
    skip_hooks: Annotated[
        bool,
        Meta(description="run no hooks before the operation; this is noted (for administrators)"),
    ] = False


class ForceSkipQuery(SkipQuery):
    force: Force = False


class PageQuery(Wire):
    """Which part of a list."""

    prefix: str = ""
    after: str = ""
    amount: Annotated[int, Meta(ge=-1, le=PAGE_MAX, description="less than 1 means 100")] = (
        PAGE_DEFAULT
    )

    @property
    def limit(self) -> int:
        """How many items a page holds at most."""
        return PAGE_DEFAULT if self.amount <= 0 else self.amount


class KeysQuery(PageQuery):
    """Which part of a list of keys."""

    delimiter: Annotated[str, Meta(description="fold the keys that have it behind the prefix")] = ""


class Pagination(Struct, kw_only=True):
    """Where a page ends."""

    has_more: bool
    next_offset: str
    results: int = 0
    max_per_page: int = PAGE_MAX


class Page(Struct, Generic[WireT], kw_only=True):
    """Some items of a list."""

    pagination: Pagination
    results: list[WireT]


class TaskInfo(Wire):
    id: str
