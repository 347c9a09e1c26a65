"""What goes over the wire, in the words of the API. Times are seconds since 1970."""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from lakebed.catalog.imports.sources import ImportSource
from lakebed.catalog.nouns import Query
from lakebed.catalog.places import parse_address, parse_namespace, spelling_of

ItemT = TypeVar("ItemT")
WireT = TypeVar("WireT")

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1000

Seconds = Annotated[int, Meta(ge=-62_135_596_800, le=253_402_300_799)]
"""Since 1970, within the years 1 to 9999, which Python can show."""
Size = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""In bytes."""


class Wire(Struct, kw_only=True, omit_defaults=True):
    """A JSON object."""


class Error(Wire):
    """What went wrong."""

    message: str
    """In the words that clients know."""
    kind: str = "error"
    """Stable."""
    detail: str = ""
    """What was wrong, with which value, and what to do; for people."""


Force = Annotated[bool, Meta(description="write even to a read-only repository")]


class ForceQuery(Wire):
    force: Force = False


class SkipQuery(Wire):
    skip_hooks: Annotated[
        bool,
        Meta(description="run no hooks before the operation; this is noted (for administrators)"),
    ] = False


class ForceSkipQuery(SkipQuery):
    force: Force = False


# Pages


class PageQuery(Wire):
    """Which part of a list."""

    prefix: str = ""
    after: str = ""
    amount: Annotated[int, Meta(ge=-1, le=PAGE_MAX, description="less than 1 means 100")] = (
        PAGE_DEFAULT
    )

    @property
    def limit(self) -> int:
        """How many items a page holds at most."""
        return PAGE_DEFAULT if self.amount <= 0 else self.amount


class KeysQuery(PageQuery):
    """Which part of a list of keys."""

    delimiter: Annotated[str, Meta(description="fold the keys that have it behind the prefix")] = ""

    def listing(self) -> Query:
        """Return what to list."""
        return Query(
            prefix=self.prefix.encode(),
            after=self.after.encode(),
            delimiter=self.delimiter.encode(),
            amount=self.limit,
        )


class Pagination(Struct, kw_only=True):
    """Where a page ends."""

    has_more: bool
    next_offset: str
    results: int
    max_per_page: int = PAGE_MAX


class Page(Struct, Generic[WireT], kw_only=True):
    """Some items of a list."""

    pagination: Pagination
    results: list[WireT]


def page_of(items: list[WireT], *, has_more: bool, last: str) -> Page[WireT]:
    """Return a page, given the name of its last item."""
    return Page(pagination=pagination_of(len(items), has_more=has_more, last=last), results=items)


def pagination_of(count: int, *, has_more: bool, last: str) -> Pagination:
    """Return where a page of so many items ends, given the name of the last one."""
    return Pagination(has_more=has_more, next_offset=last if has_more else "", results=count)


def first_page(
    found: Iterable[ItemT],
    query: PageQuery,
    *,
    wire: Callable[[ItemT], WireT],
    name: Callable[[ItemT], str],
) -> Page[WireT]:
    """Return the page that the first of the items found make."""
    window = list(islice(found, query.limit + 1))
    shown = window[: query.limit]
    return page_of(
        [wire(item) for item in shown],
        has_more=len(window) > len(shown),
        last=name(shown[-1]) if shown else "",
    )


# Repositories


class RepositoryCreation(Wire):
    name: str
    storage_namespace: str
    storage_id: str = ""
    default_branch: str = "main"
    sample_data: bool = False
    read_only: bool = False

    @property
    def place(self) -> str:
        """The one spelling of the storage namespace, which permissions are asked for."""
        return spelling_of(parse_namespace(self.storage_namespace))


class Repository(Struct, kw_only=True):
    id: str
    creation_date: int
    default_branch: str
    storage_namespace: str
    read_only: bool
    storage_id: str = ""


class RepositoryMetadataSet(Wire):
    metadata: dict[str, str]


class RepositoryMetadataKeys(Wire):
    keys: list[str]


class BranchProtectionRule(Wire):
    pattern: str
    strict: bool | None = None
    """Whether only merges change the branch; None: as it was."""


class RefsDump(Wire):
    """Names a dump: all three fields hold its id, since clients send them all back."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class TaskInfo(Wire):
    id: str


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


# Refs


class Ref(Wire):
    id: str
    commit_id: str


class BranchCreation(Wire):
    name: str
    source: str
    hidden: bool = False
    force: Force = False


class TagCreation(Wire):
    id: str
    ref: str
    force: Force = False


class ResetCreation(Wire):
    type: str
    path: str | None = None


class HooksSettings(Struct, kw_only=True):
    strict: Annotated[
        bool,
        Meta(description="hooks of a branch's head judge what takes its place, too"),
    ]


class CommitOverrides(Wire):
    message: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class RevertCreation(Wire):
    ref: str
    parent_number: int
    """Counts from 1; 0 where there is only one parent."""
    commit_overrides: CommitOverrides | None = None
    allow_empty: bool = False
    force: Force = False


class CherryPickCreation(Wire):
    ref: str
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None
    force: Force = False


class CommitCreation(Wire):
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    date: Seconds | None = None
    allow_empty: bool = False
    force: Force = False


class Commit(Struct, kw_only=True):
    id: str
    parents: list[str]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str]
    generation: int
    version: int = 1
    refused: str | UnsetType = UNSET
    """Which hook refused the commit, so that no branch leads to it; given by its id only."""


class Merge(Wire):
    message: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    strategy: str = ""
    allow_empty: bool = False
    squash_merge: bool = False
    force: Force = False
    keep_staged: Annotated[
        bool,
        Meta(description="leave alone what is staged on the branch, if it is of other objects"),
    ] = False


class MergeResult(Wire):
    reference: str


class FindMergeBaseResult(Wire):
    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


class DiffObjectStat(Wire):
    checksum: str
    mtime: int
    content_type: str
    metadata: dict[str, str] = field(default_factory=dict)


class Diff(Wire):
    type: str
    path: str
    path_type: str
    size_bytes: int | None = None
    right: DiffObjectStat | None = None


class StorageURI(Wire):
    location: str


# Objects


class ObjectStats(Wire):
    path: str
    path_type: str
    physical_address: str
    checksum: str
    mtime: int
    size_bytes: int | None = None
    physical_address_expiry: int | None = None
    metadata: dict[str, str] | None = None
    content_type: str | None = None


class PathList(Wire):
    paths: list[str]


class ObjectError(Wire):
    status_code: int
    message: str
    path: str | None = None


class ObjectErrorList(Struct, kw_only=True):
    errors: list[ObjectError]


class ObjectCopyCreation(Wire):
    src_path: str
    src_ref: str | None = None
    shallow: bool = False
    force: Force = False


class ObjectStageCreation(Wire):
    physical_address: str
    checksum: str
    size_bytes: Size
    mtime: Seconds | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None
    force: Force = False

    @property
    def place(self) -> str:
        """The one spelling of the address, which permissions are asked for."""
        return spelling_of(parse_address(self.physical_address))


class UpdateObjectUserMetadata(Wire):
    set: dict[str, str]


class UnderlyingObjectProperties(Wire):
    storage_class: str | None = None


class StagingLocation(Wire):
    physical_address: str | None = None
    presigned_url: str | None = None
    presigned_url_expiry: int | None = None


class StagingMetadata(Wire):
    staging: StagingLocation
    checksum: str
    size_bytes: Size
    user_metadata: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None
    mtime: Seconds | None = None
    force: Force = False


class PresignMultipartUpload(Wire):
    upload_id: str
    physical_address: str
    presigned_urls: list[str] = field(default_factory=list)


class UploadPartFrom(Wire):
    physical_address: str


class UploadTo(Wire):
    presigned_url: str


class CopyPartSource(Wire):
    repository: str
    ref: str
    path: str
    range: str | None = None


class UploadPartCopyFrom(Wire):
    physical_address: str
    copy_source: CopyPartSource


class UploadPart(Wire):
    part_number: int
    etag: str


class CompletePresignMultipartUpload(Wire):
    physical_address: str
    parts: list[UploadPart]
    user_metadata: dict[str, str] = field(default_factory=dict)
    content_type: str | None = None


class AbortPresignMultipartUpload(Wire):
    physical_address: str


# Imports


class ImportLocation(Wire):
    type: Literal["common_prefix", "object"]
    path: str
    destination: str

    @property
    def source(self) -> ImportSource:
        """What is imported from there, and where it goes."""
        destination = self.destination.encode()
        if self.type == "object":
            return ImportSource(parse_address(self.path), destination)
        return ImportSource.of_prefix(parse_namespace(self.path), destination)


class ImportPaths(Wire):
    paths: list[ImportLocation]

    @property
    def sources(self) -> list[ImportSource]:
        """What is imported, and where it goes."""
        return [path.source for path in self.paths]

    @property
    def places(self) -> list[str]:
        """The one spelling of each place, which permissions are asked for."""
        return [str(source.place) for source in self.sources]

    @property
    def destinations(self) -> list[str]:
        """Which objects are written, or what their paths begin with."""
        return [source.destination.decode() for source in self.sources]


class ImportCreation(ImportPaths):
    commit: CommitCreation
    force: Force = False
    strict: bool = False
    spark: bool = False


class ImportReport(ImportPaths):
    objects: int = 0
    skipped_objects: int = 0
    skipped: list[str] = field(default_factory=list)
    current_prefix: str = ""
    metarange_id: str = ""
    error: str = ""


class SkippedObjects(Struct, kw_only=True):
    """Files or objects that an import skips for one reason."""

    kind: str
    count: int
    example: str


class ImportStatus(Struct, kw_only=True, omit_defaults=True):
    completed: bool
    update_time: datetime
    ingested_objects: int
    skipped_objects: int
    skipped: list[str]
    skipped_kinds: list[SkippedObjects] = field(default_factory=list)
    current_prefix: str | None = None
    metarange_id: str | None = None
    commit: Commit | None = None
    unchanged: bool = False
    error: dict[str, str] | None = None


# Users and permissions


class AccessKeyCredentials(Wire):
    access_key_id: str
    secret_access_key: str


class Setup(Wire):
    username: str
    key: AccessKeyCredentials | None = None


class LoginConfig(Wire):
    RBAC: str
    login_url: str
    login_failed_message: str
    login_cookie_names: list[str]
    logout_url: str


class SetupState(Struct, kw_only=True):
    state: str
    comm_prefs_missing: bool
    login_config: LoginConfig


class LoginInformation(Wire):
    access_key_id: str
    secret_access_key: str


class AuthenticationToken(Wire):
    token: str
    token_expiration: int


class User(Wire):
    id: str
    creation_date: int
    friendly_name: str | None = None
    email: str | None = None


class CurrentUser(Wire):
    user: User
    denied: list[str] = field(default_factory=list)
    """What was asked about, and is not granted."""


class UserCreation(Wire):
    id: str


class Group(Wire):
    id: str
    creation_date: int
    name: str | None = None
    description: str | None = None


class GroupCreation(Wire):
    id: str
    description: str | None = None


class Statement(Wire):
    effect: str
    resource: str
    action: list[str]
    condition: dict[str, dict[str, list[str]]] | None = None


class Policy(Wire):
    id: str
    statement: list[Statement]
    creation_date: int | None = None


class Credentials(Wire):
    access_key_id: str
    creation_date: int


class CredentialsWithSecret(Wire):
    access_key_id: str
    secret_access_key: str
    creation_date: int


# Configuration


class VersionConfig(Wire):
    version: str
    version_context: str
    latest_version: str
    upgrade_recommended: Any = None
    upgrade_url: str = ""


class StorageConfig(Struct, kw_only=True):
    blockstore_type: str
    blockstore_namespace_example: str
    blockstore_namespace_ValidityRegex: str  # noqa: N815 - that is what clients read
    default_namespace_prefix: str
    pre_sign_support: bool
    pre_sign_support_ui: bool
    import_support: bool
    import_validity_regex: str
    pre_sign_multipart_upload: bool
    blockstore_id: str = ""
    blockstore_description: str = ""


class UIConfig(Struct, kw_only=True):
    custom_viewers: list[str] = field(default_factory=list)


class Config(Struct, kw_only=True):
    version_config: VersionConfig
    storage_config: StorageConfig
    storage_config_list: list[StorageConfig]
    ui_config: UIConfig
    capabilities_config: dict[str, bool]


class UsageReport(Wire):
    year: int
    month: int
    count: int


class InstallationUsageReport(Struct, kw_only=True):
    installation_id: str
    reports: list[UsageReport]


class GarbageCollectionConfig(Wire):
    grace_period: int
