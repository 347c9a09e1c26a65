"""Refs of a lakeFS with its old database schema in PostgreSQL.

Unreadable rows are skipped and reported.
"""

from collections.abc import Iterator
from typing import Any, Final

from lakebed.base.errors import MissingExtraError, quoted
from lakebed.clients.migrate.errors import DamagedTable, SourceRefused
from lakebed.clients.migrate.lakefs_source import (
    SourceBranch,
    SourceChange,
    SourceCommit,
    SourceTag,
)
from lakebed.clients.migrate.values import read_entry
from lakebed.formats import Entry

_Row = dict[str, Any]
"""Column values by name."""
_MICROSECONDS: Final = 1_000_000
_FIRST_VERSION: Final = 0
_STAGED: Final = """
    SELECT key, identity, data FROM graveler_staging_kv JOIN graveler_branches USING (staging_token)
    WHERE repository_id = %s AND id = %s ORDER BY key
"""


class SqlRefs:
    """The refs of one repository in lakeFS's tables."""

    def __init__(self, dsn: str, repository: str) -> None:
        """Connect, and start a read-only transaction with a snapshot."""
        try:
            import psycopg  # an extra
            from psycopg.rows import dict_row  # an extra
        except ImportError:
            raise MissingExtraError("reading PostgreSQL", "postgres") from None
        self._repository = repository
        self.damaged: dict[str, str] = {}
        """Unreadable rows, each with the reason."""
        try:
            self._connection: psycopg.Connection[_Row] = psycopg.connect(dsn, row_factory=dict_row)
            self._connection.read_only = True
            self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            found = list(self._rows("graveler_repositories", key="id"))
        except psycopg.Error as error:
            raise SourceRefused(f"cannot read lakeFS's database: {error}") from error
        if not found:
            raise SourceRefused(f"the database has no repository {repository}")
        self._info = found[0]

    def close(self) -> None:
        self._connection.close()

    @property
    def namespace(self) -> str:
        """The base of relative addresses."""
        return str(self._info["storage_namespace"])

    @property
    def default_branch(self) -> str:
        return str(self._info["default_branch"])

    def commits(self) -> Iterator[SourceCommit]:
        """Iterate over all readable commits."""
        for row in self._rows("graveler_commits"):
            try:
                yield _commit(row)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self.damaged[f"graveler_commits {row.get('id')}"] = repr(error)

    def branches(self) -> Iterator[SourceBranch]:
        """Iterate over all readable branches."""
        for name, commit_id in self._refs("graveler_branches"):
            yield SourceBranch(name, commit_id)

    def tags(self) -> Iterator[SourceTag]:
        """Iterate over all readable tags."""
        for name, commit_id in self._refs("graveler_tags"):
            yield SourceTag(name, commit_id)

    def _refs(self, table: str) -> Iterator[tuple[str, str]]:
        for row in self._rows(table):
            name, commit_id = row["id"], row["commit_id"]
            if isinstance(name, str) and isinstance(commit_id, str):
                yield name, commit_id
            else:
                self.damaged[f"{table} {name}"] = f"its commit_id is {commit_id!r}"

    def changes(self, branch: SourceBranch) -> Iterator[SourceChange]:
        """Iterate over the readable uncommitted changes of a branch."""
        with self._connection.cursor() as cursor:
            for row in cursor.stream(_STAGED, (self._repository, branch.name)):
                key = bytes(row["key"])
                try:
                    yield SourceChange(key, self._staged(key, row))
                except DamagedTable as error:
                    self.damaged[f"graveler_staging_kv {quoted(key)}"] = str(error)

    def _staged(self, key: bytes, row: _Row) -> Entry | None:
        if row["identity"] is None:
            return None
        return read_entry(key, bytes(row["identity"]), bytes(row["data"]), self.namespace)

    def _rows(self, table: str, key: str = "repository_id") -> Iterator[_Row]:
        # Names of tables and columns are constants.
        query = f"SELECT * FROM {table} WHERE {key} = %s ORDER BY id"  # noqa: S608
        # Fetched completely: the connection serves other queries meanwhile.
        yield from self._connection.execute(query, (self._repository,)).fetchall()


def _commit(row: _Row) -> SourceCommit:
    parents = tuple(str(parent) for parent in row["parents"] or ())  # NULL for a first commit
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
