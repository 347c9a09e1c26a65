"""Commits refused by hooks.

The record of a refused commit stays: hooks were told its id, and runs reference it. No branch leads
to the commit, and no ref may: `Refusals.check` runs before a ref is set to a commit given by its
id. (For a source that is a branch or a tag, no record is read.)

The check applies only after the refusal was recorded: a ref created at a commit while hooks run
survives a refusal.

A process that dies after a refusal, before recording it, leaves a commit like that of a dead
committer: on no branch, and not marked.
"""

import logging
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import CommitRefused, Refused
from lakebed.engine.keys import REFUSALS
from lakebed.engine.model import CommitID, Repository
from lakebed.engine.refs.resolve import may_name_commit
from lakebed.kv import Store
from lakebed.kv.records import Records

_LOGGER: Final = logging.getLogger(__name__)


class Refusals:
    """The refused commits of all repositories."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime

    def note(self, repository: Repository, commit_id: CommitID, refused: Refused) -> None:
        """Record that a hook refused a commit. Never raises: the caller has an error to raise."""
        try:
            message = pb.Refusal(by=refused.by, refused_us=now_us(self._runtime))
            self._records(repository).set(commit_id.encode(), message)
        except LakebedError as error:
            _LOGGER.warning("cannot record that commit %s was refused: %s", commit_id, error)

    def find(self, repository: Repository, ref: str, commit_id: CommitID) -> str | None:
        """Return the hook that refused the commit of a ref, or None."""
        if not may_name_commit(ref):
            return None
        record = self._records(repository).find(commit_id.encode())
        return None if record is None else record.message.by

    def check(self, repository: Repository, ref: str, commit_id: CommitID) -> None:
        """Raise `CommitRefused` if a hook refused the commit that a ref is to be created at."""
        by = self.find(repository, ref, commit_id)
        if by is not None:
            raise CommitRefused(commit_id, by)

    def _records(self, repository: Repository) -> Records[pb.Refusal]:
        return Records(self._store, REFUSALS, repository.partition)
