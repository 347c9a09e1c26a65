"""Server side of garbage collection runs.

All requests are idempotent, so a run waits for a restarting server.
"""

from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import msgspec

from lakebed.base.leases import LeaseState
from lakebed.clients.http.http import Client
from lakebed.clients.http.retry import OUTLAST_RESTARTS
from lakebed.clients.http.settings import ClientSettings
from lakebed.formats.gc_files import GCFile, GCFileKind, GCMarker, GCRunID
from lakebed.wire.config import ConfigAPI
from lakebed.wire.garbage import (
    CommitsQuery,
    ExpireQuery,
    GarbageCollectionLeaseRequest,
    LeaseQuery,
    OldCommitsQuery,
    PrepareGCUncommittedRequest,
    UniqueQuery,
)
from lakebed.wire.refs import LogCommitsQuery


class GarbageServer:
    """Client of the garbage collection of one repository.

    All methods raise `lakebed.clients.http.errors.ClientError`.
    """

    def __init__(self, settings: ClientSettings, repository: str) -> None:
        self._repository = repository
        self._client = Client(settings, retry_policy=OUTLAST_RESTARTS)
        self._garbage = self._client.garbage

    def close(self) -> None:
        self._client.close()

    def storage_namespace(self) -> str:
        return self._client.repositories.get(self._repository).storage_namespace

    def write_marker(self) -> tuple[GCMarker, Path | None]:
        """Start a run: return its marker, and the directory of a storage local to the server."""
        made = self._garbage.write_marker(self._repository)
        marker = GCMarker(made.storage_namespace, made.unique_id, made.nonce, made.versions)
        return marker, None if made.local_root is None else Path(made.local_root)

    def metarange(self, ref: str) -> str:
        """Return the metarange id of the commit at a ref."""
        found = self._client.refs.log(self._repository, ref, LogCommitsQuery(amount=1))
        return found.results[0].meta_range_id

    def min_age_seconds(self) -> int:
        return self._client.config.garbage_collection().grace_period

    def now(self) -> float:
        """Return the time of the server's clock, in whole seconds."""
        answer = self._client.ask(ConfigAPI.health.request())
        return parsedate_to_datetime(answer.headers["Date"]).timestamp()

    def expire(self, unique_id: str, *, max_share: float, dry_run: bool) -> dict[str, Any]:
        """Expire commits by the rules of the repository; return the counts."""
        query = ExpireQuery(unique_id=unique_id, max_share=max_share, dry_run=dry_run)
        counts: dict[str, Any] = msgspec.to_builtins(self._garbage.expire(self._repository, query))
        return counts

    def prepare(self, unique_id: str) -> GCRunID:
        """Snapshot all referenced objects; return the id of the run.

        Each page is requested with the token of the previous page; repeating a page is harmless.
        """
        query, body = UniqueQuery(unique_id=unique_id), PrepareGCUncommittedRequest()
        page = self._garbage.prepare_uncommitted(self._repository, query, body)
        while page.continuation_token:
            body = PrepareGCUncommittedRequest(continuation_token=page.continuation_token)
            page = self._garbage.prepare_uncommitted(self._repository, query, body)
        run_id = GCRunID(page.run_id)
        self.write_commits(unique_id, run_id)
        # Read after the commits: the repository existed while they were read.
        self.check_still_there(unique_id, run_id)
        return run_id

    def write_commits(self, unique_id: str, run_id: GCRunID) -> None:
        """Write the commits of a run to the storage, unless already written."""
        query = CommitsQuery(unique_id=unique_id, run_id=run_id)
        self._garbage.prepare_commits(self._repository, query)

    def check_still_there(self, unique_id: str, run_id: GCRunID) -> None:
        """Check that the repository was not deleted or recreated, and the permission to collect."""
        # The server checks both before it skips commits that are already written.
        self.write_commits(unique_id, run_id)

    def write_old_commits(
        self, unique_id: str, run_id: GCRunID, *, since_us: int, dry_run: bool
    ) -> tuple[GCFile, ...]:
        """Write the commits whose expiry frees objects."""
        query = OldCommitsQuery(
            unique_id=unique_id, run_id=run_id, since_us=since_us, dry_run=dry_run
        )
        found = self._garbage.write_old_commits(self._repository, query).files
        return tuple(
            GCFile(each.name, GCFileKind.OLD, each.rows, each.content_id) for each in found
        )

    def take_lease(self, holder: str, over: str) -> LeaseState:
        """Acquire the lease of the repository, if it is free or has the version `over`."""
        return self._lease(GarbageCollectionLeaseRequest(holder=holder, over=over))

    def renew_lease(self, holder: str) -> LeaseState:
        """Renew the lease of the repository, if `holder` owns it."""
        return self._lease(GarbageCollectionLeaseRequest(holder=holder, renew=True))

    def end_run(self, holder: str, *, is_good: bool, next_us: int) -> None:
        """Release the lease; report whether the run succeeded and when to run next."""
        query = LeaseQuery(holder=holder, good=is_good, next_us=next_us)
        self._garbage.give_lease_back(self._repository, query)

    def _lease(self, body: GarbageCollectionLeaseRequest) -> LeaseState:
        found = self._garbage.take_lease(self._repository, body)
        return LeaseState(found.holder, found.mark, found.seconds)
