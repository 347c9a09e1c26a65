from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AddressType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BY_PREFIX: _ClassVar[AddressType]
    RELATIVE: _ClassVar[AddressType]
    FULL: _ClassVar[AddressType]
BY_PREFIX: AddressType
RELATIVE: AddressType
FULL: AddressType

class Entry(_message.Message):
    __slots__ = ("address", "last_modified", "size", "e_tag", "metadata", "address_type", "content_type")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LAST_MODIFIED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    E_TAG_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    address: str
    last_modified: _timestamp_pb2.Timestamp
    size: int
    e_tag: str
    metadata: _containers.ScalarMap[str, str]
    address_type: AddressType
    content_type: str
    def __init__(self, address: _Optional[str] = ..., last_modified: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., size: _Optional[int] = ..., e_tag: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., address_type: _Optional[_Union[AddressType, str]] = ..., content_type: _Optional[str] = ...) -> None: ...

class RangeData(_message.Message):
    __slots__ = ("min_key", "max_key", "estimated_size", "count")
    MIN_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_KEY_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_SIZE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    min_key: bytes
    max_key: bytes
    estimated_size: int
    count: int
    def __init__(self, min_key: _Optional[bytes] = ..., max_key: _Optional[bytes] = ..., estimated_size: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class BranchData(_message.Message):
    __slots__ = ("id", "commit_id", "staging_token", "sealed_tokens")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    STAGING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEALED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    id: str
    commit_id: str
    staging_token: str
    sealed_tokens: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., commit_id: _Optional[str] = ..., staging_token: _Optional[str] = ..., sealed_tokens: _Optional[_Iterable[str]] = ...) -> None: ...

class TagData(_message.Message):
    __slots__ = ("id", "commit_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    commit_id: str
    def __init__(self, id: _Optional[str] = ..., commit_id: _Optional[str] = ...) -> None: ...

class CommitData(_message.Message):
    __slots__ = ("id", "committer", "message", "creation_date", "meta_range_id", "metadata", "parents", "version", "generation")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATION_DATE_FIELD_NUMBER: _ClassVar[int]
    META_RANGE_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    id: str
    committer: str
    message: str
    creation_date: _timestamp_pb2.Timestamp
    meta_range_id: str
    metadata: _containers.ScalarMap[str, str]
    parents: _containers.RepeatedScalarFieldContainer[str]
    version: int
    generation: int
    def __init__(self, id: _Optional[str] = ..., committer: _Optional[str] = ..., message: _Optional[str] = ..., creation_date: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., meta_range_id: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., parents: _Optional[_Iterable[str]] = ..., version: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...
