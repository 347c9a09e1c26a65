"""Groups and policies of a new installation."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lakebed.auth.model import Effect, Statement
from lakebed.auth.policy.actions import ALL, Action, user_arn
from lakebed.auth.policy.rules import USER_VARIABLE

ADMINS: Final = "Admins"
"""Group with all permissions."""


def _allow(*actions: str, resource: str = ALL) -> tuple[Statement, ...]:
    return (Statement(effect=Effect.ALLOW, actions=actions, resource=resource),)


BASE_POLICIES: Final[Mapping[str, tuple[Statement, ...]]] = MappingProxyType(
    {
        "FSFullAccess": _allow("fs:*"),
        "FSReadWriteAll": _allow(
            "fs:Read*",
            "fs:List*",
            Action.WRITE_OBJECT,
            Action.DELETE_OBJECT,
            Action.CREATE_COMMIT,
            Action.CREATE_METARANGE,
            Action.CREATE_BRANCH,
            Action.DELETE_BRANCH,
            Action.REVERT_BRANCH,
            Action.CREATE_TAG,
            Action.DELETE_TAG,
        ),
        "FSReadAll": _allow("fs:Read*", "fs:List*"),
        "RepoManagementFullAccess": _allow("ci:*", "retention:*", "branches:*", Action.READ_CONFIG),
        "RepoManagementReadAll": _allow(
            "ci:Read*", "retention:Get*", "branches:Get*", Action.READ_CONFIG
        ),
        "AuthFullAccess": _allow("auth:*"),
        "AuthManageOwnCredentials": _allow(
            Action.CREATE_CREDENTIALS,
            Action.DELETE_CREDENTIALS,
            Action.LIST_CREDENTIALS,
            Action.READ_CREDENTIALS,
            resource=user_arn(USER_VARIABLE),
        ),
        "PRReadWriteAll": _allow("pr:*"),
        "CatalogReadAll": _allow("catalog:Read*", "catalog:List*", "catalog:Get*"),
        "CatalogReadWriteAll": _allow("catalog:*"),
    }
)

BASE_GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        ADMINS: (
            "FSFullAccess",
            "RepoManagementFullAccess",
            "AuthFullAccess",
            "PRReadWriteAll",
            "CatalogReadWriteAll",
        ),
        "SuperUsers": (
            "FSFullAccess",
            "RepoManagementReadAll",
            "AuthManageOwnCredentials",
            "PRReadWriteAll",
            "CatalogReadWriteAll",
        ),
        "Developers": (
            "FSReadWriteAll",
            "RepoManagementReadAll",
            "AuthManageOwnCredentials",
            "PRReadWriteAll",
            "CatalogReadWriteAll",
        ),
        "Viewers": ("FSReadAll", "AuthManageOwnCredentials", "CatalogReadAll"),
    }
)
"""The policies attached to each group."""
