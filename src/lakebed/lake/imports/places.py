"""Permitted sources of imports: locations in this storage, outside of all repositories."""

from collections.abc import Iterable

from lakebed.block import Address
from lakebed.engine.engine import Engine
from lakebed.lake.errors import AddressClosed, AddressTaken
from lakebed.lake.imports.sources import ImportSource


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
            keeper, leaver = repositories.owners_of(place)
        else:
            keeper, leaver = repositories.overlapping_owner(place), repositories.former_owner(place)
        if keeper is not None:
            raise AddressTaken(place, keeper)
        if leaver is not None:
            raise AddressClosed(place, leaver)
