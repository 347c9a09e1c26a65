"""Garbage collection: preparing runs, their lease, rules of retention, unfinished uploads."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from lakebed.wire.base import Error, Page, PageQuery, TaskInfo, Wire
from lakebed.wire.calls import Resource, call


class UniqueQuery(Wire):
    unique_id: str = ""


class CommitsQuery(UniqueQuery):
    run_id: str = ""


class PrepareQuery(Wire):
    id: str


class GarbageCollectionMark(Wire):
    storage_namespace: str
    unique_id: str
    nonce: str
    local_root: str | None = None
    versions: Annotated[str, Meta(description="the setting `gc.versions`: keep or delete")] = "keep"


Holder = Annotated[str, Meta(pattern="^[0-9a-f]{1,64}$", description="random id of the run")]


class GarbageCollectionLeaseRequest(Wire):
    holder: Holder
    over: Annotated[str, Meta(description="token of a lease whose holder has died")] = ""
    renew: Annotated[bool, Meta(description="only if this is the holder")] = False


class GarbageCollectionLease(Wire):
    holder: str
    mark: str
    seconds: float


class LeaseQuery(Wire):
    holder: Holder
    good: Annotated[bool, Meta(description="whether the run completed")] = False
    next_us: Annotated[
        int,
        Meta(ge=0, le=(1 << 62), description="no run before this time would delete anything"),
    ] = 0


class PrepareGCUncommittedRequest(Wire):
    continuation_token: str = ""


class PrepareGCUncommittedResponse(Wire):
    run_id: str
    gc_uncommitted_location: str
    continuation_token: str | None = None


class GarbageCollectionPrepareResponse(Wire):
    run_id: str
    gc_commits_location: str
    gc_addresses_location: str


class PrepareGarbageCollectionCommitsStatus(Wire):
    task_id: str
    completed: bool
    update_time: datetime
    result: GarbageCollectionPrepareResponse | None = None
    error: Error | None = None


class UnfinishedUpload(Wire):
    id: str
    kind: str
    branch: str
    path: str
    physical_address: str
    begun: datetime


class GarbageCollectionRun(Wire):
    run_id: str
    began: datetime
    state: str
    message: str = ""
    summary: dict[str, Any] | None = None


class ExplainQuery(Wire):
    ref: Annotated[str, Meta(description="a branch, a tag or a commit")] = ""
    path: Annotated[str, Meta(description="of an object at the ref; omit for the commit")] = ""
    address: Annotated[
        str, Meta(description="of an object in the storage, instead of ref and path")
    ] = ""


class GarbageCollectionExplanation(Wire, omit_defaults=False):
    subject: str
    verdict: str
    reasons: list[str]


class GarbageCollectionRule(Wire, forbid_unknown_fields=True):
    branch_id: Annotated[str, Meta(description="a name, or a pattern with * ? [a-z] [!a-z]")]
    retention_days: int


class GarbageCollectionRules(Wire, forbid_unknown_fields=True):
    default_retention_days: int
    branches: list[GarbageCollectionRule] | None = None


class ExpireQuery(UniqueQuery):
    max_share: Annotated[
        float, Meta(ge=0, le=1, description="maximum share of commits to expire at once")
    ] = 0.5
    dry_run: bool = False


class OldCommitsQuery(UniqueQuery, kw_only=True):
    run_id: str
    since_us: Annotated[int, Meta(ge=0, description="commits expired since this time")] = 0
    dry_run: Annotated[bool, Meta(description="commits that would expire instead")] = False


class OldCommitsFile(Wire):
    name: str
    rows: int
    content_id: str


class OldCommits(Wire, omit_defaults=False):
    files: list[OldCommitsFile]


class ExpiredCommits(Wire, omit_defaults=False):
    ran: bool
    commits: int
    marked: int
    rescued: int
    waiting: int
    expired: int
    by_branch: dict[str, int]
    next_by_branch: dict[str, int]
    next_us: int


class GarbageAPI(Resource, tag="gc", path="/repositories/{repository}"):
    """Garbage collection."""

    @call("markStorageForGarbageCollection", "POST", "/gc/mark", status=201)
    def write_marker(self, repository: str) -> GarbageCollectionMark: ...

    @call("takeGarbageCollectionLease", "POST", "/gc/lease")
    def take_lease(
        self, repository: str, body: GarbageCollectionLeaseRequest
    ) -> GarbageCollectionLease: ...

    @call("giveBackGarbageCollectionLease", "DELETE", "/gc/lease", status=204)
    def give_lease_back(self, repository: str, query: LeaseQuery) -> None: ...

    @call("prepareGarbageCollectionUncommitted", "POST", "/gc/prepare_uncommited", status=201)
    def prepare_uncommitted(
        self,
        repository: str,
        query: UniqueQuery | None = None,
        body: PrepareGCUncommittedRequest | None = None,
    ) -> PrepareGCUncommittedResponse: ...

    @call("prepareGarbageCollectionCommits", "POST", "/gc/prepare_commits", status=201)
    def prepare_commits(
        self, repository: str, query: CommitsQuery | None = None
    ) -> GarbageCollectionPrepareResponse: ...

    @call("prepareGarbageCollectionCommitsAsync", "POST", "/gc/prepare_commits/async", status=202)
    def start_preparing_commits(
        self, repository: str, query: CommitsQuery | None = None
    ) -> TaskInfo: ...

    @call("prepareGarbageCollectionCommitsStatus", "GET", "/gc/prepare_commits/status")
    def prepare_commits_status(
        self, repository: str, query: PrepareQuery
    ) -> PrepareGarbageCollectionCommitsStatus: ...

    @call("listGarbageCollectionRuns", "GET", "/gc/runs")
    def runs(
        self, repository: str, query: PageQuery | None = None
    ) -> Page[GarbageCollectionRun]: ...

    @call("explainGarbageCollection", "GET", "/gc/explain")
    def explain(
        self, repository: str, query: ExplainQuery | None = None
    ) -> GarbageCollectionExplanation: ...

    @call("listUnfinishedUploads", "GET", "/gc/uploads")
    def unfinished(
        self, repository: str, query: PageQuery | None = None
    ) -> Page[UnfinishedUpload]: ...

    @call("endUnfinishedUpload", "DELETE", "/gc/uploads/{upload}", status=204)
    def end_unfinished(self, repository: str, upload: str) -> None: ...

    @call("getGCRules", "GET", "/settings/gc_rules")
    def rules(self, repository: str) -> GarbageCollectionRules: ...

    @call("setGCRules", "PUT", "/settings/gc_rules", status=204)
    def set_rules(self, repository: str, body: GarbageCollectionRules) -> None: ...

    @call("deleteGCRules", "DELETE", "/settings/gc_rules", status=204)
    def delete_rules(self, repository: str) -> None: ...

    @call("internalGetGarbageCollectionRules", "GET", "/gc/rules")
    def old_rules(self, repository: str) -> GarbageCollectionRules: ...

    @call("internalSetGarbageCollectionRules", "POST", "/gc/rules", status=204)
    def old_set_rules(self, repository: str, body: GarbageCollectionRules) -> None: ...

    @call("internalDeleteGarbageCollectionRules", "DELETE", "/gc/rules", status=204)
    def old_delete_rules(self, repository: str) -> None: ...

    @call("setGarbageCollectionRulesPreflight", "GET", "/gc/rules/set_allowed", status=204)
    def may_set_rules(self, repository: str) -> None: ...

    @call("expireCommits", "POST", "/gc/expire")
    def expire(self, repository: str, query: ExpireQuery | None = None) -> ExpiredCommits: ...

    @call("writeOldCommits", "POST", "/gc/old_commits", status=201)
    def write_old_commits(self, repository: str, query: OldCommitsQuery) -> OldCommits: ...
