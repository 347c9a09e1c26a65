"""Errors of users and permissions, by the caller's next step.

LakebedError
└── AuthError
    ├── AuthenticationFailed    unknown; the client is not told the reason
    ├── Denied                  authenticated, but without the permission
    ├── AuthNotFound            does not exist                              (also a KeyError)
    │   └── UserNotFound, GroupNotFound, PolicyNotFound, CredentialNotFound
    ├── AlreadyExists           the name is taken
    ├── AlreadySetUp            the installation has its first administrator
    ├── AuthInvalid             the request is not valid                    (also a ValueError)
    │   └── InvalidName, InvalidPolicy
    ├── TooManyLogins           too many wrong secrets; wait
    └── AuthTooManyTries        concurrent changes won every time; retry
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError, NotFoundMixin


class AuthError(LakebedError):
    """Base class of errors of users and permissions."""

    kind: ClassVar[str] = "auth"


class AuthenticationFailed(AuthError):
    """Unknown key, wrong secret, expired token, deleted user: one error for all, on purpose."""

    kind = "authentication_failed"

    def __init__(self, reason: str = "") -> None:
        super().__init__("authentication failed: check the access key id and the secret access key")
        self.reason = reason
        """The reason, only for the log."""


class Denied(AuthError):
    """The user lacks a permission."""

    kind = "denied"

    def __init__(self, user: str, action: str, resource: str) -> None:
        super().__init__(
            f"insufficient permissions: user {user} needs the permission {action} on {resource};"
            " ask an administrator for a policy that allows it"
        )
        self.action = action
        self.resource = resource


class AuthNotFound(AuthError, NotFoundMixin):
    """A user, group, policy or access key does not exist."""

    kind = "auth_not_found"
    noun: ClassVar[str] = "entity"

    def __init__(self, name: str) -> None:
        super().__init__(f"{self.noun} not found: {name}")


class UserNotFound(AuthNotFound):
    """The user does not exist."""

    kind = "user_not_found"
    noun = "user"


class GroupNotFound(AuthNotFound):
    """The group does not exist."""

    kind = "group_not_found"
    noun = "group"


class PolicyNotFound(AuthNotFound):
    """The policy does not exist."""

    kind = "policy_not_found"
    noun = "policy"


class CredentialNotFound(AuthNotFound):
    """The user has no such access key."""

    kind = "credential_not_found"
    noun = "credentials"


class AlreadyExists(AuthError):
    """The name is taken."""

    kind = "auth_already_exists"


class AlreadySetUp(AuthError):
    """The installation already has its first administrator, who can add others."""

    kind = "already_set_up"

    def __init__(self) -> None:
        super().__init__("the installation already has an administrator: nothing was changed")


class AuthInvalid(AuthError, ValueError):
    """The request is not valid; nothing was done."""

    kind = "auth_invalid"


class InvalidName(AuthInvalid):
    """A name not allowed for users, groups, policies or access keys."""

    kind = "invalid_auth_name"


class InvalidPolicy(AuthInvalid):
    """A malformed policy, or a policy with unsupported features."""

    kind = "invalid_policy"


class TooManyLogins(AuthError):
    """Too many wrong secrets for an access key from one address; the secret was not checked."""

    kind = "too_many_logins"

    def __init__(self, retry_seconds: int) -> None:
        super().__init__(
            "too many failed logins with this access key from this address: try again in"
            f" {retry_seconds} seconds"
        )
        self.retry_seconds = retry_seconds


class AuthTooManyTries(AuthError):
    """Concurrent changes of the same record won every time. Nothing was lost; retry."""

    kind = "auth_too_many_tries"

    def __init__(self, operation: str, tries: int) -> None:
        super().__init__(
            f"{operation} failed {tries} times because of concurrent changes: try again"
        )
