"""Marks of commits that expire: records of their own, beside the commits, which never change.

A mark is EXPIRING first, and EXPIRED later, for good. Between the two lies a scan of all refs and
commits (`expirer`). Whoever wants to use an old commit writes down what it does first, and reads
the mark *afterwards*; the expirer writes the mark first, and looks for such writes afterwards. So
one of the two sees the other.

*A ref* that names a commit keeps it only by being seen. So a mark that is EXPIRING must go before
the ref counts (`let_name`): the expirer may have looked already. It is deleted by its version,
so that the expirer, which goes on from that version, fails.

*What takes content* from a commit, a new commit or a staged copy, protects that content itself.
Garbage collection reads which commits have expired, then what is staged, then the commits; so it
meets all that was written before its commit was EXPIRED. A mark that is EXPIRING does no harm
(`check_sources`).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import CommitExpired, TooManyTries
from lakebed.engine.keys import EXPIRY
from lakebed.engine.model import CommitID, Repository
from lakebed.kv import Item, PredicateFailed, Store
from lakebed.kv.records import Record, Records

EXPIRING: Final = pb.EXPIRY_STATE_EXPIRING
EXPIRED: Final = pb.EXPIRY_STATE_EXPIRED

_TRIES: Final = 10

Mark = Record[pb.Expiry]


class Marks:
    """The marks of all repositories."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def place(self, repository: Repository, commit_id: CommitID) -> tuple[bytes, bytes]:
        """Return where the mark of a commit would be, for `Store.get_many`."""
        return self.records(repository).place(commit_id.encode())

    def find_all(self, repository: Repository, ids: Sequence[CommitID]) -> dict[CommitID, Mark]:
        """Return the marks of some commits, those that have one; in one call to the store."""
        records = self.records(repository)
        found = self._store.get_many([records.place(each.encode()) for each in ids])
        return {
            commit_id: records.decode(item)
            for commit_id, item in zip(ids, found, strict=True)
            if item is not None
        }

    def let_name(self, repository: Repository, commit_id: CommitID, item: Item | None) -> None:
        """Return if a ref to a commit counts, given the mark as it was read after it was written.

        Raises:
            CommitExpired: It does not: take it back.
        """
        records = self.records(repository)
        mark = None if item is None else records.decode(item)
        for _ in range(_TRIES):
            if mark is None:
                return None
            _refuse_expired(commit_id, mark)
            with suppress(PredicateFailed):
                return records.delete_if(mark.name, mark.predicate)
            mark = records.find(commit_id.encode())
        raise TooManyTries(f"the use of commit {commit_id}, which is about to expire,", _TRIES)

    def check_named(self, repository: Repository, commit_id: CommitID) -> None:
        """Read the mark of a commit and return if a ref to it counts; raises as `let_name`."""
        (item,) = self._store.get_many([self.place(repository, commit_id)])
        self.let_name(repository, commit_id, item)

    def check_sources(self, repository: Repository, ids: Sequence[CommitID]) -> None:
        """Return if content of these commits may be used, by what was written before this call.

        Raises:
            CommitExpired: One has expired: its data may be gone.
        """
        for commit_id, mark in self.find_all(repository, ids).items():
            _refuse_expired(commit_id, mark)

    def is_expired(self, repository: Repository, commit_id: CommitID) -> bool:
        """Whether a commit has expired: for good."""
        mark = self.find_all(repository, [commit_id]).get(commit_id)
        return mark is not None and mark.message.state == EXPIRED

    def expired(self, repository: Repository, *, since_us: int = 0) -> Iterator[CommitID]:
        """Iterate over the commits that have expired since some time, in order of their ids."""
        for mark in self.records(repository).scan_readable():
            if mark.message.state == EXPIRED and mark.message.expired_us >= since_us:
                yield CommitID(mark.name.decode())

    def records(self, repository: Repository) -> Records[pb.Expiry]:
        """Return the marks of a repository, by the ids of their commits."""
        return Records(self._store, EXPIRY, repository.partition)


def _refuse_expired(commit_id: CommitID, mark: Mark) -> None:
    if mark.message.state == EXPIRED:
        raise CommitExpired(commit_id, mark.message.expired_us)
