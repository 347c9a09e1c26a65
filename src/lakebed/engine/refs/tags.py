"""The records of tags."""

from collections.abc import Iterator

from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TagNotFound
from lakebed.engine.keys import TAGS
from lakebed.engine.model import CommitID, Repository, Tag, TagID
from lakebed.engine.refs.creation import create_tag
from lakebed.kv import PredicateFailed, Store, Version
from lakebed.kv.records import Record, Records
from lakebed.runtime import Runtime
from lakebed.times import now_us


class Tags:
    """The tags of all repositories."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime

    def get(self, repository: Repository, tag: TagID) -> Tag:
        """Return a tag.

        Raises:
            TagNotFound: There is none of this name.
        """
        return self.find(repository, tag)[0]

    def find(self, repository: Repository, tag: TagID) -> tuple[Tag, Version]:
        """Return a tag, and the version of its record: another one of that name has another.

        Raises:
            TagNotFound: There is none of this name.
        """
        record = self._find(repository, tag)
        if record is None:
            raise TagNotFound(tag)
        return Tag(tag, CommitID(record.message.commit_id)), record.predicate

    def create(self, repository: Repository, tag: TagID, commit_id: CommitID) -> Tag:
        """Make a tag.

        Raises:
            NotUnique: There is already a tag or a branch of this name.
            TooManyTries: Others always came first.
            OutcomeUnknown: It may have been made.
        """
        message = pb.Tag(commit_id=commit_id, created_us=now_us(self._runtime))
        create_tag(self._store, self._runtime, repository.partition, tag, message)
        return Tag(tag, commit_id)

    def delete(self, repository: Repository, tag: TagID, version: Version) -> None:
        """Delete a tag that was found.

        Raises:
            TagNotFound: It was deleted meanwhile, and perhaps made again.
            OutcomeUnknown: It may have been deleted.
        """
        try:
            self._records(repository).delete_if(tag.encode(), version)
        except PredicateFailed:
            raise TagNotFound(tag) from None

    def list(self, repository: Repository, *, prefix: str = "", after: str = "") -> Iterator[Tag]:
        """Iterate over the tags whose names begin with `prefix`, in order, behind `after`."""
        start = after.encode() + b"\x00" if after else b""
        for record in self._records(repository).scan(prefix=prefix.encode(), start=start):
            if not record.message.pending:
                yield Tag(TagID(record.name.decode()), CommitID(record.message.commit_id))

    def _find(self, repository: Repository, tag: TagID) -> Record[pb.Tag] | None:
        record = self._records(repository).find(tag.encode())
        return None if record is None or record.message.pending else record

    def _records(self, repository: Repository) -> Records[pb.Tag]:
        return Records(self._store, TAGS, repository.partition)
