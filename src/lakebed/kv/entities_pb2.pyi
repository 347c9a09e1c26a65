from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RepositoryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPOSITORY_STATE_UNSPECIFIED: _ClassVar[RepositoryState]
    REPOSITORY_STATE_INITIAL: _ClassVar[RepositoryState]
    REPOSITORY_STATE_ACTIVE: _ClassVar[RepositoryState]
    REPOSITORY_STATE_DELETING: _ClassVar[RepositoryState]

class AddressType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADDRESS_TYPE_RELATIVE: _ClassVar[AddressType]
    ADDRESS_TYPE_FULL: _ClassVar[AddressType]

class PolicyEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_EFFECT_UNSPECIFIED: _ClassVar[PolicyEffect]
    POLICY_EFFECT_ALLOW: _ClassVar[PolicyEffect]
    POLICY_EFFECT_DENY: _ClassVar[PolicyEffect]

class LinkState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LINK_STATE_UNSPECIFIED: _ClassVar[LinkState]
    LINK_STATE_OPEN: _ClassVar[LinkState]
    LINK_STATE_CONSUMED: _ClassVar[LinkState]
    LINK_STATE_STAGED: _ClassVar[LinkState]

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_STATE_UNSPECIFIED: _ClassVar[TaskState]
    TASK_STATE_RUNNING: _ClassVar[TaskState]
    TASK_STATE_DONE: _ClassVar[TaskState]
    TASK_STATE_FAILED: _ClassVar[TaskState]
REPOSITORY_STATE_UNSPECIFIED: RepositoryState
REPOSITORY_STATE_INITIAL: RepositoryState
REPOSITORY_STATE_ACTIVE: RepositoryState
REPOSITORY_STATE_DELETING: RepositoryState
ADDRESS_TYPE_RELATIVE: AddressType
ADDRESS_TYPE_FULL: AddressType
POLICY_EFFECT_UNSPECIFIED: PolicyEffect
POLICY_EFFECT_ALLOW: PolicyEffect
POLICY_EFFECT_DENY: PolicyEffect
LINK_STATE_UNSPECIFIED: LinkState
LINK_STATE_OPEN: LinkState
LINK_STATE_CONSUMED: LinkState
LINK_STATE_STAGED: LinkState
TASK_STATE_UNSPECIFIED: TaskState
TASK_STATE_RUNNING: TaskState
TASK_STATE_DONE: TaskState
TASK_STATE_FAILED: TaskState

class Repository(_message.Message):
    __slots__ = ("unique_id", "state", "storage_namespace", "default_branch", "created_us", "read_only", "metadata", "adopted_unique_ids")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STORAGE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BRANCH_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_UNIQUE_IDS_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    state: RepositoryState
    storage_namespace: str
    default_branch: str
    created_us: int
    read_only: bool
    metadata: _containers.ScalarMap[str, str]
    adopted_unique_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, unique_id: _Optional[str] = ..., state: _Optional[_Union[RepositoryState, str]] = ..., storage_namespace: _Optional[str] = ..., default_branch: _Optional[str] = ..., created_us: _Optional[int] = ..., read_only: _Optional[bool] = ..., metadata: _Optional[_Mapping[str, str]] = ..., adopted_unique_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class NamespaceClaim(_message.Message):
    __slots__ = ("repository", "unique_id")
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    repository: str
    unique_id: str
    def __init__(self, repository: _Optional[str] = ..., unique_id: _Optional[str] = ...) -> None: ...

class DeletedRepository(_message.Message):
    __slots__ = ("storage_namespace", "deleted_us")
    STORAGE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DELETED_US_FIELD_NUMBER: _ClassVar[int]
    storage_namespace: str
    deleted_us: int
    def __init__(self, storage_namespace: _Optional[str] = ..., deleted_us: _Optional[int] = ...) -> None: ...

class Branch(_message.Message):
    __slots__ = ("unique_id", "commit_id", "staging_token", "sealed_tokens", "hidden", "created_us")
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEALED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    commit_id: str
    staging_token: str
    sealed_tokens: _containers.RepeatedScalarFieldContainer[str]
    hidden: bool
    created_us: int
    def __init__(self, unique_id: _Optional[str] = ..., commit_id: _Optional[str] = ..., staging_token: _Optional[str] = ..., sealed_tokens: _Optional[_Iterable[str]] = ..., hidden: _Optional[bool] = ..., created_us: _Optional[int] = ...) -> None: ...

class Emptied(_message.Message):
    __slots__ = ("sealed_tokens", "metarange_id", "stretches", "sought")
    SEALED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    METARANGE_ID_FIELD_NUMBER: _ClassVar[int]
    STRETCHES_FIELD_NUMBER: _ClassVar[int]
    SOUGHT_FIELD_NUMBER: _ClassVar[int]
    sealed_tokens: _containers.RepeatedScalarFieldContainer[str]
    metarange_id: str
    stretches: _containers.RepeatedCompositeFieldContainer[Stretch]
    sought: Stretch
    def __init__(self, sealed_tokens: _Optional[_Iterable[str]] = ..., metarange_id: _Optional[str] = ..., stretches: _Optional[_Iterable[_Union[Stretch, _Mapping]]] = ..., sought: _Optional[_Union[Stretch, _Mapping]] = ...) -> None: ...

class Stretch(_message.Message):
    __slots__ = ("start", "end", "found_us")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FOUND_US_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    end: bytes
    found_us: int
    def __init__(self, start: _Optional[bytes] = ..., end: _Optional[bytes] = ..., found_us: _Optional[int] = ...) -> None: ...

class Tag(_message.Message):
    __slots__ = ("commit_id", "created_us")
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    commit_id: str
    created_us: int
    def __init__(self, commit_id: _Optional[str] = ..., created_us: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("version", "committer", "message", "metarange_id", "created_us", "parents", "metadata", "generation", "consumed_tokens", "nonce")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METARANGE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CONSUMED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    committer: str
    message: str
    metarange_id: str
    created_us: int
    parents: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    generation: int
    consumed_tokens: _containers.RepeatedScalarFieldContainer[str]
    nonce: bytes
    def __init__(self, version: _Optional[int] = ..., committer: _Optional[str] = ..., message: _Optional[str] = ..., metarange_id: _Optional[str] = ..., created_us: _Optional[int] = ..., parents: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., generation: _Optional[int] = ..., consumed_tokens: _Optional[_Iterable[str]] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class BranchProtection(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[BranchProtectionRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[BranchProtectionRule, _Mapping]]] = ...) -> None: ...

class BranchProtectionRule(_message.Message):
    __slots__ = ("pattern",)
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    def __init__(self, pattern: _Optional[str] = ...) -> None: ...

class RestoredRefs(_message.Message):
    __slots__ = ("dump_id", "finished")
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    dump_id: str
    finished: bool
    def __init__(self, dump_id: _Optional[str] = ..., finished: _Optional[bool] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("address", "address_type", "size", "checksum", "modified_us", "content_type", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_US_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    address: str
    address_type: AddressType
    size: int
    checksum: str
    modified_us: int
    content_type: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, address: _Optional[str] = ..., address_type: _Optional[_Union[AddressType, str]] = ..., size: _Optional[int] = ..., checksum: _Optional[str] = ..., modified_us: _Optional[int] = ..., content_type: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StagedEntry(_message.Message):
    __slots__ = ("identity", "entry", "replaced_address")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REPLACED_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    identity: bytes
    entry: Entry
    replaced_address: str
    def __init__(self, identity: _Optional[bytes] = ..., entry: _Optional[_Union[Entry, _Mapping]] = ..., replaced_address: _Optional[str] = ...) -> None: ...

class DroppedToken(_message.Message):
    __slots__ = ("repository", "unique_id", "branch", "dropped_us")
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    DROPPED_US_FIELD_NUMBER: _ClassVar[int]
    repository: str
    unique_id: str
    branch: str
    dropped_us: int
    def __init__(self, repository: _Optional[str] = ..., unique_id: _Optional[str] = ..., branch: _Optional[str] = ..., dropped_us: _Optional[int] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("holder", "renewed_us")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    RENEWED_US_FIELD_NUMBER: _ClassVar[int]
    holder: str
    renewed_us: int
    def __init__(self, holder: _Optional[str] = ..., renewed_us: _Optional[int] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("unique_id", "deleting", "created_us", "email", "friendly_name")
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    EMAIL_FIELD_NUMBER: _ClassVar[int]
    FRIENDLY_NAME_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    deleting: bool
    created_us: int
    email: str
    friendly_name: str
    def __init__(self, unique_id: _Optional[str] = ..., deleting: _Optional[bool] = ..., created_us: _Optional[int] = ..., email: _Optional[str] = ..., friendly_name: _Optional[str] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("unique_id", "deleting", "created_us", "description")
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    deleting: bool
    created_us: int
    description: str
    def __init__(self, unique_id: _Optional[str] = ..., deleting: _Optional[bool] = ..., created_us: _Optional[int] = ..., description: _Optional[str] = ...) -> None: ...

class Policy(_message.Message):
    __slots__ = ("unique_id", "deleting", "created_us", "statements")
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    DELETING_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    deleting: bool
    created_us: int
    statements: _containers.RepeatedCompositeFieldContainer[PolicyStatement]
    def __init__(self, unique_id: _Optional[str] = ..., deleting: _Optional[bool] = ..., created_us: _Optional[int] = ..., statements: _Optional[_Iterable[_Union[PolicyStatement, _Mapping]]] = ...) -> None: ...

class PolicyStatement(_message.Message):
    __slots__ = ("effect", "actions", "resource", "conditions")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    effect: PolicyEffect
    actions: _containers.RepeatedScalarFieldContainer[str]
    resource: str
    conditions: _containers.RepeatedCompositeFieldContainer[PolicyCondition]
    def __init__(self, effect: _Optional[_Union[PolicyEffect, str]] = ..., actions: _Optional[_Iterable[str]] = ..., resource: _Optional[str] = ..., conditions: _Optional[_Iterable[_Union[PolicyCondition, _Mapping]]] = ...) -> None: ...

class PolicyCondition(_message.Message):
    __slots__ = ("operator", "field", "values")
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    operator: str
    field: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, operator: _Optional[str] = ..., field: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Relation(_message.Message):
    __slots__ = ("source_unique_id", "target_unique_id")
    SOURCE_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    source_unique_id: str
    target_unique_id: str
    def __init__(self, source_unique_id: _Optional[str] = ..., target_unique_id: _Optional[str] = ...) -> None: ...

class Credential(_message.Message):
    __slots__ = ("user", "user_unique_id", "created_us", "secret")
    USER_FIELD_NUMBER: _ClassVar[int]
    USER_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    user: str
    user_unique_id: str
    created_us: int
    secret: bytes
    def __init__(self, user: _Optional[str] = ..., user_unique_id: _Optional[str] = ..., created_us: _Optional[int] = ..., secret: _Optional[bytes] = ...) -> None: ...

class UserCredential(_message.Message):
    __slots__ = ("user_unique_id", "created_us")
    USER_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    user_unique_id: str
    created_us: int
    def __init__(self, user_unique_id: _Optional[str] = ..., created_us: _Optional[int] = ...) -> None: ...

class Setup(_message.Message):
    __slots__ = ("attempt_id", "user", "replaced", "finished")
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    attempt_id: str
    user: FirstUser
    replaced: _containers.RepeatedCompositeFieldContainer[FirstUser]
    finished: bool
    def __init__(self, attempt_id: _Optional[str] = ..., user: _Optional[_Union[FirstUser, _Mapping]] = ..., replaced: _Optional[_Iterable[_Union[FirstUser, _Mapping]]] = ..., finished: _Optional[bool] = ...) -> None: ...

class FirstUser(_message.Message):
    __slots__ = ("user", "unique_id")
    USER_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    user: str
    unique_id: str
    def __init__(self, user: _Optional[str] = ..., unique_id: _Optional[str] = ...) -> None: ...

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
    entry: StagedEntry
    etag: str
    def __init__(self, branch: _Optional[str] = ..., path: _Optional[bytes] = ..., address: _Optional[str] = ..., expires_us: _Optional[int] = ..., state: _Optional[_Union[LinkState, str]] = ..., entry: _Optional[_Union[StagedEntry, _Mapping]] = ..., etag: _Optional[str] = ...) -> None: ...

class MultipartUpload(_message.Message):
    __slots__ = ("branch", "path", "address", "created_us", "storage_upload_id", "content_type", "metadata", "entry", "staged", "reopened", "checksum_algorithm", "checksum_type")
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
    branch: str
    path: bytes
    address: str
    created_us: int
    storage_upload_id: str
    content_type: str
    metadata: _containers.ScalarMap[str, str]
    entry: StagedEntry
    staged: bool
    reopened: bool
    checksum_algorithm: str
    checksum_type: str
    def __init__(self, branch: _Optional[str] = ..., path: _Optional[bytes] = ..., address: _Optional[str] = ..., created_us: _Optional[int] = ..., storage_upload_id: _Optional[str] = ..., content_type: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., entry: _Optional[_Union[StagedEntry, _Mapping]] = ..., staged: _Optional[bool] = ..., reopened: _Optional[bool] = ..., checksum_algorithm: _Optional[str] = ..., checksum_type: _Optional[str] = ...) -> None: ...

class MultipartPart(_message.Message):
    __slots__ = ("md5", "storage_etag", "size", "modified_us", "checksum")
    MD5_FIELD_NUMBER: _ClassVar[int]
    STORAGE_ETAG_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_US_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    md5: str
    storage_etag: str
    size: int
    modified_us: int
    checksum: str
    def __init__(self, md5: _Optional[str] = ..., storage_etag: _Optional[str] = ..., size: _Optional[int] = ..., modified_us: _Optional[int] = ..., checksum: _Optional[str] = ...) -> None: ...

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
