"""Why the bytes of an object are not there: looked up only when the storage says so."""

from lakebed.catalog.errors import MissingBytes
from lakebed.catalog.model import ObjectStats
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitExpired
from lakebed.errors import LakebedError


def missing(engine: Engine, stats: ObjectStats) -> LakebedError:
    """Return the error for an object that the storage does not have.

    It is `CommitExpired` if the commit that shows the object has expired, else `MissingBytes`.
    """
    if stats.seen_at is not None:
        repository, ref = stats.seen_at.repository, stats.seen_at.ref
        try:
            commit = engine.resolver.commit(repository, ref)
            engine.marks.check_sources(repository, [commit.id])
        except CommitExpired as expired:
            return expired
        except LakebedError:
            pass  # the ref is gone by now: then nobody can say more
    return MissingBytes(stats.path, stats.address)
