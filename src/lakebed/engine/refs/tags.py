from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from lakebed.base.ids import UniqueID, new_unique_id
from lakebed.base.runtime import Runtime, now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TagNotFound, TooManyTries
from lakebed.engine.keys import LIVE, TAGS
from lakebed.engine.model import CommitID, Repository, Tag, TagID
from lakebed.engine.refs.creation import CreationReads, create_tag, was_created, was_deleted
from lakebed.kv import PredicateFailed, Store
from lakebed.kv.records import Record, Records

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
