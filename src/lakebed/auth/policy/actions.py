"""Names of actions and resources in policies."""

from enum import StrEnum
from typing import Final


class Action(StrEnum):
    """Every action for which a request may need permission."""

    READ_REPOSITORY = "fs:ReadRepository"
    CREATE_REPOSITORY = "fs:CreateRepository"
    UPDATE_REPOSITORY = "fs:UpdateRepository"
    DELETE_REPOSITORY = "fs:DeleteRepository"
    LIST_REPOSITORIES = "fs:ListRepositories"
    ATTACH_STORAGE_NAMESPACE = "fs:AttachStorageNamespace"
    IMPORT_FROM_STORAGE = "fs:ImportFromStorage"
    IMPORT_CANCEL = "fs:ImportCancel"
    READ_OBJECT = "fs:ReadObject"
    WRITE_OBJECT = "fs:WriteObject"
    DELETE_OBJECT = "fs:DeleteObject"
    LIST_OBJECTS = "fs:ListObjects"
    CREATE_COMMIT = "fs:CreateCommit"
    CREATE_METARANGE = "fs:CreateMetaRange"
    READ_COMMIT = "fs:ReadCommit"
    LIST_COMMITS = "fs:ListCommits"
    CREATE_BRANCH = "fs:CreateBranch"
    DELETE_BRANCH = "fs:DeleteBranch"
    READ_BRANCH = "fs:ReadBranch"
    REVERT_BRANCH = "fs:RevertBranch"
    LIST_BRANCHES = "fs:ListBranches"
    CREATE_TAG = "fs:CreateTag"
    DELETE_TAG = "fs:DeleteTag"
    READ_TAG = "fs:ReadTag"
    LIST_TAGS = "fs:ListTags"
    READ_CONFIG = "fs:ReadConfig"

    GET_BRANCH_PROTECTION_RULES = "branches:GetBranchProtectionRules"
    SET_BRANCH_PROTECTION_RULES = "branches:SetBranchProtectionRules"

    PREPARE_GC_COMMITS = "retention:PrepareGarbageCollectionCommits"
    PREPARE_GC_UNCOMMITTED = "retention:PrepareGarbageCollectionUncommitted"
    GET_GC_RULES = "retention:GetGarbageCollectionRules"
    SET_GC_RULES = "retention:SetGarbageCollectionRules"
    PURGE_OBJECTS = "retention:PurgeObjects"
    PURGE_REPOSITORY = "retention:PurgeRepository"

    READ_ACTION = "ci:ReadAction"
    SKIP_HOOKS = "ci:SkipHooks"
    GET_HOOKS_SETTINGS = "ci:ReadHooksSettings"
    SET_HOOKS_SETTINGS = "ci:SetHooksSettings"

    LIST_PULL_REQUESTS = "pr:ListPullRequests"
    READ_PULL_REQUEST = "pr:ReadPullRequest"
    WRITE_PULL_REQUEST = "pr:WritePullRequest"

    READ_USER = "auth:ReadUser"
    CREATE_USER = "auth:CreateUser"
    DELETE_USER = "auth:DeleteUser"
    LIST_USERS = "auth:ListUsers"
    READ_GROUP = "auth:ReadGroup"
    CREATE_GROUP = "auth:CreateGroup"
    DELETE_GROUP = "auth:DeleteGroup"
    LIST_GROUPS = "auth:ListGroups"
    ADD_GROUP_MEMBER = "auth:AddGroupMember"
    REMOVE_GROUP_MEMBER = "auth:RemoveGroupMember"
    READ_POLICY = "auth:ReadPolicy"
    CREATE_POLICY = "auth:CreatePolicy"
    UPDATE_POLICY = "auth:UpdatePolicy"
    DELETE_POLICY = "auth:DeletePolicy"
    LIST_POLICIES = "auth:ListPolicies"
    ATTACH_POLICY = "auth:AttachPolicy"
    DETACH_POLICY = "auth:DetachPolicy"
    READ_CREDENTIALS = "auth:ReadCredentials"
    CREATE_CREDENTIALS = "auth:CreateCredentials"
    DELETE_CREDENTIALS = "auth:DeleteCredentials"
    LIST_CREDENTIALS = "auth:ListCredentials"


SERVICES: Final = frozenset({"auth", "branches", "catalog", "ci", "fs", "pr", "retention"})
"""Services with actions, including services of lakeFS not used here."""


ALL: Final = "*"
"""Resource of actions on no single resource, such as listing repositories."""


def repository_arn(repository: str) -> str:
    """Return the resource name of a repository."""
    return f"arn:lakefs:fs:::repository/{repository}"


def object_arn(repository: str, path: str) -> str:
    """Return the resource name of an object of a repository, on any branch."""
    return f"arn:lakefs:fs:::repository/{repository}/object/{path}"


def namespace_arn(namespace: str) -> str:
    """Return the resource name of a storage namespace."""
    return f"arn:lakefs:fs:::namespace/{namespace}"


def user_arn(user: str) -> str:
    """Return the resource name of a user."""
    return f"arn:lakefs:auth:::user/{user}"
