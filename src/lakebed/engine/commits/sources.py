"""Whether the commits that a new commit took its content from may still be taken from."""

from lakebed.engine.model import Commit, Repository


def check_sources(repository: Repository, commit: Commit) -> None:
    """Refuse a commit whose head or sources have expired meanwhile.

    Called when its record is stored, and before anybody is told its id: whoever expires commits
    marks them first and then looks for records that took from them, so one of the two sees the
    other. No commit expires yet, so there are no marks to read.
    """
    del repository, commit
