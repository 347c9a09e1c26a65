"""Reading a key of a branch in one call to the store.

What a branch has for a key is found by way of three records, each of which names the next: the
repository, the branch, the staged value. A process that has seen the first two before guesses that
they are as they were, and asks for all three at once: the staged values, then the branch, then the
repository. A version stands for one write. So if branch and repository turn out to have the
versions that were seen, they have been there all the time in between, and at the moment when the
staged values were read, they were those of the branch. If not, the guess is worth nothing, and the
read takes the ordinary way (`reader`).
"""

from lakebed.engine.errors import EntryNotFound
from lakebed.engine.keys import BRANCHES, GRAVELER, REPOSITORIES, STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.staging.codec import decode
from lakebed.engine.staging.reader import Reader
from lakebed.formats import Entry
from lakebed.kv import Item, Store, Version


class FastReader:
    """Reads from branches that this process has seen before."""

    def __init__(self, store: Store, branches: Branches, reader: Reader) -> None:
        self._store = store
        self._branches = branches
        self._reader = reader

    def find(self, repository: Repository, version: Version, ref: str, key: bytes) -> Entry | None:
        """Return the entry of a key; None: it takes the ordinary way to tell.

        Args:
            repository: As it was last seen, and
            version: the version that its record had then.
            ref: Whatever it may be; only a branch can be read so.
            key: The key.

        Raises:
            EntryNotFound: There is no such entry.
        """
        branch = self._branches.last_seen(repository, BranchID(ref))
        if branch is None:
            return None
        name = STAGED_PREFIX + key
        # In this order: see above.
        *staged, branch_now, repository_now = self._store.get_many(
            [
                *((token.encode(), name) for token in branch.tokens),
                (repository.partition, BRANCHES.prefix + branch.id.encode()),
                (GRAVELER, REPOSITORIES.prefix + repository.id.encode()),
            ]
        )
        if not (_is(branch_now, branch.version) and _is(repository_now, version)):
            return None
        return self._entry(repository, branch, key, staged)

    def _entry(
        self, repository: Repository, branch: Branch, key: bytes, staged: list[Item | None]
    ) -> Entry:
        newest = next((record for record in staged if record is not None), None)
        if newest is None:
            found = self._reader.committed(repository, branch.commit_id, key)
        else:
            found = decode(key, newest.value)
        if found is None:
            raise EntryNotFound(key)
        return found


def _is(record: Item | None, version: Version) -> bool:
    return record is not None and record.predicate == version
