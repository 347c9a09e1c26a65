"""What users and permissions are made of: ids as types of their own, records as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, NewType, TypeVar

from lakebed.base.ids import UniqueID

ItemT_co = TypeVar("ItemT_co", covariant=True)

UserID = NewType("UserID", str)
"""The name of a user."""

GroupID = NewType("GroupID", str)
"""The name of a group."""

PolicyID = NewType("PolicyID", str)
"""The name of a policy."""

AccessKeyID = NewType("AccessKeyID", str)
"""The public half of an access key."""


class AuthPage(NamedTuple, Generic[ItemT_co]):
    """Some items of a listing, in order of their names."""

    items: tuple[ItemT_co, ...]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person or a program that makes requests."""

    id: UserID
    unique_id: UniqueID
    created_us: int
    email: str = ""
    friendly_name: str = ""

    @property
    def committer(self) -> str:
        """The name that commits show."""
        return self.email or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Users who share policies."""

    id: GroupID
    unique_id: UniqueID
    created_us: int
    description: str = ""


class Effect(Enum):
    """What a statement does with the permissions that it matches."""

    ALLOW = "allow"
    DENY = "deny"


Conditions = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Operator -> field -> values, as on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One rule of a policy; `lakebed.auth.policy.rules` says what it means."""

    effect: Effect
    actions: tuple[str, ...]
    resource: str
    """``*``, a pattern of resource names, or a JSON list of such patterns."""
    condition: Conditions = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Statements under a name, to be attached to users and groups."""

    id: PolicyID
    unique_id: UniqueID
    created_us: int
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """An access key of a user, without its secret."""

    access_key_id: AccessKeyID
    created_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCredential:
    """A new access key, with its secret, which is shown only now."""

    access_key_id: AccessKeyID
    secret_access_key: str = field(repr=False)
    created_us: int
    user_id: UserID


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """An access key and its secret, as a caller chose or sent them."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who makes a request, proved by a secret or by a token."""

    user_id: UserID
    unique_id: UniqueID
    committer: str
    access_key_id: AccessKeyID | None
    """None if a token was the proof."""
