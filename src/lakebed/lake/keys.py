"""The catalog's records, which are in the partition of their repository.

| keys                                  | what                                         |
|---------------------------------------|----------------------------------------------|
| links/<object uid>                    | addresses that were given out                |
| pins/<object uid>                     | what was read first of unverified objects    |
| multiparts/<upload id>                | multipart uploads, open or completed lately  |
| multipart_parts/<upload id>/<number>  | their parts                                  |
| tasks/<id>                            | dumps and restores, running or ended         |
| imports/<id>                          | imports, running or ended                    |
| gc/last_run                           | when a run of garbage collection last ended  |
| gc/seen                               | the last run and purge that are known        |
| pulls/<id>                            | pull requests, newest first                  |
| pulls_merging/<id>                    | those whose merge may be under way           |

Purged objects are in a partition of their own, ``purges``, as ``purges/<address>``: who reads an
object knows its address, and a copy may be made in another repository.

Imports that have not ended are also in a partition of their own, ``imports``, as ``waiting/<id>``:
whoever runs them need not go through all repositories.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from google.protobuf.message import Message

from lakebed.formats.object_paths import ObjectUID, issued_us
from lakebed.kv import PredicateFailed
from lakebed.kv.records import RecordKind, Records
from lakebed.lake import records_pb2 as pb

MessageT = TypeVar("MessageT", bound=Message)


def _names_upload(name: bytes, _message: Message) -> None:
    issued_us(ObjectUID(name.decode()))


LINKS: Final = RecordKind(b"links/", pb.Link, ("address",), _names_upload)
PINS: Final = RecordKind(b"pins/", pb.Pin, ("address",), _names_upload)
MULTIPARTS: Final = RecordKind(b"multiparts/", pb.MultipartUpload, ("address",), _names_upload)
MULTIPART_PARTS: Final = RecordKind(b"multipart_parts/", pb.MultipartPart)
TASKS: Final = RecordKind(b"tasks/", pb.Task)
IMPORTS: Final = RecordKind(b"imports/", pb.Import)
GC: Final = RecordKind(b"gc/", pb.GCLastRun)
SEEN: Final = RecordKind(b"gc/", pb.Seen)
SEEN_NAME: Final = b"seen"
PULLS: Final = RecordKind(b"pulls/", pb.PullRequest)
PULLS_MERGING: Final = RecordKind(b"pulls_merging/", pb.PullMerging)

PURGES_PARTITION: Final = b"purges"
PURGES: Final = RecordKind(b"purges/", pb.Purge)

WAITING_PARTITION: Final = b"imports"
WAITING: Final = RecordKind(b"waiting/", pb.WaitingImport, ("repository", "unique_id"))


def copy_of(message: MessageT) -> MessageT:
    """Return a record to be changed, where the one that was read must stay as it is."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def remove_where(records: Records[MessageT], is_over: Callable[[MessageT], bool]) -> int:
    """Remove the records that are over, unless someone changes them just then; return how many."""
    removed = 0
    for record in records.scan_readable():
        if is_over(record.message):
            with suppress(PredicateFailed):
                records.delete_if(record.name, record.predicate)
                removed += 1
    return removed
