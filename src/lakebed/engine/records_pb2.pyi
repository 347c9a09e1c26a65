from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RepositoryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPOSITORY_STATE_UNSPECIFIED: _ClassVar[RepositoryState]
    REPOSITORY_STATE_INITIAL: _ClassVar[RepositoryState]
    REPOSITORY_STATE_ACTIVE: _ClassVar[RepositoryState]
    REPOSITORY_STATE_DELETING: _ClassVar[RepositoryState]

class RefState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REF_STATE_UNSPECIFIED: _ClassVar[RefState]
    REF_STATE_CREATING: _ClassVar[RefState]
    REF_STATE_LIVE: _ClassVar[RefState]
    REF_STATE_DELETING: _ClassVar[RefState]

class ExpiryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXPIRY_STATE_UNSPECIFIED: _ClassVar[ExpiryState]
    EXPIRY_STATE_EXPIRING: _ClassVar[ExpiryState]
    EXPIRY_STATE_EXPIRED: _ClassVar[ExpiryState]

class AddressType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ADDRESS_TYPE_RELATIVE: _ClassVar[AddressType]
    ADDRESS_TYPE_FULL: _ClassVar[AddressType]
REPOSITORY_STATE_UNSPECIFIED: RepositoryState
REPOSITORY_STATE_INITIAL: RepositoryState
REPOSITORY_STATE_ACTIVE: RepositoryState
REPOSITORY_STATE_DELETING: RepositoryState
REF_STATE_UNSPECIFIED: RefState
REF_STATE_CREATING: RefState
REF_STATE_LIVE: RefState
REF_STATE_DELETING: RefState
EXPIRY_STATE_UNSPECIFIED: ExpiryState
EXPIRY_STATE_EXPIRING: ExpiryState
EXPIRY_STATE_EXPIRED: ExpiryState
ADDRESS_TYPE_RELATIVE: AddressType
ADDRESS_TYPE_FULL: AddressType

class Repository(_message.Message):
    __slots__ = ("unique_id", "state", "storage_namespace", "default_branch", "created_us", "read_only", "metadata", "adopted_unique_ids", "adopted_namespace", "strict_hooks")
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
    ADOPTED_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    STRICT_HOOKS_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    state: RepositoryState
    storage_namespace: str
    default_branch: str
    created_us: int
    read_only: bool
    metadata: _containers.ScalarMap[str, str]
    adopted_unique_ids: _containers.RepeatedScalarFieldContainer[str]
    adopted_namespace: AdoptedNamespace
    strict_hooks: bool
    def __init__(self, unique_id: _Optional[str] = ..., state: _Optional[_Union[RepositoryState, str]] = ..., storage_namespace: _Optional[str] = ..., default_branch: _Optional[str] = ..., created_us: _Optional[int] = ..., read_only: bool = ..., metadata: _Optional[_Mapping[str, str]] = ..., adopted_unique_ids: _Optional[_Iterable[str]] = ..., adopted_namespace: _Optional[_Union[AdoptedNamespace, _Mapping]] = ..., strict_hooks: bool = ...) -> None: ...

class AdoptedNamespace(_message.Message):
    __slots__ = ("storage_namespace", "adopted_us")
    STORAGE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_US_FIELD_NUMBER: _ClassVar[int]
    storage_namespace: str
    adopted_us: int
    def __init__(self, storage_namespace: _Optional[str] = ..., adopted_us: _Optional[int] = ...) -> None: ...

class NamespaceClaim(_message.Message):
    __slots__ = ("repository", "unique_id", "closed_us", "purge_requested_us")
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    CLOSED_US_FIELD_NUMBER: _ClassVar[int]
    PURGE_REQUESTED_US_FIELD_NUMBER: _ClassVar[int]
    repository: str
    unique_id: str
    closed_us: int
    purge_requested_us: int
    def __init__(self, repository: _Optional[str] = ..., unique_id: _Optional[str] = ..., closed_us: _Optional[int] = ..., purge_requested_us: _Optional[int] = ...) -> None: ...

class DeletedRepository(_message.Message):
    __slots__ = ("storage_namespace", "deleted_us")
    STORAGE_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DELETED_US_FIELD_NUMBER: _ClassVar[int]
    storage_namespace: str
    deleted_us: int
    def __init__(self, storage_namespace: _Optional[str] = ..., deleted_us: _Optional[int] = ...) -> None: ...

class Branch(_message.Message):
    __slots__ = ("unique_id", "commit_id", "staging_token", "sealed_tokens", "hidden", "created_us", "state", "transient")
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEALED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    unique_id: str
    commit_id: str
    staging_token: str
    sealed_tokens: _containers.RepeatedScalarFieldContainer[str]
    hidden: bool
    created_us: int
    state: RefState
    transient: BranchTransient
    def __init__(self, unique_id: _Optional[str] = ..., commit_id: _Optional[str] = ..., staging_token: _Optional[str] = ..., sealed_tokens: _Optional[_Iterable[str]] = ..., hidden: bool = ..., created_us: _Optional[int] = ..., state: _Optional[_Union[RefState, str]] = ..., transient: _Optional[_Union[BranchTransient, _Mapping]] = ...) -> None: ...

class BranchTransient(_message.Message):
    __slots__ = ("next_commit_id",)
    NEXT_COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    next_commit_id: str
    def __init__(self, next_commit_id: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("commit_id", "created_us", "state", "unique_id")
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    commit_id: str
    created_us: int
    state: RefState
    unique_id: str
    def __init__(self, commit_id: _Optional[str] = ..., created_us: _Optional[int] = ..., state: _Optional[_Union[RefState, str]] = ..., unique_id: _Optional[str] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("version", "committer", "message", "metarange_id", "created_us", "parents", "metadata", "generation", "consumed_tokens", "nonce", "stored_us", "branch", "sources")
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
    STORED_US_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
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
    stored_us: int
    branch: str
    sources: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., committer: _Optional[str] = ..., message: _Optional[str] = ..., metarange_id: _Optional[str] = ..., created_us: _Optional[int] = ..., parents: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., generation: _Optional[int] = ..., consumed_tokens: _Optional[_Iterable[str]] = ..., nonce: _Optional[bytes] = ..., stored_us: _Optional[int] = ..., branch: _Optional[str] = ..., sources: _Optional[_Iterable[str]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("by", "refused_us")
    BY_FIELD_NUMBER: _ClassVar[int]
    REFUSED_US_FIELD_NUMBER: _ClassVar[int]
    by: str
    refused_us: int
    def __init__(self, by: _Optional[str] = ..., refused_us: _Optional[int] = ...) -> None: ...

class Expiry(_message.Message):
    __slots__ = ("state", "marked_us", "expired_us")
    STATE_FIELD_NUMBER: _ClassVar[int]
    MARKED_US_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_US_FIELD_NUMBER: _ClassVar[int]
    state: ExpiryState
    marked_us: int
    expired_us: int
    def __init__(self, state: _Optional[_Union[ExpiryState, str]] = ..., marked_us: _Optional[int] = ..., expired_us: _Optional[int] = ...) -> None: ...

class Retention(_message.Message):
    __slots__ = ("default_days", "branches")
    DEFAULT_DAYS_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    default_days: int
    branches: _containers.RepeatedCompositeFieldContainer[BranchRetention]
    def __init__(self, default_days: _Optional[int] = ..., branches: _Optional[_Iterable[_Union[BranchRetention, _Mapping]]] = ...) -> None: ...

class BranchRetention(_message.Message):
    __slots__ = ("pattern", "days")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    DAYS_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    days: int
    def __init__(self, pattern: _Optional[str] = ..., days: _Optional[int] = ...) -> None: ...

class RetentionSince(_message.Message):
    __slots__ = ("since_us",)
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    since_us: int
    def __init__(self, since_us: _Optional[int] = ...) -> None: ...

class BranchProtection(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[BranchProtectionRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[BranchProtectionRule, _Mapping]]] = ...) -> None: ...

class BranchProtectionRule(_message.Message):
    __slots__ = ("pattern", "strict")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    strict: bool
    def __init__(self, pattern: _Optional[str] = ..., strict: bool = ...) -> None: ...

class RestoredRefs(_message.Message):
    __slots__ = ("dump_id", "finished", "left_out", "left_out_count")
    DUMP_ID_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_COUNT_FIELD_NUMBER: _ClassVar[int]
    dump_id: str
    finished: bool
    left_out: _containers.RepeatedScalarFieldContainer[str]
    left_out_count: int
    def __init__(self, dump_id: _Optional[str] = ..., finished: bool = ..., left_out: _Optional[_Iterable[str]] = ..., left_out_count: _Optional[int] = ...) -> None: ...

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

class ProposedEntry(_message.Message):
    __slots__ = ("value", "value_version", "proposal", "branch_version")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    VALUE_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    BRANCH_VERSION_FIELD_NUMBER: _ClassVar[int]
    value: StagedEntry
    value_version: bytes
    proposal: StagedEntry
    branch_version: bytes
    def __init__(self, value: _Optional[_Union[StagedEntry, _Mapping]] = ..., value_version: _Optional[bytes] = ..., proposal: _Optional[_Union[StagedEntry, _Mapping]] = ..., branch_version: _Optional[bytes] = ...) -> None: ...

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
