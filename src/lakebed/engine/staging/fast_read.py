"""Reading a key of a branch, or of a commit, in one call to the store.

A read goes through three records, each of which names the next: the repository, the branch, the
staged value. A process that has read the first two before guesses that they have not changed, and
asks for all three at once: the staged values, then the branch, then the repository. A version
stands for one write. So if branch and repository still have the versions that were seen, they had
them all the time in between, and the staged values are those of the branch. If not, the guess was
wrong, and the read is done in the ordinary way (`reader`). Of a commit that this process has read
before, which never changes, only the repository is asked for.

A listing asks for branch and repository together in the same way, and then scans what is staged.
"""

from typing import NamedTuple

from lakebed.engine.errors import EntryNotFound
from lakebed.engine.keys import BRANCHES, GRAVELER, REPOSITORIES, STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, CommitID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.staging.reader import Reader
from lakebed.formats import Entry
from lakebed.kv import Item, KeyNotFound, Store, Version
from lakebed.runtime import Runtime


class Found(NamedTuple):
    """An entry, and the repository that it was found in."""

    repository: Repository
    entry: Entry


class FastReader:
    """Reads from branches and commits that this process has read before."""

    def __init__(
        self,
        store: Store,
        branches: Branches,
        commits: Commits,
        reader: Reader,
        runtime: Runtime,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._branches = branches
        self._commits = commits
        self._reader = reader

    def find(
        self,
        repository: Repository,
        version: Version,
        ref: str,
        key: bytes,
    ) -> Found | None:
        """Return the entry of a key; None: the ordinary way is needed.

        Args:
            repository: The repository as it was last seen.
            version: The version that its record had then.
            ref: Any ref; only those of branches and whole ids of commits can be read in this way.
            key: The key.

        Raises:
            EntryNotFound: There is no such entry.
        """
        branch = self._branches.last_seen(repository, BranchID(ref))
        if branch is None:
            return self._find_in_commit(repository, version, CommitID(ref), key)
        name = STAGED_PREFIX + key
        # The order matters: see the module's docstring.
        items = self._store.get_many(
            [*[(token.encode(), name) for token in branch.tokens], *_records(repository, branch)]
        )
        if not (_is(items[-2], branch.version) and _is(items[-1], version)):
            return None
        staged = self._reader.staged(branch, key, items[:-2])
        entry = self._reader.entry(repository, branch, key, staged)
        return Found(repository, entry)

    def _find_in_commit(
        self,
        repository: Repository,
        version: Version,
        commit_id: CommitID,
        key: bytes,
    ) -> Found | None:
        if not self._commits.is_known(repository, commit_id):
            return None
        try:
            repository_now = self._store.get(*_record(repository))
        except KeyNotFound:
            return None
        if not _is(repository_now, version):
            return None
        entry = self._reader.committed(repository, commit_id, key)
        if entry is None:
            raise EntryNotFound(key)
        return Found(repository, entry)

    def branch(self, repository: Repository, version: Version, ref: str) -> Branch | None:
        """Return a branch as it is now, if it and its repository are as they were last seen.

        None: it is another by now, or was never seen, or the ref is not that of a branch.
        Arguments are those of `find`.
        """
        branch = self._branches.last_seen(repository, BranchID(ref))
        if branch is None:
            return None
        read_at = self._runtime.monotonic()
        branch_now, repository_now = self._store.get_many(_records(repository, branch))
        if not (_is(branch_now, branch.version) and _is(repository_now, version)):
            return None
        return branch.read_again(read_at)


def _records(repository: Repository, branch: Branch) -> list[tuple[bytes, bytes]]:
    return [
        (repository.partition, BRANCHES.prefix + branch.id.encode()),
        _record(repository),
    ]


def _record(repository: Repository) -> tuple[bytes, bytes]:
    return GRAVELER, REPOSITORIES.prefix + repository.id.encode()


def _is(item: Item | None, version: Version) -> bool:
    return item is not None and item.predicate == version
