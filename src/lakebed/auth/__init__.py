"""Users, groups, policies and access keys, and authorization of requests.

Imports `lakebed.kv` and `lakebed.base`; nothing of repositories or HTTP. Public: the names below.
"""

from lakebed.auth.cache import AuthCacheSettings
from lakebed.auth.errors import (
    AlreadyExists,
    AlreadySetUp,
    AuthenticationFailed,
    AuthError,
    AuthInvalid,
    AuthNotFound,
    AuthTooManyTries,
    CredentialNotFound,
    Denied,
    GroupNotFound,
    InvalidName,
    InvalidPolicy,
    PolicyNotFound,
    TooManyLogins,
    UserNotFound,
)
from lakebed.auth.model import (
    AccessKeyID,
    AuthPage,
    Credential,
    Effect,
    Group,
    GroupID,
    Identity,
    KeyPair,
    NewCredential,
    Policy,
    PolicyID,
    Statement,
    User,
    UserID,
)
from lakebed.auth.policy.actions import Action
from lakebed.auth.policy.rules import Context, Permission
from lakebed.auth.secrets import ServerKeys
from lakebed.auth.service import AuthService
from lakebed.auth.tokens import Token
from lakebed.base.runtime import UniqueID

__all__ = [
    "AccessKeyID",
    "Action",
    "AlreadyExists",
    "AlreadySetUp",
    "AuthCacheSettings",
    "AuthError",
    "AuthInvalid",
    "AuthNotFound",
    "AuthPage",
    "AuthService",
    "AuthTooManyTries",
    "AuthenticationFailed",
    "Context",
    "Credential",
    "CredentialNotFound",
    "Denied",
    "Effect",
    "Group",
    "GroupID",
    "GroupNotFound",
    "Identity",
    "InvalidName",
    "InvalidPolicy",
    "KeyPair",
    "NewCredential",
    "Permission",
    "Policy",
    "PolicyID",
    "PolicyNotFound",
    "ServerKeys",
    "Statement",
    "Token",
    "TooManyLogins",
    "UniqueID",
    "User",
    "UserID",
    "UserNotFound",
]
