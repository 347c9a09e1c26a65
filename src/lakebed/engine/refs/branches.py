"""Branches and tags: records read uncached, changed by compare-and-swap."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, UniqueID, new_unique_id, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import BranchNotFound, PreconditionFailed, TagNotFound, TooManyTries
from lakebed.engine.keys import BRANCHES, CREATING, DROPPED_PARTITION, LIVE, TAGS
from lakebed.engine.model import (
    Branch,
    BranchID,
    CommitID,
    Repository,
    StagingToken,
    Tag,
    TagID,
    new_staging_token,
)
from lakebed.engine.refs.creation import (
    CreationReads,
    create_branch,
    create_tag,
    was_created,
    was_deleted,
)
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.kv import Item, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.kv.store import Put, still_unknown

SEEN_MAX: Final = 10_000
"""How many branches a process caches as last seen."""


class Branches:
    """The branches of all repositories; one object per process."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._reads: SharedReads[tuple[bytes, BranchID], Branch] = SharedReads(runtime, self._read)
        self._seen: LRU[tuple[bytes, BranchID], Branch] = LRU(runtime, cost_max=SEEN_MAX)

    def get(self, repository: Repository, branch: BranchID) -> Branch:
        """Return a branch as of a moment after this call began, or raise `BranchNotFound`."""
        return self._reads.get((repository.partition, branch))

    def get_with(
        self, repository: Repository, branch: BranchID, others: Sequence[tuple[bytes, bytes]]
    ) -> tuple[Branch, list[Item | None]]:
        """Return a branch as `get`, and the items at other keys, in one store call."""
        records = self._records(repository.partition)
        found, *rest = self._store.get_many([records.place(branch.encode()), *others])
        record = None if found is None else records.decode(found)
        return self._remember((repository.partition, branch), record), rest

    def last_seen(self, repository: Repository, branch: BranchID) -> Branch | None:
        """Return a branch as this process last read it, however long ago, or None.

        Callers must validate its version.
        """
        return self._seen.get((repository.partition, branch))

    def from_item(
        self, repository: Repository, branch: BranchID, item: Item | None
    ) -> Branch | None:
        """Return a branch, given the item of its record, or None if the branch does not exist."""
        key = (repository.partition, branch)
        seen = self._seen.get(key)
        if item is not None and seen is not None and seen.version == item.predicate:
            return seen
        record = None if item is None else self._records(repository.partition).decode(item)
        try:
            return self._remember(key, record)
        except BranchNotFound:
            return None

    def list(
        self, repository: Repository, *, prefix: str = "", after: str = ""
    ) -> Iterator[Branch]:
        """Iterate in order over the branches after `after` whose names begin with `prefix`."""
        for branch, state in self._scan(repository, prefix=prefix, after=after):
            if state == LIVE:
                yield branch

    def list_referencing(self, repository: Repository, *, after: str = "") -> Iterator[Branch]:
        """Iterate in order over the branches after `after` whose tokens count as referenced.

        For garbage collection. Includes every branch with a record that is not CREATING: tokens are
        also referenced in states invisible to readers.
        """
        for branch, state in self._scan(repository, after=after):
            if state != CREATING:
                yield branch

    def _scan(
        self, repository: Repository, *, prefix: str = "", after: str = ""
    ) -> Iterator[tuple[Branch, int]]:
        start = after.encode() + b"\x00" if after else b""
        records = self._records(repository.partition)
        for record in records.scan(prefix=prefix.encode(), start=start):
            yield _branch(record), record.message.state

    def create(
        self,
        repository: Repository,
        branch: BranchID,
        commit_id: CommitID,
        *,
        hidden: bool = False,
        unique_id: UniqueID | None = None,
        reads: CreationReads | None = None,
        shared: bool = False,
    ) -> Branch:
        """Create a branch at a commit, with nothing staged; raises as `create_branch`.

        `commit_id`: the commit; with `reads`, its probable result. `hidden`: whether to leave the
        branch out of lists. `unique_id`: a new id, for callers who need one in advance. `reads`:
        other records the creation depends on. `shared`: whether a tag may have the name too.
        """
        message = pb.Branch(
            unique_id=unique_id or new_unique_id(self._runtime),
            commit_id=commit_id,
            staging_token=new_staging_token(self._runtime, repository.id, branch),
            hidden=hidden,
            created_us=now_us(self._runtime),
        )
        version = create_branch(
            self._store, self._runtime, repository, branch, message, reads, shared=shared
        )
        record = Record(branch.encode(), message, version)
        return self._remember((repository.partition, branch), record)

    def change(
        self,
        repository: Repository,
        branch: Branch,
        *,
        commit_id: CommitID | None = None,
        staging_token: StagingToken | None = None,
        sealed_tokens: Sequence[StagingToken] | None = None,
        next_commit_id: CommitID | None = None,
    ) -> Branch:
        """Change a branch that still has the version read; return the new branch.

        Dropped tokens must have been announced before (`announce_drop`). `next_commit_id` is the
        commit the branch is about to move to: the commit does not expire while the record names it,
        and any other change clears it.

        Raises:
            PredicateFailed: The branch was changed or deleted concurrently.
            OutcomeUnknown: The branch may have been changed; read again to find out.
        """
        message = pb.Branch()
        message.CopyFrom(branch.stored)
        message.ClearField("transient")
        if next_commit_id is not None:
            message.transient.next_commit_id = next_commit_id
        if commit_id is not None:
            message.commit_id = commit_id
        if staging_token is not None:
            message.staging_token = staging_token
        if sealed_tokens is not None:
            message.sealed_tokens[:] = sealed_tokens
        name = branch.id.encode()
        records = self._records(repository.partition)
        version = records.set_if(name, message, branch.version)
        # Otherwise the next write of this process would go to the old token first.
        record = Record(name, message, version)
        return self._remember((repository.partition, branch.id), record)

    def delete(
        self,
        repository: Repository,
        branch: BranchID,
        *,
        known: Branch | None = None,
        unchanged: bool = False,
        before_try: Callable[[Branch], None] = lambda _branch: None,
    ) -> None:
        """Delete a branch and its staged changes; with `known`, only this very branch.

        With `unchanged`, only if the branch still equals `known`. `before_try` is called with the
        branch as read, before each attempt.

        Raises:
            BranchNotFound: The branch does not exist, or was deleted or replaced concurrently.
            PreconditionFailed: The branch was changed since `known`.
            OutcomeUnknown: The branch may have been deleted.
        """
        records = self._records(repository.partition)
        first = known or self.get(repository, branch)
        current = first
        while current.unique_id == first.unique_id:
            if unchanged and current.version != first.version:
                raise PreconditionFailed(branch.encode(), "the branch has changed")
            before_try(current)
            self.announce_drop(repository, branch, current.tokens)
            try:
                return records.delete_if(branch.encode(), current.version)
            except PredicateFailed:
                pass
            except StoreUnavailable:
                raise
            except OutcomeUnknown as unknown:
                with still_unknown(unknown):
                    found = records.find(branch.encode())
                # The branch was deleted, and perhaps created again under this name.
                if found is None or found.message.unique_id != first.unique_id:
                    return None
            current = self.get(repository, branch)
        # Another client deleted our branch and created a new one.
        raise BranchNotFound(branch)

    def was_created(self, repository: Repository, branch: BranchID, unique_id: UniqueID) -> bool:
        """Return whether a branch was created, and prevent a later creation; see `creation`."""
        return was_created(self._records(repository.partition), branch, unique_id)

    def was_deleted(self, repository: Repository, branch: BranchID, unique_id: UniqueID) -> bool:
        """Return whether a branch was deleted, and fail deletions in flight; see `creation`."""
        return was_deleted(self._records(repository.partition), branch, unique_id)

    def announce_drop(
        self, repository: Repository, branch: BranchID, tokens: Sequence[StagingToken]
    ) -> None:
        """Record that tokens are about to be dropped, for the Cleaner.

        Must precede the drop: a process that dies in between must not leave unreferenced partitions
        behind. The Cleaner ignores tokens still referenced by a branch.
        """
        self._store.write(self.announcements(repository, branch, tokens))

    def announcements(
        self, repository: Repository, branch: BranchID, tokens: Sequence[StagingToken]
    ) -> Sequence[Put]:
        """Return the writes of `announce_drop`, for callers that batch them with other writes."""
        message = pb.DroppedToken(
            repository=repository.id,
            unique_id=repository.unique_id,
            branch=branch,
            dropped_us=now_us(self._runtime),
        )
        value = message.SerializeToString()
        return [Put(DROPPED_PARTITION, token.encode(), value) for token in tokens]

    def _read(self, key: tuple[bytes, BranchID]) -> Branch:
        partition, branch = key
        record = self._records(partition).find(branch.encode())
        return self._remember(key, record)

    def _remember(self, key: tuple[bytes, BranchID], record: Record[pb.Branch] | None) -> Branch:
        if record is None or record.message.state != LIVE:
            self._seen.pop(key)
            raise BranchNotFound(key[1])
        branch = _branch(record)
        self._seen.put(key, branch)
        return branch

    def _records(self, partition: bytes) -> Records[pb.Branch]:
        return Records(self._store, BRANCHES, partition)


def _branch(record: Record[pb.Branch]) -> Branch:
    message = record.message
    return Branch(
        id=BranchID(record.name.decode()),
        unique_id=UniqueID(message.unique_id),
        commit_id=CommitID(message.commit_id),
        staging_token=StagingToken(message.staging_token),
        sealed_tokens=tuple(StagingToken(token) for token in message.sealed_tokens),
        hidden=message.hidden,
        created_us=message.created_us,
        version=record.predicate,
        stored=message,
    )


_TRIES: Final = 10


class Tags:
    """The tags of all repositories."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime

    def get(self, repository: Repository, tag: TagID) -> Tag:
        """Return a tag, or raise `TagNotFound`."""
        record = self._find(repository, tag)
        if record is None:
            raise TagNotFound(tag)
        return _tag(record)

    def create(
        self,
        repository: Repository,
        tag: TagID,
        commit_id: CommitID,
        *,
        unique_id: UniqueID | None = None,
        reads: CreationReads | None = None,
        shared: bool = False,
    ) -> Tag:
        """Create a tag; arguments as for `Branches.create`, raises as `create_tag`."""
        message = pb.Tag(
            commit_id=commit_id,
            created_us=now_us(self._runtime),
            unique_id=unique_id or new_unique_id(self._runtime),
        )
        create_tag(self._store, self._runtime, repository, tag, message, reads, shared=shared)
        return Tag(tag, CommitID(message.commit_id), UniqueID(message.unique_id))

    def delete(
        self, repository: Repository, tag: Tag, before_try: Callable[[], None] = lambda: None
    ) -> None:
        """Delete a tag as read; `before_try` is called before each attempt.

        Raises:
            TagNotFound: The tag was deleted or replaced concurrently.
            TooManyTries: Concurrent changes won every time.
            OutcomeUnknown: The tag may have been deleted.
        """
        for _ in range(_TRIES):
            found = self._find(repository, tag.id)
            if found is None or _tag(found) != tag:
                raise TagNotFound(tag.id)
            before_try()
            with suppress(PredicateFailed):
                return self._records(repository).delete_if(found.name, found.predicate)
        raise TooManyTries(f"the deletion of tag {tag.id}", _TRIES)

    def was_created(self, repository: Repository, tag: TagID, unique_id: UniqueID) -> bool:
        """Return whether a tag was created, and prevent a later creation; see `creation`."""
        return was_created(self._records(repository), tag, unique_id)

    def was_deleted(self, repository: Repository, tag: TagID, unique_id: UniqueID) -> bool:
        """Return whether a tag was deleted, and fail deletions in flight; see `creation`."""
        return was_deleted(self._records(repository), tag, unique_id)

    def list(self, repository: Repository, *, prefix: str = "", after: str = "") -> Iterator[Tag]:
        """Iterate in order over the tags after `after` whose names begin with `prefix`."""
        start = after.encode() + b"\x00" if after else b""
        for record in self._records(repository).scan(prefix=prefix.encode(), start=start):
            if record.message.state == LIVE:
                yield _tag(record)

    def _find(self, repository: Repository, tag: TagID) -> Record[pb.Tag] | None:
        record = self._records(repository).find(tag.encode())
        return None if record is None or record.message.state != LIVE else record

    def _records(self, repository: Repository) -> Records[pb.Tag]:
        return Records(self._store, TAGS, repository.partition)


def _tag(record: Record[pb.Tag]) -> Tag:
    message = record.message
    name = TagID(record.name.decode())
    return Tag(name, CommitID(message.commit_id), UniqueID(message.unique_id))
