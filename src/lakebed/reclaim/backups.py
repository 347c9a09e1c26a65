"""Detection of a database that was restored from a backup and is older than its storage.

Each garbage collection run and each purge has a folder in the repository's namespace, whose name
begins with the time. The name is written to the database before the folder is created. So a folder
that sorts after the recorded name is newer than the backup: data that the database references may
be deleted, and the marks of expired commits and purged objects are missing.

The storage has both: the commits that had expired when a run began
(`lakebed.engine.expiry_marks`), and the purged objects (`lakebed.lake.purge_marks`). `catch_up`
reads them into the database before the next run or purge begins, and once when the background
process of a server starts.

**Heads of branches and tags** get no expiry mark. Their data may be deleted too, but with a mark
garbage collection would delete the rest of it. They are logged; `lakebed fsck` lists the refs with
missing objects.

**Crashes.** The name is recorded after the marks, so a process that dies in between leaves the work
to the next process; every step is idempotent. A database of a version without such records counts
as older once, when all marks are present anyway. Names use the servers' clocks: a run within
`skew_seconds` of the last one may go unnoticed until the next.
"""

import logging
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.expiry_marks import read_all_expired
from lakebed.engine.model import CommitID, Repository
from lakebed.engine.refs.dump import active_record
from lakebed.formats.layout import gc_runs_folder, purges_folder
from lakebed.kv import Store
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.keys import SEEN, SEEN_NAME
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.reclaim.expirer import Expirer

_AT_ONCE: Final = 8

_LOGGER: Final = logging.getLogger(__name__)


class Backups:
    """Restored-database detection for all repositories."""

    def __init__(
        self,
        engine: Engine,
        expirer: Expirer,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        purge_marks: PurgeMarks,
    ) -> None:
        self._engine = engine
        self._expirer = expirer
        self._store = store
        self._block = block
        self._runtime = runtime
        self._purge_marks = purge_marks

    def catch_up_all(self) -> int:
        """Catch up with the storage in all repositories; return how many were behind.

        A failure in a repository is logged; its next run or purge catches up, or fails.
        """

        def catch_up(repository: Repository) -> bool:
            try:
                return self.catch_up(repository)
            except LakebedError as error:
                _LOGGER.warning(
                    "cannot compare the database of repository %s with its storage: %s",
                    repository.id, error,
                )  # fmt: skip
                return False

        repositories = list(self._engine.repositories.list_readable())
        return sum(self._runtime.map_parallel(catch_up, repositories, limit=_AT_ONCE))

    def begin(self, repository: Repository, *, run_id: str = "", purge_id: str = "") -> None:
        """Catch up with the storage, then record a run or a purge that is about to begin.

        Raises:
            BlockError: The storage refused or failed: the run must not begin.
            OutcomeUnknown: The record may not have been written: likewise.
        """
        self.catch_up(repository)
        self._note(repository, pb.Seen(run_id=run_id, purge_id=purge_id))

    def catch_up(self, repository: Repository) -> bool:
        """Restore marks from a newer storage into the database; return whether it was behind.

        Raises:
            DamagedFile, ForeignFile: A file of expired commits or purged objects is unreadable.
            BlockError: The storage refused or failed.
        """
        record = self._records(repository).find(SEEN_NAME)
        known = pb.Seen() if record is None else record.message
        stored = pb.Seen(
            run_id=self._last(repository, gc_runs_folder(repository.unique_id)),
            purge_id=self._last(repository, purges_folder()),
        )
        if stored.run_id <= known.run_id and stored.purge_id <= known.purge_id:
            return False
        purged = self._purge_marks.restore(repository, self._block)
        expired = self._expire(repository)
        self._note(repository, stored)
        if purged or expired:
            _LOGGER.warning(
                "the database of repository %s is older than its storage (restored from a backup?):"
                " recovered marks of %d expired commits and %d purged objects; run"
                " `lakebed fsck lakefs://%s` to find branches with missing objects",
                repository.id, expired, purged, repository.id,
            )  # fmt: skip
        return True

    def _last(self, repository: Repository, folder: str) -> str:
        """Return the last folder name in a folder of the namespace, or an empty string."""
        return max(self._block.list_folders(repository.namespace.folder(folder)), default="")

    def _expire(self, repository: Repository) -> int:
        """Expire the commits that had expired by any run; return how many had no mark."""
        adopted = active_record(self._store, repository).message.adopted_unique_ids
        stored: set[str] = set()
        for unique_id in (repository.unique_id, *adopted):
            stored |= read_all_expired(self._block, repository.namespace, unique_id)
        missing = {CommitID(each) for each in stored} - set(self._engine.marks.expired(repository))
        if not missing:
            return 0
        named = self._expirer.expire_again(repository, missing)
        for noun, refs in (
            ("branch", self._engine.branches.list(repository)),
            ("tag", self._engine.tags.list(repository)),
        ):
            for ref in refs:
                if ref.commit_id in named:
                    _LOGGER.warning(
                        "%s %s of repository %s is at commit %s, which had expired before the"
                        " database was restored: objects may be missing",
                        noun, ref.id, repository.id, ref.commit_id,
                    )  # fmt: skip
        return len(missing)

    def _note(self, repository: Repository, seen: pb.Seen) -> None:
        def note(message: pb.Seen) -> None:
            message.run_id = max(message.run_id, seen.run_id)
            message.purge_id = max(message.purge_id, seen.purge_id)

        self._records(repository).change(SEEN_NAME, note)

    def _records(self, repository: Repository) -> Records[pb.Seen]:
        return Records(self._store, SEEN, repository.partition)
