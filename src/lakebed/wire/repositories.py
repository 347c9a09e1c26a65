"""Repositories, their settings, and dumps of their refs."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from lakebed.wire.base import ForceQuery, Page, PageQuery, TaskInfo, Wire
from lakebed.wire.calls import Resource, call


class RepositoriesQuery(PageQuery):
    search: str = ""


class CreationQuery(Wire):
    bare: bool = False


class RepositoryCreation(Wire):
    name: str
    storage_namespace: str
    storage_id: str = ""
    default_branch: str = "main"
    sample_data: bool = False
    read_only: bool = False


class Repository(Struct, kw_only=True):
    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    read_only: bool = False
    storage_id: str = ""


class RepositoryMetadataSet(Wire):
    metadata: dict[str, str]


class RepositoryMetadataKeys(Wire):
    keys: list[str]


class BranchProtectionRule(Wire):
    pattern: str
    strict: bool | None = None
    """Whether only merges may change the branch; None keeps the setting."""


ProtectionRules = list[BranchProtectionRule]


class HooksSettings(Struct, kw_only=True):
    strict: Annotated[
        bool,
        Meta(description="hooks at a branch's head also check its replacement"),
    ]


class TaskQuery(Wire):
    task_id: str


class RefsDump(Wire):
    """Reference to a dump: all three fields contain its id, since clients return all of them."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class RepositoryDumpStatus(Wire):
    id: str
    done: bool
    update_time: datetime
    error: str | None = None
    refs: RefsDump | None = None


class RepositoryRestoreStatus(Wire):
    id: str
    done: bool
    update_time: datetime
    error: str | None = None


class RepositoriesAPI(Resource, tag="repositories", path="/repositories"):
    """Repositories."""

    @call("listRepositories", "GET", "")
    def list(self, query: RepositoriesQuery | None = None) -> Page[Repository]: ...

    @call("createRepository", "POST", "", status=201, statuses=(409,))
    def create(
        self, body: RepositoryCreation, query: CreationQuery | None = None
    ) -> Repository: ...

    @call("getRepository", "GET", "/{repository}")
    def get(self, repository: str) -> Repository: ...

    @call("deleteRepository", "DELETE", "/{repository}", status=204, statuses=(403,))
    def delete(self, repository: str, query: ForceQuery | None = None) -> None: ...

    @call("getRepositoryMetadata", "GET", "/{repository}/metadata")
    def metadata(self, repository: str) -> dict[str, str]: ...

    @call("setRepositoryMetadata", "POST", "/{repository}/metadata", status=204)
    def set_metadata(self, repository: str, body: RepositoryMetadataSet) -> None: ...

    @call("deleteRepositoryMetadata", "DELETE", "/{repository}/metadata", status=204)
    def delete_metadata(self, repository: str, body: RepositoryMetadataKeys) -> None: ...

    @call("getBranchProtectionRules", "GET", "/{repository}/settings/branch_protection")
    def protection(self, repository: str) -> ProtectionRules: ...

    @call(
        "setBranchProtectionRules",
        "PUT",
        "/{repository}/settings/branch_protection",
        status=204,
        statuses=(412,),
        headers=("If-Match",),
    )
    def set_protection(self, repository: str, body: ProtectionRules) -> None: ...

    @call("getHooksSettings", "GET", "/{repository}/settings/hooks")
    def hooks_settings(self, repository: str) -> HooksSettings: ...

    @call("setHooksSettings", "PUT", "/{repository}/settings/hooks", status=204)
    def set_hooks_settings(self, repository: str, body: HooksSettings) -> None: ...

    @call("internalGetBranchProtectionRules", "GET", "/{repository}/branch_protection")
    def old_protection(self, repository: str) -> ProtectionRules: ...

    @call(
        "createBranchProtectionRulePreflight",
        "GET",
        "/{repository}/branch_protection/set_allowed",
        status=204,
    )
    def may_protect(self, repository: str) -> None: ...

    @call(
        "internalCreateBranchProtectionRule",
        "POST",
        "/{repository}/branch_protection",
        status=204,
        statuses=(409,),
    )
    def add_protection(self, repository: str, body: BranchProtectionRule) -> None: ...

    @call(
        "internalDeleteBranchProtectionRule",
        "DELETE",
        "/{repository}/branch_protection",
        status=204,
        statuses=(409,),
    )
    def remove_protection(self, repository: str, body: BranchProtectionRule) -> None: ...

    @call("dumpRefs", "PUT", "/{repository}/refs/dump", status=201)
    def dump(self, repository: str) -> RefsDump: ...

    @call("restoreRefs", "PUT", "/{repository}/refs/restore", statuses=(403,))
    def restore(self, repository: str, body: RefsDump) -> None: ...

    @call("dumpSubmit", "POST", "/{repository}/dump", status=202)
    def start_dump(self, repository: str) -> TaskInfo: ...

    @call("dumpStatus", "GET", "/{repository}/dump")
    def dump_status(self, repository: str, query: TaskQuery) -> RepositoryDumpStatus: ...

    @call("restoreSubmit", "POST", "/{repository}/restore", status=202, statuses=(403,))
    def start_restore(self, repository: str, body: RefsDump) -> TaskInfo: ...

    @call("restoreStatus", "GET", "/{repository}/restore")
    def restore_status(self, repository: str, query: TaskQuery) -> RepositoryRestoreStatus: ...
