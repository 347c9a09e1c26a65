"""What a copy is made from: the header ``x-amz-copy-source`` and the conditions beside it."""

from typing import NamedTuple
from urllib.parse import unquote

from lakebed.catalog.model import ObjectStats
from lakebed.catalog.nouns import Condition, Entry, RepositoryID
from lakebed.server.s3.call import Call, place_of
from lakebed.server.s3.conditions import Verdict, judge
from lakebed.server.s3.errors import ErrorCode, S3Error


class CopySource(NamedTuple):
    """The object to copy."""

    repository: RepositoryID
    ref: str
    path: bytes


def copy_source(call: Call) -> CopySource:
    """Return what a request asks to copy.

    Raises:
        S3Error: The header does not name an object.
    """
    header, _, version = (call.header("x-amz-copy-source") or "").partition("?")
    if version.removeprefix("versionId=") not in {"", "null"}:
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "objects have no version ids; name a commit")
    try:
        text = unquote(header, errors="strict").removeprefix("/")
    except UnicodeDecodeError:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "x-amz-copy-source is not UTF-8") from None
    bucket, _, key = text.partition("/")
    ref, path = place_of(key)
    if not (bucket and ref and path) or "\0" in text:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT, "x-amz-copy-source must be <repository>/<ref>/<path>"
        )
    return CopySource(RepositoryID(bucket), ref, path)


def source_condition(call: Call) -> Condition:
    """Return the conditions that a request has on the object to copy."""

    def header(name: str) -> str | None:
        return call.header(f"x-amz-copy-source-{name}")

    def holds(found: Entry | None) -> bool:
        return found is not None and judge(found, header) is Verdict.GO_ON

    return holds


def check_source(call: Call, stats: ObjectStats) -> None:
    """Refuse to copy from an object that does not meet the conditions.

    Raises:
        S3Error: `PRECONDITION_FAILED`.
    """
    if judge(stats, lambda name: call.header(f"x-amz-copy-source-{name}")) is not Verdict.GO_ON:
        raise S3Error(ErrorCode.PRECONDITION_FAILED)
