"""What the catalog refuses or cannot do, by what the caller does next.

LakebedError
└── CatalogError
    ├── InvalidPath         a path that no object can have              (also a ValueError)
    ├── BadDigest           the bytes that came are not those announced (also a ValueError)
    ├── PreviewTooLarge     to show an object would cost too much
    ├── UnreadableTable     an object is not the table that it claims   (also a ValueError)
    ├── NotComparable       rows of two versions cannot be compared so  (also a ValueError)
    ├── MissingBytes        the entry is there, and its object is gone
    │   ├── UnreadableAddress   the entry has an address that cannot be read
    │   └── Purged              on purpose: somebody purged it
    ├── NothingLeft         no deleted repository of that name left anything (also a KeyError)
    ├── InvalidPurge        a purge that cannot be done so              (also a ValueError)
    ├── ChangedBytes        the entry is there, and its object is another one by now
    ├── InvalidLink         the address was not given out for this, or is used up
    │   └── LinkExpired     it was given out too long ago
    ├── AddressTaken        the address lies in the namespace of a repository
    ├── AddressClosed       the address lies in the namespace of a deleted repository
    ├── MultipartNotFound   there is no such multipart upload           (also a KeyError)
    ├── WrongAddress        the upload goes to another address          (also a ValueError)
    ├── UploadNotUnfinished there is no such upload to be ended         (also a KeyError)
    ├── InvalidParts        an upload cannot be completed so            (also a ValueError)
    │   ├── PartsOutOfOrder, PartMissing, PartTooSmall
    │   └── ChecksumUnknown     a checksum was announced that does not follow from the parts'
    ├── TaskNotFound        there is no such task                       (also a KeyError)
    ├── InvalidImport       an import that cannot be done so            (also a ValueError)
    │   └── NothingToImport     a source holds no objects
    ├── InvalidPull         a pull request that cannot be made so       (also a ValueError)
    ├── PullNotFound        there is no such pull request               (also a KeyError)
    ├── PullStatusRefused   a pull request cannot be merged, closed or reopened as it is
    ├── PullBusy            somebody else merges or changes a pull request just now
    ├── ImportOver          an import that has ended, or is just being published
    ├── JobSilent           the Spark job of an import has died
    ├── InvalidRun          a run of garbage collection that is not there, or not so far
    │                                                                   (also a ValueError)
    ├── ClocksDiffer        the clocks of a server and of the storage differ by too much
    └── InvalidSettings     settings that contradict each other         (also a ValueError)

The errors of the layers below that the doors raise or catch by name are here as well.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError, NotFoundMixin, quoted
from lakebed.block.errors import RangeNotSatisfiable
from lakebed.engine.errors import (
    Deleting,
    EntryNotFound,
    InvalidRef,
    MergeConflict,
    ParentNumberMissing,
    RefNotFound,
    RepositoryNotFound,
)

__all__ = [
    "AddressClosed",
    "AddressTaken",
    "BadDigest",
    "CatalogError",
    "ChangedBytes",
    "ChecksumUnknown",
    "ClocksDiffer",
    "Deleting",
    "EntryNotFound",
    "ImportOver",
    "InvalidImport",
    "InvalidLink",
    "InvalidMetadata",
    "InvalidParts",
    "InvalidPath",
    "InvalidPull",
    "InvalidPurge",
    "InvalidRef",
    "InvalidRun",
    "InvalidSettings",
    "JobSilent",
    "LinkExpired",
    "MergeConflict",
    "MissingBytes",
    "MultipartNotFound",
    "NotComparable",
    "NothingLeft",
    "NothingToImport",
    "ParentNumberMissing",
    "PartMissing",
    "PartTooSmall",
    "PartsOutOfOrder",
    "PreviewTooLarge",
    "PullBusy",
    "PullNotFound",
    "PullStatusRefused",
    "Purged",
    "RangeNotSatisfiable",
    "RefNotFound",
    "RepositoryNotFound",
    "TaskNotFound",
    "UnreadableAddress",
    "UnreadableTable",
    "UploadNotUnfinished",
    "WrongAddress",
]


class CatalogError(LakebedError):
    """Any error of the catalog."""

    kind: ClassVar[str] = "catalog"


class InvalidPath(CatalogError, ValueError):
    """A path that no object can have; nothing was done."""

    kind = "invalid_path"


class PreviewTooLarge(CatalogError):
    """A preview would have to read more, or work for longer, than it may."""

    kind = "preview_too_large"


class UnreadableTable(CatalogError, ValueError):
    """An object that is not the table that it claims to be."""

    kind = "unreadable_table"


class NotComparable(CatalogError, ValueError):
    """Two versions of an object whose rows cannot be compared, or not by these columns."""

    kind = "not_comparable"


class InvalidMetadata(CatalogError, ValueError):
    """Metadata, or a message, that is too large; or names that are not for clients."""

    kind = "invalid_metadata"


class BadDigest(CatalogError, ValueError):
    """The bytes that came are not those that were announced; nothing was written."""

    kind = "bad_digest"

    def __init__(self, announced: str, found: str, *, what: str = "MD5") -> None:
        super().__init__(f"the {what} of the bytes is {found}, and {announced} was announced")


class MissingBytes(CatalogError):
    """The entry is there, but the storage has no object at its address."""

    kind = "missing_bytes"

    def __init__(self, path: bytes, address: object) -> None:
        super().__init__(f"the data of {quoted(path)} is gone: there is no object at {address}")
        self.path = path


class UnreadableAddress(MissingBytes):
    """The entry is there, but what it has for an address is none, so its object cannot be read."""

    kind = "unreadable_address"

    def __init__(self, path: bytes, address: str) -> None:
        LakebedError.__init__(
            self,
            f"the data of {quoted(path)} cannot be read: its entry has the address {address!r},"
            " which no storage here can have. `lakebed fsck` finds all such entries",
        )
        self.path = path


class Purged(MissingBytes):
    """The entry is there, and its object was deleted from all history."""

    kind = "purged"

    def __init__(self, path: bytes, when: str, reason: str) -> None:
        LakebedError.__init__(self, f"the data of {quoted(path)} was purged on {when}: {reason}")
        self.path = path


class NothingLeft(CatalogError, NotFoundMixin):
    """No deleted repository of that name has left anything that is known."""

    kind = "nothing_left"

    def __init__(self, repository: str) -> None:
        super().__init__(f"no deleted repository {repository} has left anything to be purged")


class InvalidPurge(CatalogError, ValueError):
    """A purge that cannot be done so; nothing was done."""

    kind = "invalid_purge"


class ChangedBytes(CatalogError):
    """The entry is there, but what the storage has at its address is not what it stands for."""

    kind = "changed_bytes"

    def __init__(self, path: bytes, address: object, how: str, *, imported: bool = False) -> None:
        if imported:
            super().__init__(
                f"the data of {quoted(path)} changed since import: the object at {address} {how}."
                " Import it again to have it as it is now"
            )
            return
        super().__init__(
            f"the data of {quoted(path)} is not what was stored: the object at {address} {how}."
            " Upload the data again; if it was committed, first delete it and commit that, since"
            " the same data again is no change"
        )


class InvalidLink(CatalogError):
    """An address that was not given out for this branch and path, or was used for another link."""

    kind = "invalid_link"


class LinkExpired(InvalidLink):
    """An address that was given out too long ago; ask for another, and upload again."""

    kind = "link_expired"


class AddressTaken(CatalogError):
    """An address that lies where a repository keeps its own data, and can be staged nowhere."""

    kind = "address_taken"

    def __init__(self, address: object, repository: str) -> None:
        super().__init__(
            f"{address} lies in the storage namespace of repository {repository}: copy the object"
            " instead, or use an address outside of all repositories"
        )


class AddressClosed(CatalogError):
    """An address that lies where a deleted repository left its data, and can be staged nowhere."""

    kind = "address_closed"

    def __init__(self, address: object, repository: str) -> None:
        super().__init__(
            f"{address} lies in the storage namespace of repository {repository}, which was"
            " deleted: what it left stays closed; copy the object to a place outside, in the"
            " storage itself"
        )


class MultipartNotFound(CatalogError, NotFoundMixin):
    """There is no such multipart upload: never begun, completed, aborted or expired."""

    kind = "multipart_not_found"

    def __init__(self, upload_id: str) -> None:
        super().__init__(f"multipart upload not found: {upload_id}")


class WrongAddress(CatalogError, ValueError):
    """A request about an upload names an address that the upload does not go to."""

    kind = "wrong_address"

    def __init__(self, upload_id: str, address: object) -> None:
        super().__init__(
            f"the upload {upload_id} does not go to {address}: send the physical_address that came"
            " with the upload's id"
        )


class UploadNotUnfinished(CatalogError, NotFoundMixin):
    """There is no such upload that could be ended: never begun, finished, ended or expired."""

    kind = "upload_not_unfinished"

    def __init__(self, upload_id: str) -> None:
        super().__init__(
            f"there is no unfinished upload {upload_id}: list them again, it may be over by now"
        )


class InvalidParts(CatalogError, ValueError):
    """A multipart upload cannot be completed with the parts named; it is open as before."""

    kind = "invalid_parts"


class PartsOutOfOrder(InvalidParts):
    """Parts are named by ascending number, each once."""

    kind = "parts_out_of_order"


class PartMissing(InvalidParts):
    """A part named was not uploaded, or with other bytes."""

    kind = "part_missing"


class PartTooSmall(InvalidParts):
    """Only the last part may be as small as that."""

    kind = "part_too_small"


class ChecksumUnknown(InvalidParts):
    """A checksum of the object was announced that does not follow from those of its parts."""

    kind = "checksum_unknown"

    def __init__(self, algorithm: str) -> None:
        super().__init__(
            f"the {algorithm} of the object cannot be checked: create the upload with this"
            " algorithm, and with a type that it has"
        )


class TaskNotFound(CatalogError, NotFoundMixin):
    """There is no such task: never begun, or forgotten since."""

    kind = "task_not_found"

    def __init__(self, task: str) -> None:
        super().__init__(f"task not found: {task}")


class InvalidImport(CatalogError, ValueError):
    """An import that cannot be done as it was asked for."""

    kind = "invalid_import"


class NothingToImport(InvalidImport):
    """There is nothing at a source; the branch was left as it is."""

    kind = "nothing_to_import"

    def __init__(self, place: object, strays: str = "") -> None:
        """`strays` describes the files there that are no objects, if there are any."""
        why = (
            f"there are only {strays}, which are not imported"
            if strays
            else "check the path, and that the server can list it"
        )
        super().__init__(
            f"there is nothing to import at {place}: the branch was left as it is; {why}"
        )


class ImportOver(CatalogError):
    """An import that cannot be canceled any more."""

    kind = "import_over"

    def __init__(self, import_id: str, how: str) -> None:
        super().__init__(f"import {import_id} cannot be canceled: it {how}")


class JobSilent(CatalogError):
    """The program that makes the metarange of an import was not heard of for too long."""

    kind = "job_silent"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the Spark job of this import was not heard of for {seconds:g} seconds: nothing was"
            " imported. Start it again"
        )


class InvalidPull(CatalogError, ValueError):
    """A pull request that cannot be made, or not be changed so; nothing was done."""

    kind = "invalid_pull_request"


class PullNotFound(CatalogError, NotFoundMixin):
    """There is no such pull request in this repository."""

    kind = "pull_request_not_found"

    def __init__(self, pull_id: str) -> None:
        super().__init__(f"pull request not found: {pull_id}")


class PullStatusRefused(CatalogError):
    """A pull request is not open, or cannot become what was asked for; nothing was done."""

    kind = "bad_pull_request_status"


class PullBusy(CatalogError):
    """Somebody else merges or changes a pull request just now; ask again in a moment."""

    kind = "pull_request_busy"

    def __init__(self, pull_id: str, how: str) -> None:
        super().__init__(f"pull request {pull_id} {how}: look at it again, then try again")


class InvalidRun(CatalogError, ValueError):
    """A run of garbage collection that does not exist, or is not prepared so far."""

    kind = "invalid_run"


class ClocksDiffer(CatalogError):
    """The clocks of a server and of the storage differ by more than the settings allow."""

    kind = "clocks_differ"

    def __init__(self, seconds: float, how: str, skew_seconds: float) -> None:
        super().__init__(
            f"the clock of this server is {seconds:.0f} seconds {how} that of the storage, and"
            f" gc.skew_seconds is {skew_seconds:g}: nothing expires or is deleted until they agree"
        )


class InvalidSettings(CatalogError, ValueError):
    """Settings that contradict each other; the message names them."""

    kind = "invalid_settings"
