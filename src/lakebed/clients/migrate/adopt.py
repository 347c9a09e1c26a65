"""Adoption: a migrated repository takes over its objects in lakeFS's namespace.

Before, the objects are foreign: garbage collection and purges skip them, because lakeFS may
reference them. See design/0018 for the protocol.
"""

from typing import Final

from lakebed.base.errors import quoted
from lakebed.block import Namespace
from lakebed.clients.migrate.errors import CannotAdopt
from lakebed.clients.migrate.rounds import MOVED_FROM
from lakebed.engine.engine import Engine
from lakebed.engine.model import MOVED_NAMESPACE, AdoptedNamespace, Repository, RepositoryID

_DATA: Final = "data"
"""The folder of objects in a lakeFS namespace."""


def adopt(engine: Engine, name: str, namespace: Namespace | None = None) -> AdoptedNamespace:
    """Let a repository take over its namespace in lakeFS, which must be off. Idempotent.

    `namespace` is needed if the migration did not record the namespace in lakeFS.

    Raises:
        CannotAdopt: The repository is not (completely) migrated, or another repository was migrated
            from the namespace, or has imported or staged an object from the namespace.
        RepositoryNotFound, NamespaceTaken, Invalid: See `Repositories.adopt`.
        CorruptRecord, MissingFile, DamagedFile, ForeignFile: The entries of another repository
            are unreadable.
        OutcomeUnknown, BlockError: Adoption may have succeeded: repeat the call.
    """
    repository = engine.repositories.get(RepositoryID(name))
    found = _namespace_of(repository, namespace)
    for other in engine.repositories.list():
        if other.id != repository.id and _is_moved_repository(other, repository, found):
            raise CannotAdopt(
                name,
                f"repository {other.id} was migrated from {found} too, and would lose its objects;"
                f" delete repository {other.id} first",
            )
    folder = found.folder(_DATA)
    if repository.adopted is None:
        _check_references(engine, repository, folder)
    return engine.repositories.adopt(repository.id, folder)


def _check_references(engine: Engine, repository: Repository, folder: Namespace) -> None:
    """Refuse a folder without references, or with references of other repositories.

    After the adoption, no repository can stage or import objects from the folder. A running import
    is not detected: the documentation says to wait for its end.
    """
    is_noted = MOVED_NAMESPACE in repository.metadata
    if not is_noted and engine.references.find(repository, folder) is None:
        raise CannotAdopt(
            repository.id,
            f"no object below {folder} is referenced: check that this was the namespace of the"
            " repository in lakeFS",
        )
    for other in engine.repositories.list():
        if other.id == repository.id:
            continue
        reference = engine.references.find(other, folder)
        if reference is not None:
            raise CannotAdopt(
                repository.id,
                f"{reference.place} of repository {other.id} references {quoted(reference.path)}"
                f" below {folder}, and would lose it; copy the objects and let the commits that"
                f" reference them expire, or delete repository {other.id}",
            )


def _namespace_of(repository: Repository, given: Namespace | None) -> Namespace:
    if MOVED_FROM not in repository.metadata:
        raise CannotAdopt(repository.id, "it was not migrated from lakeFS")
    if repository.read_only:
        raise CannotAdopt(repository.id, "it is read-only: run `lakebed migrate` with --last first")
    noted = repository.metadata.get(MOVED_NAMESPACE)
    if noted is None and given is None:
        raise CannotAdopt(
            repository.id, "its namespace in lakeFS was not recorded: pass it as --namespace"
        )
    if given is not None and noted not in {None, str(given)}:
        raise CannotAdopt(repository.id, f"it was migrated from {noted}, not from {given}")
    return Namespace.parse(noted) if noted is not None else given or repository.namespace


def _is_moved_repository(other: Repository, repository: Repository, namespace: Namespace) -> bool:
    noted, moved_from = (other.metadata.get(name) for name in (MOVED_NAMESPACE, MOVED_FROM))
    if moved_from is None:
        return False
    if noted is None:  # migrated by an older version: compare names
        return _source_name(moved_from) == _source_name(repository.metadata[MOVED_FROM])
    return Namespace.parse(noted).overlaps(namespace)


def _source_name(moved_from: str) -> str:
    """Return the repository's name or namespace in lakeFS; see `Plan.moved_from`."""
    return moved_from.rpartition(" ")[2]
