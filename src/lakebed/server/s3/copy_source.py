"""The source of a copy: the header ``x-amz-copy-source`` and its conditions."""

from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from lakebed.engine.model import RepositoryID
from lakebed.engine.staging.writer import Condition
from lakebed.formats import Entry
from lakebed.lake.model import ObjectStats, etag_of
from lakebed.lake.versions import UNCOMMITTED
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.read_conditions import ConditionResult, evaluate
from lakebed.server.s3.request import S3Request, ref_path_of, version_headers


class CopySource(NamedTuple):
    """The object to copy."""

    repository: RepositoryID
    ref: str
    path: bytes
    version_id: str

    @property
    def headers(self) -> dict[str, str]:
        """The header of an answer that tells the version copied, if requested."""
        return version_headers("x-amz-copy-source-version-id", self.version_id)


def copy_source(request: S3Request) -> CopySource:
    """Return the source of a copy request."""
    header, has_version, version = (request.header("x-amz-copy-source") or "").partition("?")
    version_id = version.removeprefix("versionId=") if has_version else UNCOMMITTED
    try:
        text = unquote(header, errors="strict").removeprefix("/")
    except UnicodeDecodeError:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "x-amz-copy-source must be UTF-8") from None
    bucket, _, key = text.partition("/")
    ref, path = ref_path_of(key)
    if not (bucket and ref and path) or "\0" in text:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            f'x-amz-copy-source must be <repository>/<ref>/<path>, not "{text[:100]}"',
        )
    return CopySource(RepositoryID(bucket), ref, path, version_id)


def source_condition(request: S3Request) -> Condition:
    """Return the condition of a request on the source of a copy."""

    def holds(found: Entry | None) -> bool:
        if found is None:
            return False
        return _holds(request, replace(found, checksum=etag_of(found)))

    return holds


def check_source(request: S3Request, stats: ObjectStats) -> None:
    """Check the conditions of a request on the source of a copy."""
    if not _holds(request, stats):
        raise S3Error(ErrorCode.PRECONDITION_FAILED)


def _holds(request: S3Request, found: ObjectStats | Entry) -> bool:
    return (
        evaluate(found, lambda name: request.header(f"x-amz-copy-source-{name}"))
        is ConditionResult.GO_ON
    )
