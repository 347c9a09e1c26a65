from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PolicyEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POLICY_EFFECT_UNSPECIFIED: _ClassVar[PolicyEffect]
    POLICY_EFFECT_ALLOW: _ClassVar[PolicyEffect]
    POLICY_EFFECT_DENY: _ClassVar[PolicyEffect]
POLICY_EFFECT_UNSPECIFIED: PolicyEffect
POLICY_EFFECT_ALLOW: PolicyEffect
POLICY_EFFECT_DENY: PolicyEffect

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
    def __init__(self, unique_id: _Optional[str] = ..., deleting: bool = ..., created_us: _Optional[int] = ..., email: _Optional[str] = ..., friendly_name: _Optional[str] = ...) -> None: ...

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
    def __init__(self, unique_id: _Optional[str] = ..., deleting: bool = ..., created_us: _Optional[int] = ..., description: _Optional[str] = ...) -> None: ...

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
    def __init__(self, unique_id: _Optional[str] = ..., deleting: bool = ..., created_us: _Optional[int] = ..., statements: _Optional[_Iterable[_Union[PolicyStatement, _Mapping]]] = ...) -> None: ...

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

class Logout(_message.Message):
    __slots__ = ("expires_us",)
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    expires_us: int
    def __init__(self, expires_us: _Optional[int] = ...) -> None: ...

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
    def __init__(self, attempt_id: _Optional[str] = ..., user: _Optional[_Union[FirstUser, _Mapping]] = ..., replaced: _Optional[_Iterable[_Union[FirstUser, _Mapping]]] = ..., finished: bool = ...) -> None: ...

class FirstUser(_message.Message):
    __slots__ = ("user", "unique_id")
    USER_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_ID_FIELD_NUMBER: _ClassVar[int]
    user: str
    unique_id: str
    def __init__(self, user: _Optional[str] = ..., unique_id: _Optional[str] = ...) -> None: ...
