from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_PREPARED: _ClassVar[RunState]
    RUN_STATE_WAITING: _ClassVar[RunState]
    RUN_STATE_RUNNING: _ClassVar[RunState]
    RUN_STATE_DONE: _ClassVar[RunState]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_PREPARED: RunState
RUN_STATE_WAITING: RunState
RUN_STATE_RUNNING: RunState
RUN_STATE_DONE: RunState

class Run(_message.Message):
    __slots__ = ("event_type", "state", "created_us", "started_us", "ended_us", "updated_us", "passed", "owner", "attempts", "metarange_id", "source_ref", "branch", "tag", "commit_id", "committer", "message", "metadata", "merge_source", "username", "pre_run_id", "ref_unique_id", "is_trial", "script_ref", "is_skipped")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    STARTED_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_US_FIELD_NUMBER: _ClassVar[int]
    UPDATED_US_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    METARANGE_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_REF_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ID_FIELD_NUMBER: _ClassVar[int]
    COMMITTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    MERGE_SOURCE_FIELD_NUMBER: _ClassVar[int]
    USERNAME_FIELD_NUMBER: _ClassVar[int]
    PRE_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REF_UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_TRIAL_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_REF_FIELD_NUMBER: _ClassVar[int]
    IS_SKIPPED_FIELD_NUMBER: _ClassVar[int]
    event_type: str
    state: RunState
    created_us: int
    started_us: int
    ended_us: int
    updated_us: int
    passed: bool
    owner: bytes
    attempts: int
    metarange_id: str
    source_ref: str
    branch: str
    tag: str
    commit_id: str
    committer: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    merge_source: str
    username: str
    pre_run_id: str
    ref_unique_id: str
    is_trial: bool
    script_ref: str
    is_skipped: bool
    def __init__(self, event_type: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., created_us: _Optional[int] = ..., started_us: _Optional[int] = ..., ended_us: _Optional[int] = ..., updated_us: _Optional[int] = ..., passed: bool = ..., owner: _Optional[bytes] = ..., attempts: _Optional[int] = ..., metarange_id: _Optional[str] = ..., source_ref: _Optional[str] = ..., branch: _Optional[str] = ..., tag: _Optional[str] = ..., commit_id: _Optional[str] = ..., committer: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., merge_source: _Optional[str] = ..., username: _Optional[str] = ..., pre_run_id: _Optional[str] = ..., ref_unique_id: _Optional[str] = ..., is_trial: bool = ..., script_ref: _Optional[str] = ..., is_skipped: bool = ...) -> None: ...

class HookRun(_message.Message):
    __slots__ = ("action", "hook_id", "started_us", "ended_us", "passed", "skipped")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_US_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    action: str
    hook_id: str
    started_us: int
    ended_us: int
    passed: bool
    skipped: bool
    def __init__(self, action: _Optional[str] = ..., hook_id: _Optional[str] = ..., started_us: _Optional[int] = ..., ended_us: _Optional[int] = ..., passed: bool = ..., skipped: bool = ...) -> None: ...

class RunIndex(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WaitingRun(_message.Message):
    __slots__ = ("repository", "unique_id")
    REPOSITORY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    repository: str
    unique_id: str
    def __init__(self, repository: _Optional[str] = ..., unique_id: _Optional[str] = ...) -> None: ...
