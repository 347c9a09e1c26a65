"""A lakeFS that keeps its refs in PostgreSQL, as it did before its key-value store.

Rows that cannot be read are left out and reported, each by its table and its name.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from lakebed.errors import MissingExtraError
from lakebed.migrate.errors import SourceRefused
from lakebed.migrate.sources import SourceBranch, SourceCommit, SourceTag

if TYPE_CHECKING:
    pass

_MICROSECONDS: Final = 1_000_000
_FIRST_VERSION: Final = 0


class SqlRefs:
    """The refs of one repository, from the tables of lakeFS."""

    def __init__(self, dsn: str, repository: str) -> None:
        """Connect, in a transaction that sees one moment and changes nothing.

        Raises:
            SourceRefused: The database cannot be reached, or has no such repository.
        """
        try:
            import psycopg  # noqa: PLC0415 - an extra
            from psycopg.rows import dict_row  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("reading PostgreSQL", "postgres") from None
        self._repository = repository
        self.damaged: list[str] = []
        """Rows that could not be read."""
        try:
            self._connection: psycopg.Connection[dict[str, Any]] = psycopg.connect(
                dsn, row_factory=dict_row
            )
            self._connection.read_only = True
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            found = list(self._rows("graveler_repositories", key="id"))
        except psycopg.Error as error:
            raise SourceRefused(f"the database of lakeFS cannot be read: {error}") from error
        if not found:
            raise SourceRefused(f"the database has no repository {repository}")
        self._info = found[0]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def namespace(self) -> str:
        """What relative addresses are relative to."""
        return str(self._info["storage_namespace"])

    @property
    def default_branch(self) -> str:
        """The name of the default branch."""
        return str(self._info["default_branch"])

    def commits(self) -> Iterator[SourceCommit]:
        """Iterate over all commits that can be read."""
        for row in self._rows("graveler_commits"):
            try:
                yield _commit(row)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self.damaged.append(f"graveler_commits {row.get('id')}: {error!r}")

    def branches(self) -> Iterator[SourceBranch]:
        """Iterate over all branches."""
        for row in self._rows("graveler_branches"):
            yield SourceBranch(row["id"], row["commit_id"])

    def tags(self) -> Iterator[SourceTag]:
        """Iterate over all tags."""
        for row in self._rows("graveler_tags"):
            yield SourceTag(row["id"], row["commit_id"])

    def _rows(self, table: str, key: str = "repository_id") -> Iterator[dict[str, Any]]:
        # Names of tables and columns are ours, and never a user's.
        query = f"SELECT * FROM {table} WHERE {key} = %s ORDER BY id"  # noqa: S608
        with self._connection.cursor() as cursor:
            yield from cursor.stream(query, (self._repository,))


def _commit(row: dict[str, Any]) -> SourceCommit:
    parents = tuple(str(parent) for parent in row["parents"])
    swapped = row.get("version", _FIRST_VERSION) == _FIRST_VERSION and len(parents) > 1
    metarange_id = row["meta_range_id"] if "meta_range_id" in row else row["tree_id"]
    return SourceCommit(
        id=str(row["id"]),
        committer=row["committer"],
        message=row["message"],
        created_us=round(row["creation_date"].timestamp() * _MICROSECONDS),
        metarange_id=metarange_id or "",
        metadata=dict(row["metadata"] or {}),
        parents=parents[::-1] if swapped else parents,
        swapped=swapped,
    )
