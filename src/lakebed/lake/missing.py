"""Explanation of missing objects, computed only after the storage reported one missing."""

from lakebed.base.errors import LakebedError
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitExpired
from lakebed.lake.errors import Purged
from lakebed.lake.model import ObjectStats
from lakebed.lake.purge_marks import PurgeMarks


def missing_error(engine: Engine, purge_marks: PurgeMarks, stats: ObjectStats) -> LakebedError:
    """Return the error for an object missing from the storage.

    `Purged` if the object was purged, `CommitExpired` if its commit has expired, otherwise
    `MissingBytes`.
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
            pass  # the ref has been deleted: the cause is unknown
    return why
