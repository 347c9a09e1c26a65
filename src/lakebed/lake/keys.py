"""Records of the catalog, stored in the partition of their repository.

| keys                                  | value                                        |
|---------------------------------------|----------------------------------------------|
| links/<object uid>                    | issued addresses                             |
| pins/<object uid>                     | content first read of unverified objects     |
| multiparts/<upload id>                | multipart uploads, open or just completed    |
| multipart_parts/<upload id>/<number>  | parts of multipart uploads                   |
| tasks/<id>                            | dumps and restores, running or ended         |
| imports/<id>                          | imports, running or ended                    |
| gc/last_run                           | end of the last garbage collection run       |
| gc/seen                               | the last known run and purge                 |
| pulls/<id>                            | pull requests, newest first                  |
| pulls_merging/<id>                    | pull requests whose merge may be in progress |

Purged objects have a partition of their own, ``purges``, as ``purges/<address>``: a reader knows
the address of an object, and copies may be made in other repositories.

Imports that have not ended are also in partition ``imports``, as ``waiting/<id>``: the import
runner need not scan all repositories.
"""

from typing import Final, TypeVar

from google.protobuf.message import Message

from lakebed.formats.object_paths import ObjectUID, issued_us
from lakebed.kv.records import RecordKind
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
    """Return a mutable copy of a record."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
