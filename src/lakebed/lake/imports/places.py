"""Where an import may take objects from: places outside of all repositories, of this storage."""

from collections.abc import Iterable

from lakebed.block import Address
from lakebed.engine.engine import Engine
from lakebed.lake.errors import AddressClosed, AddressTaken
from lakebed.lake.imports.sources import ImportSource


def check_places(engine: Engine, sources: Iterable[ImportSource]) -> None:
    """Refuse sources in the namespace of a repository, or around one, or where one was deleted.

    Raises:
        AddressTaken: A repository keeps its own data there: garbage collection may delete them, and
            who may read them is said by the policies about that repository.
        AddressClosed: A deleted repository left its data there.
    """
    repositories = engine.repositories
    for place in (source.place for source in sources):
        if isinstance(place, Address):
            keeper, leaver = repositories.around(place)
        else:
            keeper, leaver = repositories.keeper_near(place), repositories.left_near(place)
        if keeper is not None:
            raise AddressTaken(place, keeper)
        if leaver is not None:
            raise AddressClosed(place, leaver)
