"""Sources of an import: locations in the storage, and the keys that they become."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakebed.base.errors import quoted
from lakebed.block import Address, Namespace
from lakebed.engine.committed import Interval
from lakebed.engine.engine import Engine
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import AddressClosed, AddressTaken, InvalidImport
from lakebed.lake.model import PATH_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ImportSource:
    """An object, or all objects of a namespace, with its destination."""

    place: Address | Namespace
    destination: bytes
    """Of an object, its key. Of a namespace, the prefix of its keys: empty, or ending in a
    slash."""

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

    @classmethod
    def of_prefix(cls, place: Namespace, destination: bytes) -> "ImportSource":
        """Return a source of all objects in a namespace; adds a missing slash to `destination`."""
        slash = b"" if not destination or destination.endswith(b"/") else b"/"
        return cls(place, destination + slash)

    @property
    def is_prefix(self) -> bool:
        return isinstance(self.place, Namespace)

    @property
    def interval(self) -> Interval:
        """The keys that the import replaces."""
        if isinstance(self.place, Address):
            return Interval.of_key(self.destination)
        return Interval.of_prefix(self.destination)


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
            place=str(source.place), is_prefix=source.is_prefix, destination=source.destination
        )
        for source in sources
    ]


def source_of(message: pb.ImportSource) -> ImportSource:
    """Convert a source from the record of an import."""
    place = (Namespace if message.is_prefix else Address).parse(message.place)
    return ImportSource(place, message.destination)


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
