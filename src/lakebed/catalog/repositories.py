"""Repositories: creating, finding, listing and deleting them."""

from collections.abc import Collection, Iterator, Mapping

from lakebed.catalog.places import parse_namespace
from lakebed.engine.engine import Engine
from lakebed.engine.model import Repository, RepositoryID
from lakebed.tracing import traced


class Repositories:
    """The repositories of this installation."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @traced("catalog.create_repository")
    def create(
        self,
        name: str,
        namespace: str,
        *,
        committer: str,
        default_branch: str = "main",
        read_only: bool = False,
        bare: bool = False,
    ) -> Repository:
        """Create a repository.

        Args:
            name: Its name.
            namespace: The URL below which its data goes.
            committer: The author of its first commit.
            default_branch: Its first branch.
            read_only: Whether nothing can be written to it.
            bare: Whether to leave out the first commit and the branch: for a dump to be restored.

        Raises:
            InvalidAddress: The namespace is not a URL of a storage.
            InvalidName: The repository or the branch cannot have this name.
            Invalid: The storage of this installation has no such namespace.
            NotUnique: There is a repository of this name, or one is being created.
            NamespaceTaken: Another repository keeps its data there, above or below.
            GivenUp: It took so long that others ended it.
            BlockError: The storage refused; nothing was made.
            OutcomeUnknown: It may have been made; if not, nothing of it stays.
        """
        repositories = self._engine.repositories
        place = parse_namespace(namespace)
        if bare:
            return repositories.create_bare(
                name, place, default_branch=default_branch, read_only=read_only
            )
        return repositories.create(
            name, place, committer=committer, default_branch=default_branch, read_only=read_only
        )

    @traced("catalog.get_repository")
    def get(self, repository_id: RepositoryID) -> Repository:
        """Return a repository.

        Raises:
            RepositoryNotFound: There is none, or it is still being created.
            Deleting: It is being deleted.
        """
        return self._engine.repositories.get(repository_id)

    def list(self, *, prefix: str = "", after: str = "") -> Iterator[Repository]:
        """Iterate over the repositories whose names begin with `prefix`, in order, past `after`."""
        return self._engine.repositories.list(prefix=prefix, after=after)

    def list_readable(self) -> Iterator[Repository]:
        """Iterate over the repositories whose records are not damaged, to clean up there."""
        return self._engine.repositories.list_readable()

    @traced("catalog.delete_repository")
    def delete(self, repository_id: RepositoryID, *, force: bool = False) -> None:
        """Delete a repository; its objects stay in the storage.

        Raises:
            RepositoryNotFound: There is none.
            ReadOnly: It is read-only, and `force` is not set.
            OutcomeUnknown: It may have been deleted.
        """
        self._engine.repositories.delete(repository_id, force=force)

    @traced("catalog.set_strict_hooks")
    def set_strict_hooks(self, repository_id: RepositoryID, *, strict: bool) -> None:
        """Let the hooks of branches' heads judge what takes their place, or not.

        Raises:
            RepositoryNotFound: There is none.
            TooManyTries, OutcomeUnknown: It may have been done.
        """
        self._engine.repositories.set_strict_hooks(repository_id, strict=strict)

    @traced("catalog.set_repository_metadata")
    def set_metadata(
        self,
        repository_id: RepositoryID,
        *,
        put: Mapping[str, str],
        remove: Collection[str] = (),
    ) -> None:
        """Add metadata to a repository or replace some, and remove some.

        Raises:
            RepositoryNotFound: There is none.
            Invalid: The repository would have too much metadata.
            TooManyTries, OutcomeUnknown: It may have been done.
        """
        self._engine.repositories.set_metadata(repository_id, put=put, remove=remove)
