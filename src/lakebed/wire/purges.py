"""Purges of objects, and data left by deleted repositories."""

# mypy: disable-error-code="empty-body"

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from lakebed.wire.base import Error, TaskInfo, Wire
from lakebed.wire.calls import Resource, call


class PurgeRequest(Wire):
    path: str = ""
    prefix: str = ""
    checksum: str = ""
    reason: str = ""
    confirm: bool = False


class PurgeTaskStatus(Wire):
    id: str
    completed: bool
    update_time: datetime
    progress: Annotated[
        dict[str, Any] | None,
        Meta(
            description="of a purge that goes on: its step, the report of the first pass, and when"
            " it searches again"
        ),
    ] = None
    result: dict[str, Any] | None = None
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
