"""Errors of the catalog.

LakebedError
└── CatalogError
    ├── InvalidPath         invalid object path                        (also a ValueError)
    ├── BadDigest           received bytes differ from their checksum  (also a ValueError)
    ├── PreviewTooLarge     a preview would cost too much
    ├── UnreadableTable     an object is not a table of its format     (also a ValueError)
    ├── NotComparable       rows of two versions cannot be compared    (also a ValueError)
    ├── MissingBytes        the storage lost the object of an entry
    │   ├── UnreadableAddress   the address of the entry is invalid
    │   └── Purged              the object was purged
    ├── NothingLeft         no data left of a deleted repository       (also a KeyError)
    ├── InvalidPurge        an invalid purge                           (also a ValueError)
    ├── ChangedBytes        the storage has a different object than the entry
    ├── InvalidLink         the address was issued for another object, or is used
    │   └── LinkExpired     the address was issued too long ago
    ├── AddressTaken        the address is in the namespace of a repository
    ├── AddressClosed       the address is in the namespace of a deleted repository
    ├── InvalidVersion      no version id                              (also a ValueError)
    ├── VersionNotFound     no such version of an object               (also a KeyError)
    ├── MultipartNotFound   no such multipart upload                   (also a KeyError)
    ├── WrongAddress        the upload has another address             (also a ValueError)
    ├── UploadNotUnfinished no such unfinished upload                  (also a KeyError)
    ├── InvalidParts        an upload cannot be completed              (also a ValueError)
    │   ├── PartsOutOfOrder, PartMissing, PartTooSmall
    │   └── ChecksumUnknown     the announced checksum cannot be derived from the parts'
    ├── TaskNotFound        no such task                               (also a KeyError)
    ├── InvalidImport       an invalid import                          (also a ValueError)
    │   └── NothingToImport     a source has no objects
    ├── InvalidPull         an invalid pull request                    (also a ValueError)
    ├── PullNotFound        no such pull request                       (also a KeyError)
    ├── PullStatusRefused   the status of a pull request forbids the operation
    ├── PullBusy            a concurrent merge or change of a pull request
    ├── ImportOver          an import that has ended or is being published
    ├── JobSilent           the Spark job of an import has died
    ├── InvalidRun          no such garbage collection run, or not prepared
    │                                                                  (also a ValueError)
    ├── ClocksDiffer        the clocks of server and storage differ too much
    └── InvalidSettings     contradictory settings                     (also a ValueError)

Re-exports the errors of lower layers that the APIs raise or catch.
"""

from typing import ClassVar

from lakebed.base.errors import LakebedError, NotFoundMixin, quoted
from lakebed.block.errors import RangeNotSatisfiable
from lakebed.engine.errors import (
    Deleting,
    EntryNotFound,
    InvalidRef,
    MergeConflict,
    NotUnique,
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
    "InvalidVersion",
    "JobSilent",
    "LinkExpired",
    "MergeConflict",
    "MissingBytes",
    "MultipartNotFound",
    "NotComparable",
    "NotUnique",
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
    "VersionNotFound",
    "WrongAddress",
]


class CatalogError(LakebedError):
    """Base class of the catalog's errors."""

    kind: ClassVar[str] = "catalog"


class InvalidPath(CatalogError, ValueError):
    """An invalid object path; nothing was done."""

    kind = "invalid_path"


class InvalidVersion(CatalogError, ValueError):
    """A version id that is no commit of the repository."""

    kind = "invalid_version"

    def __init__(self, version_id: str) -> None:
        super().__init__(
            f'"{version_id[:100]}" is no version id: use the id of a commit, or "null" for an'
            " uncommitted change"
        )


class VersionNotFound(CatalogError, NotFoundMixin):
    """An object has no such version."""

    kind = "version_not_found"

    def __init__(self, version_id: str) -> None:
        super().__init__(f"no commit {version_id} has this object: list its versions")


class PreviewTooLarge(CatalogError):
    """A preview would exceed its limit of bytes or time."""

    kind = "preview_too_large"


class UnreadableTable(CatalogError, ValueError):
    """An object that is not a valid table of its format."""

    kind = "unreadable_table"


class NotComparable(CatalogError, ValueError):
    """Two versions of an object whose rows cannot be compared, or not by the given columns."""

    kind = "not_comparable"


class InvalidMetadata(CatalogError, ValueError):
    """Metadata or a message that is too large, or a reserved metadata key."""

    kind = "invalid_metadata"


class BadDigest(CatalogError, ValueError):
    """The received bytes differ from the announced checksum; nothing was written."""

    kind = "bad_digest"

    def __init__(self, announced: str, found: str, *, what: str = "MD5") -> None:
        super().__init__(f"{what} mismatch: {announced} was announced, {found} found")


class MissingBytes(CatalogError):
    """The entry exists, but the storage has no object at its address."""

    kind = "missing_bytes"

    def __init__(self, path: bytes, address: object) -> None:
        super().__init__(f"the data of {quoted(path)} is missing: no object at {address}")
        self.path = path


class UnreadableAddress(MissingBytes):
    """The entry exists, but its address is invalid, so its object cannot be read."""

    kind = "unreadable_address"

    def __init__(self, path: bytes, address: str) -> None:
        LakebedError.__init__(
            self,
            f"the data of {quoted(path)} cannot be read: its entry has the invalid address"
            f" {address!r}; `lakebed fsck` finds all such entries",
        )
        self.path = path


class Purged(MissingBytes):
    """The entry exists, but its object was purged from all history."""

    kind = "purged"

    def __init__(self, path: bytes, when: str, reason: str) -> None:
        LakebedError.__init__(self, f"the data of {quoted(path)} was purged on {when}: {reason}")
        self.path = path


class NothingLeft(CatalogError, NotFoundMixin):
    """No deleted repository of this name has known data left."""

    kind = "nothing_left"

    def __init__(self, repository: str) -> None:
        super().__init__(f"no deleted repository {repository} has data left to purge")


class InvalidPurge(CatalogError, ValueError):
    """A purge that is not possible; nothing was done."""

    kind = "invalid_purge"


class ChangedBytes(CatalogError):
    """The entry exists, but the storage has a different object at its address."""

    kind = "changed_bytes"

    def __init__(self, path: bytes, address: object, how: str, *, imported: bool = False) -> None:
        if imported:
            super().__init__(
                f"the data of {quoted(path)} changed since import: the object at {address} {how};"
                " import it again to get its current content"
            )
            return
        super().__init__(
            f"the data of {quoted(path)} is not what was stored: the object at {address} {how};"
            " upload the data again (if it is committed, first delete it and commit the deletion:"
            " uploading equal data is no change)"
        )


class InvalidLink(CatalogError):
    """An address that was not issued for this branch and path, or was already linked elsewhere."""

    kind = "invalid_link"


class LinkExpired(InvalidLink):
    """An address that was issued too long ago; request another and upload again."""

    kind = "link_expired"


class AddressTaken(CatalogError):
    """An address in the storage namespace of a repository; cannot be staged."""

    kind = "address_taken"

    def __init__(self, address: object, repository: str) -> None:
        super().__init__(
            f"{address} is in the storage namespace of repository {repository}: copy the object"
            " instead, or use an address outside of all repositories"
        )


class AddressClosed(CatalogError):
    """An address in the storage namespace of a deleted repository; cannot be staged."""

    kind = "address_closed"

    def __init__(self, address: object, repository: str) -> None:
        super().__init__(
            f"{address} is in the storage namespace of deleted repository {repository}: using the"
            " storage itself, copy the object to an address outside of all repositories"
        )


class MultipartNotFound(CatalogError, NotFoundMixin):
    """The multipart upload does not exist: never begun, completed, aborted or expired."""

    kind = "multipart_not_found"

    def __init__(self, upload_id: str) -> None:
        super().__init__(f"multipart upload not found: {upload_id}")


class WrongAddress(CatalogError, ValueError):
    """The address in a request differs from the address of the upload."""

    kind = "wrong_address"

    def __init__(self, upload_id: str, address: object) -> None:
        super().__init__(
            f"upload {upload_id} does not have the address {address}: send the physical_address"
            " returned with the upload's id"
        )


class UploadNotUnfinished(CatalogError, NotFoundMixin):
    """The unfinished upload does not exist: never begun, finished, ended or expired."""

    kind = "upload_not_unfinished"

    def __init__(self, upload_id: str) -> None:
        super().__init__(
            f"no unfinished upload {upload_id}: it may have ended; list the uploads again"
        )


class InvalidParts(CatalogError, ValueError):
    """A multipart upload cannot be completed with the given parts and stays open."""

    kind = "invalid_parts"


class PartsOutOfOrder(InvalidParts):
    """The part numbers are not strictly ascending."""

    kind = "parts_out_of_order"


class PartMissing(InvalidParts):
    """A listed part was not uploaded, or has different bytes."""

    kind = "part_missing"


class PartTooSmall(InvalidParts):
    """A part other than the last is too small."""

    kind = "part_too_small"


class ChecksumUnknown(InvalidParts):
    """An announced checksum of the object cannot be derived from the checksums of its parts."""

    kind = "checksum_unknown"

    def __init__(self, algorithm: str) -> None:
        super().__init__(
            f"the {algorithm} of the object cannot be checked: create the upload with this"
            " algorithm and a type that it supports"
        )


class TaskNotFound(CatalogError, NotFoundMixin):
    """The task does not exist: never begun, or its record has been removed."""

    kind = "task_not_found"

    def __init__(self, task: str) -> None:
        super().__init__(f"task not found: {task}")


class InvalidImport(CatalogError, ValueError):
    """An import whose parameters are invalid."""

    kind = "invalid_import"


class NothingToImport(InvalidImport):
    """A source has no objects; the branch is unchanged."""

    kind = "nothing_to_import"

    def __init__(self, place: object, strays: str = "") -> None:
        """`strays` describes files at the source that are not objects, if any."""
        why = (
            f"found only {strays}, which cannot be imported"
            if strays
            else "check the path, and that the server can list it"
        )
        super().__init__(f"nothing to import at {place}: {why}; the branch is unchanged")


class ImportOver(CatalogError):
    """An import that can no longer be canceled."""

    kind = "import_over"

    def __init__(self, import_id: str, how: str) -> None:
        super().__init__(f"import {import_id} cannot be canceled: it {how}")


class JobSilent(CatalogError):
    """The Spark job of an import sent no heartbeat for too long."""

    kind = "job_silent"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the Spark job of this import sent no heartbeat for {seconds:g} seconds: nothing was"
            " imported; start the import again"
        )


class InvalidPull(CatalogError, ValueError):
    """A pull request with invalid parameters or changes; nothing was done."""

    kind = "invalid_pull_request"


class PullNotFound(CatalogError, NotFoundMixin):
    """The repository has no such pull request."""

    kind = "pull_request_not_found"

    def __init__(self, pull_id: str) -> None:
        super().__init__(f"pull request not found: {pull_id}")


class PullStatusRefused(CatalogError):
    """The status of a pull request forbids the operation; nothing was done."""

    kind = "bad_pull_request_status"


class PullBusy(CatalogError):
    """A pull request is being merged or changed concurrently; retry in a moment."""

    kind = "pull_request_busy"

    def __init__(self, pull_id: str, how: str) -> None:
        super().__init__(f"pull request {pull_id} {how}: check its status, then retry")


class InvalidRun(CatalogError, ValueError):
    """A garbage collection run that does not exist, or is not yet prepared."""

    kind = "invalid_run"


class ClocksDiffer(CatalogError):
    """The clocks of the server and the storage differ by more than the settings allow."""

    kind = "clocks_differ"

    def __init__(self, seconds: float, how: str, skew_seconds: float) -> None:
        super().__init__(
            f"the clock of this server is {seconds:.0f} seconds {how} the storage's, more than"
            f" gc.skew_seconds ({skew_seconds:g}): nothing expires or is deleted until they agree"
        )


class InvalidSettings(CatalogError, ValueError):
    """Settings that contradict each other, named in the message."""

    kind = "invalid_settings"
