"""Programs catch these errors by class, and import these names: both are part of the interface."""

import pickle

import lakebed.auth
from lakebed.auth import (
    AuthenticationFailed,
    AuthInvalid,
    AuthNotFound,
    Denied,
    InvalidName,
    InvalidPolicy,
    UserNotFound,
)


def test_the_public_names() -> None:
    assert sorted(lakebed.auth.__all__) == [
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
    for name in lakebed.auth.__all__:
        assert hasattr(lakebed.auth, name)


def test_the_tree_of_errors() -> None:
    assert issubclass(AuthNotFound, KeyError)
    assert issubclass(UserNotFound, AuthNotFound)
    assert issubclass(AuthInvalid, ValueError)
    assert issubclass(InvalidName, AuthInvalid)
    assert issubclass(InvalidPolicy, AuthInvalid)
    assert not issubclass(Denied, AuthenticationFailed)
    assert str(UserNotFound("jane")) == "user not found: jane"
    denied = pickle.loads(pickle.dumps(Denied("jane", "fs:ReadObject", "*")))
    assert (denied.action, denied.resource) == ("fs:ReadObject", "*")
