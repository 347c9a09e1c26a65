"""The names of what a permission allows, as policies spell them, and of what it allows it on."""

from enum import StrEnum
from typing import Final


class Action(StrEnum):
    """Everything that a request may need the permission for."""

    READ_REPOSITORY = "fs:ReadRepository"
    CREATE_REPOSITORY = "fs:CreateRepository"
    UPDATE_REPOSITORY = "fs:UpdateRepository"
    DELETE_REPOSITORY = "fs:DeleteRepository"
    LIST_REPOSITORIES = "fs:ListRepositories"
    ATTACH_STORAGE_NAMESPACE = "fs:AttachStorageNamespace"
    IMPORT_FROM_STORAGE = "fs:ImportFromStorage"
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

    READ_ACTION = "ci:ReadAction"

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


ALL: Final = "*"
"""The resource of what concerns nothing in particular, as listing repositories."""


def repository_arn(repository: str) -> str:
    """A repository."""
    return f"arn:lakefs:fs:::repository/{repository}"


def object_arn(repository: str, path: str) -> str:
    """An object of a repository, on whatever branch."""
    return f"arn:lakefs:fs:::repository/{repository}/object/{path}"


def branch_arn(repository: str, branch: str) -> str:
    """A branch of a repository."""
    return f"arn:lakefs:fs:::repository/{repository}/branch/{branch}"


def tag_arn(repository: str, tag: str) -> str:
    """A tag of a repository."""
    return f"arn:lakefs:fs:::repository/{repository}/tag/{tag}"


def namespace_arn(namespace: str) -> str:
    """A storage namespace."""
    return f"arn:lakefs:fs:::namespace/{namespace}"


def user_arn(user: str) -> str:
    """A user."""
    return f"arn:lakefs:auth:::user/{user}"


def group_arn(group: str) -> str:
    """A group."""
    return f"arn:lakefs:auth:::group/{group}"


def policy_arn(policy: str) -> str:
    """A policy."""
    return f"arn:lakefs:auth:::policy/{policy}"
