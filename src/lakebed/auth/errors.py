"""What users and permissions refuse, by what the caller does next.

LakebedError
└── AuthError
    ├── AuthenticationFailed    nobody is told what exactly was wrong
    ├── Denied                  known, but without the permission
    ├── AuthNotFound            there is no such thing                      (also a KeyError)
    │   └── UserNotFound, GroupNotFound, PolicyNotFound, CredentialNotFound
    ├── AlreadyExists           something of that name is there already
    ├── AlreadySetUp            the installation has its first administrator
    ├── AuthInvalid             the request makes no sense                  (also a ValueError)
    │   └── InvalidName, InvalidPolicy
    └── AuthTooManyTries        others were always faster; try again
"""

from typing import ClassVar

from lakebed.errors import LakebedError, NotFoundMixin

# The names say what happened, not that they are errors.
# ruff: noqa: N818


class AuthError(LakebedError):
    """Any error of users and permissions."""

    kind: ClassVar[str] = "auth"


class AuthenticationFailed(AuthError):
    """Unknown key, wrong secret, expired token, deleted user: one error, which tells none apart."""

    kind = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("error authenticating request")


class Denied(AuthError):
    """The user lacks a permission."""

    kind = "denied"

    def __init__(self, user: str, action: str, resource: str) -> None:
        super().__init__(
            f"insufficient permissions: user {user} needs the permission {action} on {resource}"
        )
        self.action = action
        self.resource = resource


class AuthNotFound(AuthError, NotFoundMixin):
    """There is no such thing."""

    kind = "auth_not_found"


class UserNotFound(AuthNotFound):
    """There is no user of this name."""

    kind = "user_not_found"

    def __init__(self, user: str) -> None:
        super().__init__(f"user not found: {user}")


class GroupNotFound(AuthNotFound):
    """There is no group of this name."""

    kind = "group_not_found"

    def __init__(self, group: str) -> None:
        super().__init__(f"group not found: {group}")


class PolicyNotFound(AuthNotFound):
    """There is no policy of this name."""

    kind = "policy_not_found"

    def __init__(self, policy: str) -> None:
        super().__init__(f"policy not found: {policy}")


class CredentialNotFound(AuthNotFound):
    """The user has no such access key."""

    kind = "credential_not_found"

    def __init__(self, access_key_id: str) -> None:
        super().__init__(f"credentials not found: {access_key_id}")


class AlreadyExists(AuthError):
    """Something of that name is there already."""

    kind = "auth_already_exists"


class AlreadySetUp(AuthError):
    """The installation has its first administrator; add others as that one."""

    kind = "already_set_up"

    def __init__(self) -> None:
        super().__init__("the installation is already set up")


class AuthInvalid(AuthError, ValueError):
    """The request makes no sense; nothing was done."""

    kind = "auth_invalid"


class InvalidName(AuthInvalid):
    """A name that a user, group, policy or access key cannot have."""

    kind = "invalid_auth_name"


class InvalidPolicy(AuthInvalid):
    """A policy that is not well formed, or asks for what is not supported."""

    kind = "invalid_policy"


class AuthTooManyTries(AuthError):
    """Others changed the same record every time; nothing was lost, try again."""

    kind = "auth_too_many_tries"

    def __init__(self, what: str, tries: int) -> None:
        super().__init__(f"{what} did not get through in {tries} tries: try again")
