"""Why the bytes of an object are not there: looked up only when the storage says so."""

from lakebed.base.errors import LakebedError
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitExpired
from lakebed.lake.errors import Purged
from lakebed.lake.model import ObjectStats
from lakebed.lake.purge_marks import PurgeMarks


def missing(engine: Engine, purge_marks: PurgeMarks, stats: ObjectStats) -> LakebedError:
    """Return the error for an object that the storage does not have.

    It is `Purged` if it was purged, `CommitExpired` if the commit that shows it has expired, or
    else `MissingBytes`.
    """
    why = purge_marks.why_missing(stats.path, stats.address)
    if stats.seen_at is not None and not isinstance(why, Purged):
        repository, ref = stats.seen_at.repository, stats.seen_at.ref
        try:
            commit = engine.resolver.commit(repository, ref)
            engine.marks.check_sources(repository, [commit.id])
        except CommitExpired as expired:
            return expired
        except LakebedError:
            pass  # the ref is gone by now: then nobody can say more
    return why
