"""Repositories, their metadata and their protection rules."""

from typing import Final

from lakebed.engine import model
from lakebed.engine.model import RepositoryID
from lakebed.lake.places import canonical_path, parse_namespace
from lakebed.server.api.pages import first_page
from lakebed.server.api.request import ApiRequest, seconds
from lakebed.server.api.routes import Need, Reply, Routes, fs
from lakebed.server.http.errors import BadRequest
from lakebed.server.sample import add_sample
from lakebed.wire import repositories as wire
from lakebed.wire.base import ForceQuery, Page

routes = Routes()

_ARN: Final = "repository/{repository}"


def wire_repository(repository: model.Repository) -> wire.Repository:
    """Return a repository as the API's struct."""
    return wire.Repository(
        id=repository.id,
        creation_date=seconds(repository.created_us),
        default_branch=repository.default_branch,
        storage_namespace=str(repository.namespace).removesuffix("/"),
        read_only=repository.read_only,
    )


@routes.add(wire.RepositoriesAPI.list, fs("ListRepositories", "*"))
def list_repositories(request: ApiRequest, query: wire.RepositoriesQuery) -> Page[wire.Repository]:
    """List the repositories."""
    found = request.services.catalog.repositories.list(prefix=query.prefix, after=query.after)
    if query.search:
        found = (repository for repository in found if query.search in repository.id)
    return first_page(found, query, wire=wire_repository, name=lambda repository: repository.id)


def _places(body: wire.RepositoryCreation) -> list[str]:
    """Return the canonical spelling of the storage namespace, for permission checks."""
    return [canonical_path(parse_namespace(body.storage_namespace))]


@routes.add(
    wire.RepositoriesAPI.create,
    (
        fs("CreateRepository", "repository/{body.name}"),
        fs("AttachStorageNamespace", "namespace/{each}", each=_places),
    ),
)
def create_repository(
    request: ApiRequest, query: wire.CreationQuery, body: wire.RepositoryCreation
) -> wire.Repository:
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
        return wire_repository(bare)
    created = repositories.create(
        body.name, place, committer=committer, default_branch=branch, read_only=body.read_only
    )
    if body.sample_data:
        add_sample(request.services.catalog, created, committer=committer)
    return wire_repository(created)


@routes.add(wire.RepositoriesAPI.get, fs("ReadRepository", _ARN))
def get_repository(request: ApiRequest, repository: RepositoryID) -> wire.Repository:
    """Return a repository."""
    return wire_repository(request.services.catalog.repositories.get(repository))


@routes.add(wire.RepositoriesAPI.delete, fs("DeleteRepository", _ARN))
def delete_repository(request: ApiRequest, repository: RepositoryID, query: ForceQuery) -> None:
    """Delete a repository, but not its objects in the storage."""
    request.services.catalog.repositories.delete(repository, force=query.force)


# Metadata


@routes.add(wire.RepositoriesAPI.metadata, fs("ReadRepository", _ARN))
def get_metadata(request: ApiRequest, repository: RepositoryID) -> dict[str, str]:
    """Return the metadata of a repository."""
    return request.services.catalog.repositories.get(repository).metadata


@routes.add(wire.RepositoriesAPI.set_metadata, fs("UpdateRepository", _ARN))
def set_metadata(
    request: ApiRequest, repository: RepositoryID, body: wire.RepositoryMetadataSet
) -> None:
    """Add or replace metadata of a repository."""
    request.services.catalog.repositories.set_metadata(repository, put=body.metadata)


@routes.add(wire.RepositoriesAPI.delete_metadata, fs("UpdateRepository", _ARN))
def delete_metadata(
    request: ApiRequest, repository: RepositoryID, body: wire.RepositoryMetadataKeys
) -> None:
    """Remove metadata of a repository."""
    request.services.catalog.repositories.set_metadata(repository, put={}, remove=body.keys)


# Protection rules

_READ_RULES: Final = Need("branches:GetBranchProtectionRules", f"arn:lakefs:fs:::{_ARN}")
_SET_RULES: Final = Need("branches:SetBranchProtectionRules", f"arn:lakefs:fs:::{_ARN}")


@routes.add(wire.RepositoriesAPI.old_protection, _READ_RULES)
@routes.add(wire.RepositoriesAPI.protection, _READ_RULES)
def get_protection(request: ApiRequest, repository: RepositoryID) -> Reply:
    """Return the protection rules of branches; the ETag identifies their version."""
    found = request.services.catalog.refs.get_protection(repository)
    rules = [
        wire.BranchProtectionRule(pattern=pattern, strict=pattern in found.strict or None)
        for pattern in found.patterns
    ]
    return Reply(body=rules, headers={"ETag": f'"{found.version}"'})


@routes.add(wire.RepositoriesAPI.set_protection, _SET_RULES)
def set_protection(
    request: ApiRequest, repository: RepositoryID, body: list[wire.BranchProtectionRule]
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


@routes.add(
    wire.RepositoriesAPI.hooks_settings, Need("ci:ReadHooksSettings", f"arn:lakefs:fs:::{_ARN}")
)
def get_hooks_settings(request: ApiRequest, repository: RepositoryID) -> wire.HooksSettings:
    """Return the settings of hooks."""
    return wire.HooksSettings(
        strict=request.services.catalog.repositories.get(repository).strict_hooks
    )


@routes.add(
    wire.RepositoriesAPI.set_hooks_settings, Need("ci:SetHooksSettings", f"arn:lakefs:fs:::{_ARN}")
)
def set_hooks_settings(
    request: ApiRequest, repository: RepositoryID, body: wire.HooksSettings
) -> None:
    """Change the settings of hooks."""
    request.services.catalog.repositories.set_strict_hooks(repository, strict=body.strict)


# Deprecated paths of the same operations


@routes.add(wire.RepositoriesAPI.may_protect, _SET_RULES)
def may_protect(request: ApiRequest, repository: RepositoryID) -> None:
    """Check whether the caller may change the protection rules."""
    request.services.catalog.repositories.get(repository)


@routes.add(wire.RepositoriesAPI.add_protection, _SET_RULES)
def add_protection(
    request: ApiRequest, repository: RepositoryID, body: wire.BranchProtectionRule
) -> None:
    """Add a protection rule for branches."""
    request.services.catalog.refs.add_protection(repository, body.pattern, strict=body.strict)


@routes.add(wire.RepositoriesAPI.remove_protection, _SET_RULES)
def remove_protection(
    request: ApiRequest, repository: RepositoryID, body: wire.BranchProtectionRule
) -> None:
    """Remove a protection rule for branches."""
    request.services.catalog.refs.remove_protection(repository, body.pattern)
