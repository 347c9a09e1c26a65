"""Value types of users and permissions: ids as separate types, records as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, NewType, TypeVar

from lakebed.base.runtime import UniqueID

ItemT_co = TypeVar("ItemT_co", covariant=True)

UserID = NewType("UserID", str)
"""Name of a user."""

GroupID = NewType("GroupID", str)
"""Name of a group."""

PolicyID = NewType("PolicyID", str)
"""Name of a policy."""

AccessKeyID = NewType("AccessKeyID", str)
"""Public half of an access key."""


class AuthPage(NamedTuple, Generic[ItemT_co]):
    """A page of a listing, ordered by name."""

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
        """Committer name in commits."""
        return self.email or self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Users who share policies."""

    id: GroupID
    unique_id: UniqueID
    created_us: int
    description: str = ""


class Effect(Enum):
    """Effect of a statement on the matching permissions."""

    ALLOW = "allow"
    DENY = "deny"


Conditions = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Operator -> field -> values, as on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One rule of a policy; `lakebed.auth.policy.rules` defines its meaning."""

    effect: Effect
    actions: tuple[str, ...]
    resource: str
    """``*``, a pattern of resource names, or a JSON list of such patterns."""
    condition: Conditions = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Named statements that can be attached to users and groups."""

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
    """A new access key with its secret, which is shown only once."""

    access_key_id: AccessKeyID
    secret_access_key: str = field(repr=False)
    created_us: int
    user_id: UserID


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """An access key and its secret, chosen or sent by a client."""

    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Authenticated user of a request."""

    user_id: UserID
    unique_id: UniqueID
    committer: str
    access_key_id: AccessKeyID | None
    """None if a token was used."""
