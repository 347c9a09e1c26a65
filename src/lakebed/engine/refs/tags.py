"""The records of tags."""

from collections.abc import Iterator

from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NotUnique, TagNotFound
from lakebed.engine.keys import TAGS
from lakebed.engine.model import CommitID, Repository, Tag, TagID
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store
from lakebed.kv.records import Records
from lakebed.kv.store import settling
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
        record = self._records(repository).find(tag.encode())
        if record is None:
            raise TagNotFound(tag)
        return Tag(tag, CommitID(record.message.commit_id))

    def create(self, repository: Repository, tag: TagID, commit_id: CommitID) -> Tag:
        """Make a tag.

        Raises:
            NotUnique: There is already a tag of this name.
            OutcomeUnknown: It may have been made.
        """
        message = pb.Tag(commit_id=commit_id, created_us=now_us(self._runtime))
        records = self._records(repository)
        try:
            records.set_if(tag.encode(), message, ABSENT)
        except PredicateFailed:
            raise NotUnique(f"tag {tag} exists already") from None
        except OutcomeUnknown as unknown:
            with settling(unknown):
                found = records.find(tag.encode())
            if found is None or found.message != message:
                raise
        return Tag(tag, commit_id)

    def delete(self, repository: Repository, tag: TagID) -> None:
        """Delete a tag.

        Raises:
            TagNotFound: There is none of this name.
            OutcomeUnknown: It may have been deleted.
        """
        records = self._records(repository)
        while (record := records.find(tag.encode())) is not None:
            try:
                return records.delete_if(tag.encode(), record.predicate)
            except PredicateFailed:
                continue  # deleted by someone else, and perhaps made again
        raise TagNotFound(tag)

    def list(self, repository: Repository, *, prefix: str = "", after: str = "") -> Iterator[Tag]:
        """Iterate over the tags whose names begin with `prefix`, in order, behind `after`."""
        start = after.encode() + b"\x00" if after else b""
        for record in self._records(repository).scan(prefix=prefix.encode(), start=start):
            yield Tag(TagID(record.name.decode()), CommitID(record.message.commit_id))

    def _records(self, repository: Repository) -> Records[pb.Tag]:
        return Records(self._store, TAGS, repository.partition)
