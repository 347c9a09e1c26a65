"""Purges of objects, and data left by deleted repositories."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field

from lakebed.wire.base import Error, TaskInfo, Wire
from lakebed.wire.calls import Resource, call


class PurgeRequest(Wire):
    path: str = ""
    prefix: str = ""
    checksum: str = ""
    reason: str = ""
    confirm: bool = False


class PurgedList(Struct, kw_only=True):
    """A number of paths or addresses, and the first few."""

    count: int = 0
    first: list[str] = field(default_factory=list)


class PurgeOutcome(Struct, kw_only=True):
    """Result of a purge; of a dry run, what it would do."""

    purge_id: str
    dry_run: bool
    objects: int
    bytes: int
    paths: PurgedList
    also_at: PurgedList
    same_content: PurgedList
    elsewhere: PurgedList
    deleted: int = 0
    versions: int = 0
    failed: PurgedList = field(default_factory=PurgedList)
    adoptable: str = ""
    not_reached: list[str] = field(default_factory=list)


class PurgeStep(Struct, kw_only=True):
    step: str
    report: PurgeOutcome | None = None
    searches_again: str = ""


class PurgeTaskStatus(Wire):
    id: str
    completed: bool
    update_time: datetime
    progress: Annotated[
        PurgeStep | None,
        Meta(
            description="for a running purge: its step, the report of the first pass, and the time"
            " of the second search"
        ),
    ] = None
    result: PurgeOutcome | None = None
    error: Error | None = None


class LeftByRepository(Wire):
    repository: str
    unique_id: str
    storage_namespace: str
    due: datetime
    requested: datetime | None = None


class LeftByRepositories(Wire):
    results: list[LeftByRepository]


class PurgesAPI(Resource, tag="purges"):
    """Purges."""

    @call("purgeObjects", "POST", "/repositories/{repository}/purges", status=202)
    def start(self, repository: str, body: PurgeRequest) -> TaskInfo: ...

    @call("getPurgeStatus", "GET", "/repositories/{repository}/purges/{purge}")
    def status(self, repository: str, purge: str) -> PurgeTaskStatus: ...

    @call("getDeletedRepository", "GET", "/deleted-repositories/{repository}")
    def left_by_repository(self, repository: str) -> LeftByRepositories: ...

    @call("purgeDeletedRepository", "DELETE", "/deleted-repositories/{repository}", status=202)
    def purge_repository(self, repository: str) -> LeftByRepositories: ...
