"""Sources of an import: locations in the storage, and the keys that they become."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import quoted
from lakebed.block import Address, Namespace
from lakebed.engine.committed import Interval
from lakebed.engine.engine import Engine
from lakebed.formats.imported import paths_below
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import AddressClosed, AddressTaken, InvalidImport
from lakebed.lake.model import PATH_BYTES_MAX


@dataclass(frozen=True)
class ImportSource:
    """An object, or all objects of a namespace, with its destination."""

    place: Address | Namespace
    destination: bytes
    """Of an object, its key. Of a namespace, the prefix of its keys: empty, or ending in a
    slash."""
    include: tuple[str, ...] = ()
    """Patterns of the paths to import below a namespace; empty means all."""
    exclude: tuple[str, ...] = ()
    """Patterns of the paths to leave out; they take precedence."""

    def __post_init__(self) -> None:
        destination = self.destination
        if len(destination) > PATH_BYTES_MAX:
            raise InvalidImport(
                f"the destination {quoted(destination)} is longer than {PATH_BYTES_MAX} bytes"
            )
        if b"\x00" in destination:
            raise InvalidImport(f"the destination {quoted(destination)} contains a NUL character")
        if isinstance(self.place, Address) and (not destination or destination.endswith(b"/")):
            raise InvalidImport(
                f"the destination of object {self.place} is {quoted(destination)}: it must be an"
                " object path, not empty and without a trailing slash"
            )
        for pattern in (*self.include, *self.exclude):
            if isinstance(self.place, Address) or not pattern or pattern.startswith("/"):
                raise InvalidImport(
                    f"the pattern {pattern!r} cannot match an object at {self.place}: patterns"
                    " select paths below a prefix, and do not begin with a slash"
                )

    @classmethod
    def of_prefix(
        cls,
        place: Namespace,
        destination: bytes,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> "ImportSource":
        """Return a source of objects in a namespace; adds a missing slash to `destination`."""
        slash = b"" if not destination or destination.endswith(b"/") else b"/"
        return cls(place, destination + slash, tuple(include), tuple(exclude))

    @property
    def is_prefix(self) -> bool:
        return isinstance(self.place, Namespace)

    @property
    def interval(self) -> Interval:
        """The keys that the import replaces."""
        if isinstance(self.place, Address):
            return Interval.of_key(self.destination)
        return Interval.of_prefix(self.destination)

    @cached_property
    def _expressions(self) -> tuple[str, str]:
        """Expressions for the paths to include and to exclude; empty without patterns."""
        include, exclude = (
            "|".join(map(_expression, each)) for each in (self.include, self.exclude)
        )
        return include, exclude

    def selects(self, place: str) -> bool:
        """Return whether the patterns select an address below the namespace."""
        include, exclude = self._expressions
        path = place[len(str(self.place)) :]
        return bool(re.search(include, path)) and not (exclude and re.search(exclude, path))

    def selected(self, listed: pa.Table) -> pa.Table:
        """Return the rows of a listing that the patterns select."""
        include, exclude = self._expressions
        if include:
            paths = paths_below(str(self.place), listed)
            listed = listed.filter(pc.match_substring_regex(paths, include))
        if exclude:
            paths = paths_below(str(self.place), listed)
            listed = listed.filter(pc.invert(pc.match_substring_regex(paths, exclude)))
        return listed


_WILDCARDS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern.

    Without a slash, it matches names at any depth; with one at the end, all below a folder.
    """
    begin = "^" if "/" in pattern.removesuffix("/") else "(?:^|/)"
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern + "**" * pattern.endswith("/"))
    body = "".join(_WILDCARDS.get(piece) or re.escape(piece) for piece in pieces)
    return f"(?s:{begin}{body}$)"


def in_order(sources: Sequence[ImportSource]) -> list[ImportSource]:
    """Return sources in order of their destinations.

    Raises `InvalidImport` if two destinations overlap.
    """
    ordered = sorted(sources, key=lambda source: source.destination)
    # Prefix intervals nest, so overlapping intervals are neighbours in this order.
    for one, other in pairwise(ordered):
        if one.interval.overlaps(other.interval):
            raise InvalidImport(
                f"the destinations {quoted(one.destination)} (from {one.place}) and"
                f" {quoted(other.destination)} (from {other.place}) overlap: import them one"
                " after the other, or choose separate destinations"
            )
    return ordered


def source_messages(sources: Sequence[ImportSource]) -> list[pb.ImportSource]:
    """Convert sources for the record of an import."""
    return [
        pb.ImportSource(
            place=str(source.place),
            is_prefix=source.is_prefix,
            destination=source.destination,
            include=source.include,
            exclude=source.exclude,
        )
        for source in sources
    ]


def source_of(message: pb.ImportSource) -> ImportSource:
    """Convert a source from the record of an import."""
    place = (Namespace if message.is_prefix else Address).parse(message.place)
    return ImportSource(place, message.destination, tuple(message.include), tuple(message.exclude))


def check_places(engine: Engine, sources: Iterable[ImportSource]) -> None:
    """Reject sources that overlap the namespace of an existing or a deleted repository.

    Raises:
        AddressTaken: The source overlaps a repository: garbage collection may delete its objects,
            and the policies of that repository decide who can read them.
        AddressClosed: The source overlaps the data of a deleted repository.
    """
    repositories = engine.repositories
    for place in (source.place for source in sources):
        if isinstance(place, Address):
            owner, former_owner = repositories.owners_of(place)
        else:
            owner = repositories.overlapping_owner(place)
            former_owner = repositories.former_owner(place)
        if owner is not None:
            raise AddressTaken(place, owner)
        if former_owner is not None:
            raise AddressClosed(place, former_owner)
