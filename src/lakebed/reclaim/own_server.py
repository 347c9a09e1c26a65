"""The server's part of a run, in a process that has the record store: no HTTP is needed."""

from dataclasses import asdict
from typing import Any

from lakebed.engine.model import Repository
from lakebed.formats.gc_files import GCFile, GCRunID
from lakebed.ids import UniqueID
from lakebed.leases import LeaseState
from lakebed.reclaim.service import Reclaim


class OwnServer:
    """The server's part of runs of one repository, without HTTP: see `ServerSide`."""

    def __init__(self, reclaim: Reclaim, repository: Repository) -> None:
        self._reclaim = reclaim
        self._id = repository.id

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, Any]:
        done = self._reclaim.retention.expire(
            self._id, unique_id=UniqueID(unique_id), max_share=max_share, dry_run=dry_run
        )
        return asdict(done)

    def prepare(self, unique_id: str) -> GCRunID:
        gc, meant = self._reclaim.preparation, UniqueID(unique_id)
        page = gc.prepare_uncommitted(self._id, unique_id=meant)
        while page.continuation_token is not None:
            page = gc.prepare_uncommitted(self._id, unique_id=meant, token=page.continuation_token)
        gc.prepare_commits(self._id, unique_id=meant, run_id=page.run_id)
        # If the repository is there now, it was there while its commits were read.
        self.check_still_there(unique_id, page.run_id)
        return page.run_id

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        self._reclaim.preparation.prepare_commits(
            self._id, unique_id=UniqueID(unique_id), run_id=run_id
        )

    def write_old_commits(
        self, unique_id: str, run_id: GCRunID, *, since_us: int, dry_run: bool
    ) -> tuple[GCFile, ...]:
        return self._reclaim.preparation.write_old_commits(
            self._id,
            unique_id=UniqueID(unique_id),
            run_id=run_id,
            since_us=since_us,
            dry_run=dry_run,
        )

    def take_lease(self, holder: str, over: str) -> LeaseState:
        return self._reclaim.leases.take(self._id, holder, over=over)

    def renew_lease(self, holder: str) -> LeaseState:
        return self._reclaim.leases.renew(self._id, holder)

    def give_lease_back(self, holder: str, *, is_good: bool, next_us: int) -> None:
        self._reclaim.leases.give_back(self._id, holder, is_good=is_good, next_us=next_us)
