"""Whether the commits that a new commit took its content from may still be taken from."""

from lakebed.engine.errors import CommitExpired
from lakebed.engine.model import Commit, Repository
from lakebed.engine.retention.marks import EXPIRED, Marks


def check_sources(marks: Marks, repository: Repository, commit: Commit) -> bool:
    """Refuse a commit whose sources have expired meanwhile.

    Called when its record is stored, and before anybody is told its id: whoever expires commits
    marks them first and then looks for records that took from them, so one of the two sees the
    other. It takes one call to the store.

    Returns:
        False if its head has expired: then it is the head of that branch no more.

    Raises:
        CommitExpired: A source has.
    """
    head, *merged = commit.parents
    sources = dict.fromkeys((*merged, *commit.sources))
    found = marks.find_all(repository, [head, *sources])
    for source in sources:
        if source in found and found[source].message.state == EXPIRED:
            raise CommitExpired(source, found[source].message.expired_us)
    return head not in found or found[head].message.state != EXPIRED
