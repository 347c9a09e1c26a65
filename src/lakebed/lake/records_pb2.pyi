from lakebed.engine import records_pb2 as _records_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LinkState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINK_STATE_UNSPECIFIED: _ClassVar[LinkState]
    LINK_STATE_OPEN: _ClassVar[LinkState]
    LINK_STATE_CONSUMED: _ClassVar[LinkState]
    LINK_STATE_STAGED: _ClassVar[LinkState]
    LINK_STATE_ABORTED: _ClassVar[LinkState]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_DONE: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]

class ImportState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMPORT_STATE_UNSPECIFIED: _ClassVar[ImportState]
    IMPORT_STATE_RUNNING: _ClassVar[ImportState]
    IMPORT_STATE_DONE: _ClassVar[ImportState]
    IMPORT_STATE_FAILED: _ClassVar[ImportState]
    IMPORT_STATE_CANCELED: _ClassVar[ImportState]

class PullState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PULL_STATE_UNSPECIFIED: _ClassVar[PullState]
    PULL_STATE_OPEN: _ClassVar[PullState]
    PULL_STATE_CLOSED: _ClassVar[PullState]
    PULL_STATE_MERGING: _ClassVar[PullState]
    PULL_STATE_REOPENING: _ClassVar[PullState]
    PULL_STATE_MERGED: _ClassVar[PullState]
LINK_STATE_UNSPECIFIED: LinkState
LINK_STATE_OPEN: LinkState
LINK_STATE_CONSUMED: LinkState
LINK_STATE_STAGED: LinkState
LINK_STATE_ABORTED: LinkState
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_DONE: TaskState
TASK_STATE_FAILED: TaskState
IMPORT_STATE_UNSPECIFIED: ImportState
IMPORT_STATE_RUNNING: ImportState
IMPORT_STATE_DONE: ImportState
IMPORT_STATE_FAILED: ImportState
IMPORT_STATE_CANCELED: ImportState
PULL_STATE_UNSPECIFIED: PullState
PULL_STATE_OPEN: PullState
PULL_STATE_CLOSED: PullState
PULL_STATE_MERGING: PullState
PULL_STATE_REOPENING: PullState
PULL_STATE_MERGED: PullState

class Link(_message.Message):
    __slots__ = ("branch", "path", "address", "expires_us", "state", "entry", "etag")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    branch: str
    path: bytes
    address: str
    expires_us: int
    state: LinkState
    entry: _records_pb2.StagedEntry
    etag: str
    def __init__(self, branch: _Optional[str] = ..., path: _Optional[bytes] = ..., address: _Optional[str] = ..., expires_us: _Optional[int] = ..., state: _Optional[_Union[LinkState, str]] = ..., entry: _Optional[_Union[_records_pb2.StagedEntry, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class Pin(_message.Message):
    __slots__ = ("address", "etag", "size")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    address: str
    etag: str
    size: int
    def __init__(self, address: _Optional[str] = ..., etag: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class MultipartUpload(_message.Message):
    __slots__ = ("branch", "path", "address", "created_us", "storage_upload_id", "content_type", "metadata", "entry", "staged", "reopened", "checksum_algorithm", "checksum_type", "presigned", "copied_from")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    STORAGE_UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRESIGNED_FIELD_NUMBER: _ClassVar[int]
    COPIED_FROM_FIELD_NUMBER: _ClassVar[int]
    branch: str
    path: bytes
    address: str
    created_us: int
    storage_upload_id: str
    content_type: str
    metadata: _containers.ScalarMap[str, str]
    entry: _records_pb2.StagedEntry
    staged: bool
    reopened: bool
    checksum_algorithm: str
    checksum_type: str
    presigned: bool
    copied_from: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, branch: _Optional[str] = ..., path: _Optional[bytes] = ..., address: _Optional[str] = ..., created_us: _Optional[int] = ..., storage_upload_id: _Optional[str] = ..., content_type: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., entry: _Optional[_Union[_records_pb2.StagedEntry, _Mapping]] = ..., staged: bool = ..., reopened: bool = ..., checksum_algorithm: _Optional[str] = ..., checksum_type: _Optional[str] = ..., presigned: bool = ..., copied_from: _Optional[_Iterable[str]] = ...) -> None: ...

class MultipartPart(_message.Message):
    __slots__ = ("md5", "storage_etag", "size", "modified_us", "checksum", "copied_from")
    MD5_FIELD_NUMBER: _ClassVar[int]
    STORAGE_ETAG_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_US_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    COPIED_FROM_FIELD_NUMBER: _ClassVar[int]
    md5: str
    storage_etag: str
    size: int
    modified_us: int
    checksum: str
    copied_from: str
    def __init__(self, md5: _Optional[str] = ..., storage_etag: _Optional[str] = ..., size: _Optional[int] = ..., modified_us: _Optional[int] = ..., checksum: _Optional[str] = ..., copied_from: _Optional[str] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("kind", "state", "started_us", "updated_us", "result", "error_kind", "error")
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_US_FIELD_NUMBER: _ClassVar[int]
    UPDATED_US_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    kind: str
    state: TaskState
    started_us: int
    updated_us: int
    result: str
    error_kind: str
    error: str
    def __init__(self, kind: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., started_us: _Optional[int] = ..., updated_us: _Optional[int] = ..., result: _Optional[str] = ..., error_kind: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ImportSource(_message.Message):
    __slots__ = ("place", "is_prefix", "destination", "include", "exclude")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    IS_PREFIX_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    place: str
    is_prefix: bool
    destination: bytes
    include: _containers.RepeatedScalarFieldContainer[str]
    exclude: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, place: _Optional[str] = ..., is_prefix: bool = ..., destination: _Optional[bytes] = ..., include: _Optional[_Iterable[str]] = ..., exclude: _Optional[_Iterable[str]] = ...) -> None: ...

class Import(_message.Message):
    __slots__ = ("branch", "branch_unique_id", "sources", "committer", "message", "metadata", "strict", "force", "state", "started_us", "updated_us", "owner", "attempts", "objects", "skipped", "skipped_addresses", "saved_metarange_id", "saved_skipped", "metarange_id", "offered_commit_ids", "commit_id", "error_kind", "error", "outside", "handed_metarange_id", "current", "username", "strays", "unchanged", "dry_run")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    BRANCH_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_US_FIELD_NUMBER: _ClassVar[int]
    UPDATED_US_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    SAVED_METARANGE_ID_FIELD_NUMBER: _ClassVar[int]
    SAVED_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    METARANGE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFERED_COMMIT_IDS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_KIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTSIDE_FIELD_NUMBER: _ClassVar[int]
    HANDED_METARANGE_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    STRAYS_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    branch: str
    branch_unique_id: str
    sources: _containers.RepeatedCompositeFieldContainer[ImportSource]
    committer: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    strict: bool
    force: bool
    state: ImportState
    started_us: int
    updated_us: int
    owner: bytes
    attempts: int
    objects: int
    skipped: int
    skipped_addresses: _containers.RepeatedScalarFieldContainer[str]
    saved_metarange_id: str
    saved_skipped: int
    metarange_id: str
    offered_commit_ids: _containers.RepeatedScalarFieldContainer[str]
    commit_id: str
    error_kind: str
    error: str
    outside: bool
    handed_metarange_id: str
    current: str
    username: str
    strays: _containers.RepeatedCompositeFieldContainer[Strays]
    unchanged: bool
    dry_run: bool
    def __init__(self, branch: _Optional[str] = ..., branch_unique_id: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[ImportSource, _Mapping]]] = ..., committer: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., strict: bool = ..., force: bool = ..., state: _Optional[_Union[ImportState, str]] = ..., started_us: _Optional[int] = ..., updated_us: _Optional[int] = ..., owner: _Optional[bytes] = ..., attempts: _Optional[int] = ..., objects: _Optional[int] = ..., skipped: _Optional[int] = ..., skipped_addresses: _Optional[_Iterable[str]] = ..., saved_metarange_id: _Optional[str] = ..., saved_skipped: _Optional[int] = ..., metarange_id: _Optional[str] = ..., offered_commit_ids: _Optional[_Iterable[str]] = ..., commit_id: _Optional[str] = ..., error_kind: _Optional[str] = ..., error: _Optional[str] = ..., outside: bool = ..., handed_metarange_id: _Optional[str] = ..., current: _Optional[str] = ..., username: _Optional[str] = ..., strays: _Optional[_Iterable[_Union[Strays, _Mapping]]] = ..., unchanged: bool = ..., dry_run: bool = ...) -> None: ...

class Strays(_message.Message):
    __slots__ = ("kind", "count", "example")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    count: int
    example: str
    def __init__(self, kind: _Optional[str] = ..., count: _Optional[int] = ..., example: _Optional[str] = ...) -> None: ...

class WaitingImport(_message.Message):
    __slots__ = ("repository", "unique_id")
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    repository: str
    unique_id: str
    def __init__(self, repository: _Optional[str] = ..., unique_id: _Optional[str] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("title", "description", "source_branch", "destination_branch", "author", "created_us", "state", "closed_us", "owner", "updated_us", "destination_unique_id", "offered_commit_ids", "merged_commit_id")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_BRANCH_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_BRANCH_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_US_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    UPDATED_US_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    OFFERED_COMMIT_IDS_FIELD_NUMBER: _ClassVar[int]
    MERGED_COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    title: str
    description: str
    source_branch: str
    destination_branch: str
    author: str
    created_us: int
    state: PullState
    closed_us: int
    owner: bytes
    updated_us: int
    destination_unique_id: str
    offered_commit_ids: _containers.RepeatedScalarFieldContainer[str]
    merged_commit_id: str
    def __init__(self, title: _Optional[str] = ..., description: _Optional[str] = ..., source_branch: _Optional[str] = ..., destination_branch: _Optional[str] = ..., author: _Optional[str] = ..., created_us: _Optional[int] = ..., state: _Optional[_Union[PullState, str]] = ..., closed_us: _Optional[int] = ..., owner: _Optional[bytes] = ..., updated_us: _Optional[int] = ..., destination_unique_id: _Optional[str] = ..., offered_commit_ids: _Optional[_Iterable[str]] = ..., merged_commit_id: _Optional[str] = ...) -> None: ...

class PullMerging(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Purge(_message.Message):
    __slots__ = ("purge_id", "reason", "username", "requested_us", "purged_us")
    PURGE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_US_FIELD_NUMBER: _ClassVar[int]
    PURGED_US_FIELD_NUMBER: _ClassVar[int]
    purge_id: str
    reason: str
    username: str
    requested_us: int
    purged_us: int
    def __init__(self, purge_id: _Optional[str] = ..., reason: _Optional[str] = ..., username: _Optional[str] = ..., requested_us: _Optional[int] = ..., purged_us: _Optional[int] = ...) -> None: ...

class Seen(_message.Message):
    __slots__ = ("run_id", "purge_id")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PURGE_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    purge_id: str
    def __init__(self, run_id: _Optional[str] = ..., purge_id: _Optional[str] = ...) -> None: ...

class GCLastRun(_message.Message):
    __slots__ = ("good_us", "next_us", "ended_us")
    GOOD_US_FIELD_NUMBER: _ClassVar[int]
    NEXT_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_US_FIELD_NUMBER: _ClassVar[int]
    good_us: int
    next_us: int
    ended_us: int
    def __init__(self, good_us: _Optional[int] = ..., next_us: _Optional[int] = ..., ended_us: _Optional[int] = ...) -> None: ...
