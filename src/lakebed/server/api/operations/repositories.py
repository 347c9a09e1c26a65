"""Repositories, their metadata and their protection rules."""

import re
from typing import Final

from lakebed.block import Namespace
from lakebed.engine import model
from lakebed.engine.errors import PreconditionFailed
from lakebed.engine.model import RepositoryID
from lakebed.kv import ABSENT, Predicate, Version
from lakebed.server.api.call import Call, seconds
from lakebed.server.api.models import (
    BranchProtectionRule,
    Page,
    PageQuery,
    Repository,
    RepositoryCreation,
    RepositoryMetadataKeys,
    RepositoryMetadataSet,
    Wire,
    first_page,
)
from lakebed.server.api.routes import Need, Reply, Routes, fs
from lakebed.server.sample import add_sample

routes = Routes("repositories")

_ONE: Final = "/repositories/{repository}"
_ARN: Final = "repository/{repository}"
_VERSION: Final = re.compile("[0-9a-f]{32}")
_NO_RULES: Final = "none"
"""The mark of rules that were never set."""


class RepositoriesQuery(PageQuery):
    search: str = ""


class CreationQuery(Wire):
    bare: bool = False


class ForceQuery(Wire):
    force: bool = False


def wire(repository: model.Repository) -> Repository:
    """Return a repository in the words of the API."""
    return Repository(
        id=repository.id,
        creation_date=seconds(repository.created_us),
        default_branch=repository.default_branch,
        storage_namespace=str(repository.namespace).removesuffix("/"),
        read_only=repository.read_only,
    )


@routes.add("listRepositories", "GET", "/repositories", fs("ListRepositories", "*"))
def list_repositories(call: Call, query: RepositoriesQuery) -> Page[Repository]:
    """List the repositories."""
    found = call.services.engine.repositories.list(prefix=query.prefix, after=query.after)
    if query.search:
        found = (repository for repository in found if query.search in repository.id)
    return first_page(found, query, wire=wire, name=lambda repository: repository.id)


@routes.add(
    "createRepository",
    "POST",
    "/repositories",
    (
        fs("CreateRepository", "repository/{body.name}"),
        fs("AttachStorageNamespace", "namespace/{body.storage_namespace}"),
    ),
    status=201,
    statuses=(409,),
)
def create_repository(call: Call, query: CreationQuery, body: RepositoryCreation) -> Repository:
    """Make a repository."""
    repositories = call.services.engine.repositories
    namespace = Namespace.parse(body.storage_namespace)
    if query.bare:
        return wire(
            repositories.create_bare(
                body.name,
                namespace,
                default_branch=body.default_branch,
                read_only=body.read_only,
            )
        )
    created = repositories.create(
        body.name,
        namespace,
        committer=call.identity.committer,
        default_branch=body.default_branch,
        read_only=body.read_only,
    )
    if body.sample_data:
        add_sample(call.services, created, committer=call.identity.committer)
    return wire(created)


@routes.add("getRepository", "GET", _ONE, fs("ReadRepository", _ARN))
def get_repository(call: Call, repository: str) -> Repository:
    """Return a repository."""
    return wire(call.services.engine.repositories.get(RepositoryID(repository)))


@routes.add(
    "deleteRepository",
    "DELETE",
    _ONE,
    fs("DeleteRepository", _ARN),
    status=204,
    statuses=(403,),
)
def delete_repository(call: Call, repository: str, query: ForceQuery) -> None:
    """Delete a repository; its objects stay in the storage."""
    call.services.engine.repositories.delete(RepositoryID(repository), force=query.force)


# Metadata


@routes.add("getRepositoryMetadata", "GET", f"{_ONE}/metadata", fs("ReadRepository", _ARN))
def get_metadata(call: Call, repository: str) -> dict[str, str]:
    """Return the metadata of a repository."""
    return call.services.engine.repositories.get(RepositoryID(repository)).metadata


@routes.add(
    "setRepositoryMetadata", "POST", f"{_ONE}/metadata", fs("UpdateRepository", _ARN), status=204
)
def set_metadata(call: Call, repository: str, body: RepositoryMetadataSet) -> None:
    """Add metadata to a repository, or replace some."""
    call.services.engine.repositories.set_metadata(RepositoryID(repository), put=body.metadata)


@routes.add(
    "deleteRepositoryMetadata",
    "DELETE",
    f"{_ONE}/metadata",
    fs("UpdateRepository", _ARN),
    status=204,
)
def delete_metadata(call: Call, repository: str, body: RepositoryMetadataKeys) -> None:
    """Remove some metadata of a repository."""
    call.services.engine.repositories.set_metadata(
        RepositoryID(repository), put={}, remove=body.keys
    )


# Protection rules

_READ_RULES: Final = Need("branches:GetBranchProtectionRules", f"arn:lakefs:fs:::{_ARN}")
_SET_RULES: Final = Need("branches:SetBranchProtectionRules", f"arn:lakefs:fs:::{_ARN}")


def _etag(predicate: Predicate) -> str:
    return predicate.hex() if isinstance(predicate, bytes) else _NO_RULES


def _predicate(etag: str) -> Predicate:
    mark = etag.strip('"')
    if mark == _NO_RULES:
        return ABSENT
    if not _VERSION.fullmatch(mark):
        raise PreconditionFailed(b"branch_protection", f"the rules never had the ETag {etag}")
    return Version(bytes.fromhex(mark))


def _get_rules(call: Call, repository: str) -> Reply:
    engine = call.services.engine
    found = engine.protection.get(engine.repositories.get(RepositoryID(repository)))
    rules = [BranchProtectionRule(pattern=pattern) for pattern in found.patterns]
    return Reply(body=rules, headers={"ETag": f'"{_etag(found.predicate)}"'})


@routes.add(
    "getBranchProtectionRules",
    "GET",
    f"{_ONE}/settings/branch_protection",
    (_READ_RULES,),
    answer=list[BranchProtectionRule],
)
def get_protection(call: Call, repository: str) -> Reply:
    """Return the patterns of protected branches; the ETag stands for this set of rules."""
    return _get_rules(call, repository)


@routes.add(
    "setBranchProtectionRules",
    "PUT",
    f"{_ONE}/settings/branch_protection",
    (_SET_RULES,),
    status=204,
    statuses=(412,),
    headers=("If-Match",),
)
def set_protection(call: Call, repository: str, body: list[BranchProtectionRule]) -> None:
    """Replace the patterns of protected branches, perhaps only if nobody else did (If-Match)."""
    engine = call.services.engine
    expected = call.header("If-Match")
    engine.protection.set(
        engine.repositories.get(RepositoryID(repository)),
        [rule.pattern for rule in body],
        predicate=None if expected is None else _predicate(expected),
    )


# The same in the words of older clients


@routes.add(
    "internalGetBranchProtectionRules",
    "GET",
    f"{_ONE}/branch_protection",
    (_READ_RULES,),
    answer=list[BranchProtectionRule],
)
def old_get_protection(call: Call, repository: str) -> Reply:
    """Return the patterns of protected branches."""
    return _get_rules(call, repository)


@routes.add(
    "createBranchProtectionRulePreflight",
    "GET",
    f"{_ONE}/branch_protection/set_allowed",
    (_SET_RULES,),
    status=204,
)
def may_protect(call: Call, repository: str) -> None:
    """Say whether the caller may change the protection rules."""
    call.services.engine.repositories.get(RepositoryID(repository))


@routes.add(
    "internalCreateBranchProtectionRule",
    "POST",
    f"{_ONE}/branch_protection",
    (_SET_RULES,),
    status=204,
    statuses=(409,),
)
def add_protection(call: Call, repository: str, body: BranchProtectionRule) -> None:
    """Add a pattern of protected branches."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    before = engine.protection.get(found)
    engine.protection.set(found, [*before.patterns, body.pattern], predicate=before.predicate)


@routes.add(
    "internalDeleteBranchProtectionRule",
    "DELETE",
    f"{_ONE}/branch_protection",
    (_SET_RULES,),
    status=204,
    statuses=(409,),
)
def remove_protection(call: Call, repository: str, body: BranchProtectionRule) -> None:
    """Remove a pattern of protected branches."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    before = engine.protection.get(found)
    kept = [pattern for pattern in before.patterns if pattern != body.pattern]
    engine.protection.set(found, kept, predicate=before.predicate)
