"""Reading a key of a branch, or what a ref names, in one call to the store.

A read goes through three records, each of which names the next: the repository, the branch, the
staged value. A process that has read the first two before guesses that they have not changed, and
asks for all three at once: the staged values, then the branch, then the repository. A version
stands for one write. So if branch and repository still have the versions that were seen, they had
them all the time in between, and the staged values are those of the branch. If not, the guess was
wrong, and the read is done in the ordinary way (`reader`).
"""

from collections.abc import Sequence

from lakebed.engine.keys import BRANCHES, GRAVELER, REPOSITORIES, STAGED_PREFIX
from lakebed.engine.model import BranchID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.staging.reader import Reader
from lakebed.formats import Entry
from lakebed.kv import Item, Store, Version


class FastReader:
    """Reads from branches that this process has read before."""

    def __init__(self, store: Store, branches: Branches, reader: Reader) -> None:
        self._store = store
        self._branches = branches
        self._reader = reader

    def find(self, repository: Repository, version: Version, ref: str, key: bytes) -> Entry | None:
        """Return the entry of a key; None: the ordinary way is needed.

        Args:
            repository: The repository as it was last seen.
            version: The version that its record had then.
            ref: Any ref; only that of a branch can be read in this way.
            key: The key.

        Raises:
            EntryNotFound: There is no such entry.
        """
        branch = self._branches.last_seen(repository, BranchID(ref))
        if branch is None:
            return None
        name = STAGED_PREFIX + key
        # The order matters: see the module's docstring.
        places = [(token.encode(), name) for token in branch.tokens]
        places.append((repository.partition, BRANCHES.prefix + branch.id.encode()))
        found = self.read_in(repository, version, places)
        if found is None or not _is(found[-1], branch.version):
            return None
        return self._reader.entry(repository, branch, key, found[:-1])

    def read_in(
        self, repository: Repository, version: Version, places: Sequence[tuple[bytes, bytes]]
    ) -> list[Item | None] | None:
        """Return what is at some places, if the repository still has a version; None: it has not.

        The places are read first. So what is there belongs to that repository.
        """
        here = (GRAVELER, REPOSITORIES.prefix + repository.id.encode())
        *found, now = self._store.get_many([*places, here])
        return found if _is(now, version) else None


def _is(item: Item | None, version: Version) -> bool:
    return item is not None and item.predicate == version
