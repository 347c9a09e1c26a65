"""Repositories, their metadata and their protection rules."""

from typing import Final

from lakebed.engine import model
from lakebed.engine.model import RepositoryID
from lakebed.lake.places import parse_namespace, spelling_of
from lakebed.server.api.pages import first_page
from lakebed.server.api.request import ApiRequest, seconds
from lakebed.server.api.routes import Need, Reply, Routes, fs
from lakebed.server.http.errors import BadRequest
from lakebed.server.sample import add_sample
from lakebed.wire.base import ForceQuery, Page
from lakebed.wire.repositories import (
    BranchProtectionRule,
    CreationQuery,
    HooksSettings,
    RepositoriesAPI,
    RepositoriesQuery,
    Repository,
    RepositoryCreation,
    RepositoryMetadataKeys,
    RepositoryMetadataSet,
)

routes = Routes()

_ARN: Final = "repository/{repository}"


def wire(repository: model.Repository) -> Repository:
    """Return a repository as the API's struct."""
    return Repository(
        id=repository.id,
        creation_date=seconds(repository.created_us),
        default_branch=repository.default_branch,
        storage_namespace=str(repository.namespace).removesuffix("/"),
        read_only=repository.read_only,
    )


@routes.add(RepositoriesAPI.list, fs("ListRepositories", "*"))
def list_repositories(request: ApiRequest, query: RepositoriesQuery) -> Page[Repository]:
    """List the repositories."""
    found = request.services.catalog.repositories.list(prefix=query.prefix, after=query.after)
    if query.search:
        found = (repository for repository in found if query.search in repository.id)
    return first_page(found, query, wire=wire, name=lambda repository: repository.id)


def _places(body: RepositoryCreation) -> list[str]:
    """Return the canonical spelling of the storage namespace, for permission checks."""
    return [spelling_of(parse_namespace(body.storage_namespace))]


@routes.add(
    RepositoriesAPI.create,
    (
        fs("CreateRepository", "repository/{body.name}"),
        fs("AttachStorageNamespace", "namespace/{each}", each=_places),
    ),
)
def create_repository(
    request: ApiRequest, query: CreationQuery, body: RepositoryCreation
) -> Repository:
    """Create a repository."""
    if body.storage_id:
        raise BadRequest(
            f"unknown storage_id '{body.storage_id}': this server has one storage, without an id;"
            " omit storage_id"
        )
    repositories, committer = request.services.catalog.repositories, request.identity.committer
    place, branch = parse_namespace(body.storage_namespace), body.default_branch
    if query.bare:
        bare = repositories.create_bare(
            body.name, place, default_branch=branch, read_only=body.read_only
        )
        return wire(bare)
    created = repositories.create(
        body.name, place, committer=committer, default_branch=branch, read_only=body.read_only
    )
    if body.sample_data:
        add_sample(request.services.catalog, created, committer=committer)
    return wire(created)


@routes.add(RepositoriesAPI.get, fs("ReadRepository", _ARN))
def get_repository(request: ApiRequest, repository: RepositoryID) -> Repository:
    """Return a repository."""
    return wire(request.services.catalog.repositories.get(repository))


@routes.add(RepositoriesAPI.delete, fs("DeleteRepository", _ARN))
def delete_repository(request: ApiRequest, repository: RepositoryID, query: ForceQuery) -> None:
    """Delete a repository, but not its objects in the storage."""
    request.services.catalog.repositories.delete(repository, force=query.force)


# Metadata


@routes.add(RepositoriesAPI.metadata, fs("ReadRepository", _ARN))
def get_metadata(request: ApiRequest, repository: RepositoryID) -> dict[str, str]:
    """Return the metadata of a repository."""
    return request.services.catalog.repositories.get(repository).metadata


@routes.add(RepositoriesAPI.set_metadata, fs("UpdateRepository", _ARN))
def set_metadata(
    request: ApiRequest, repository: RepositoryID, body: RepositoryMetadataSet
) -> None:
    """Add or replace metadata of a repository."""
    request.services.catalog.repositories.set_metadata(repository, put=body.metadata)


@routes.add(RepositoriesAPI.delete_metadata, fs("UpdateRepository", _ARN))
def delete_metadata(
    request: ApiRequest, repository: RepositoryID, body: RepositoryMetadataKeys
) -> None:
    """Remove metadata of a repository."""
    request.services.catalog.repositories.set_metadata(repository, put={}, remove=body.keys)


# Protection rules

_READ_RULES: Final = Need("branches:GetBranchProtectionRules", f"arn:lakefs:fs:::{_ARN}")
_SET_RULES: Final = Need("branches:SetBranchProtectionRules", f"arn:lakefs:fs:::{_ARN}")


@routes.add(RepositoriesAPI.old_protection, _READ_RULES)
@routes.add(RepositoriesAPI.protection, _READ_RULES)
def get_protection(request: ApiRequest, repository: RepositoryID) -> Reply:
    """Return the protection rules of branches; the ETag identifies their version."""
    found = request.services.catalog.refs.get_protection(repository)
    rules = [
        BranchProtectionRule(pattern=pattern, strict=pattern in found.strict or None)
        for pattern in found.patterns
    ]
    return Reply(body=rules, headers={"ETag": f'"{found.version}"'})


@routes.add(RepositoriesAPI.set_protection, _SET_RULES)
def set_protection(
    request: ApiRequest, repository: RepositoryID, body: list[BranchProtectionRule]
) -> None:
    """Replace the protection rules of branches, optionally only if unchanged (If-Match)."""
    expected: str | None = request.environ.get("HTTP_IF_MATCH")
    request.services.catalog.refs.set_protection(
        repository,
        [rule.pattern for rule in body],
        strict={rule.pattern: rule.strict for rule in body if rule.strict is not None},
        version=None if expected is None else expected.strip('"'),
    )


# Hooks


@routes.add(RepositoriesAPI.hooks_settings, Need("ci:ReadHooksSettings", f"arn:lakefs:fs:::{_ARN}"))
def get_hooks_settings(request: ApiRequest, repository: RepositoryID) -> HooksSettings:
    """Return the settings of hooks."""
    return HooksSettings(strict=request.services.catalog.repositories.get(repository).strict_hooks)


@routes.add(
    RepositoriesAPI.set_hooks_settings, Need("ci:SetHooksSettings", f"arn:lakefs:fs:::{_ARN}")
)
def set_hooks_settings(request: ApiRequest, repository: RepositoryID, body: HooksSettings) -> None:
    """Change the settings of hooks."""
    request.services.catalog.repositories.set_strict_hooks(repository, strict=body.strict)


# Deprecated paths of the same operations


@routes.add(RepositoriesAPI.may_protect, _SET_RULES)
def may_protect(request: ApiRequest, repository: RepositoryID) -> None:
    """Check whether the caller may change the protection rules."""
    request.services.catalog.repositories.get(repository)


@routes.add(RepositoriesAPI.add_protection, _SET_RULES)
def add_protection(
    request: ApiRequest, repository: RepositoryID, body: BranchProtectionRule
) -> None:
    """Add a protection rule for branches."""
    request.services.catalog.refs.add_protection(repository, body.pattern, strict=body.strict)


@routes.add(RepositoriesAPI.remove_protection, _SET_RULES)
def remove_protection(
    request: ApiRequest, repository: RepositoryID, body: BranchProtectionRule
) -> None:
    """Remove a protection rule for branches."""
    request.services.catalog.refs.remove_protection(repository, body.pattern)
