"""A request of an S3 client, as passed to its operation, and the answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import quote

import falcon

from lakebed.auth import Action, Context, Identity, Permission
from lakebed.auth.policy.actions import object_arn, repository_arn
from lakebed.block.store import ByteStream
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition
from lakebed.lake.errors import InvalidPath
from lakebed.lake.model import ObjectStats, check_path
from lakebed.lake.multipart.records import MultipartID, Target
from lakebed.lake.repeats import Invocation
from lakebed.lake.versions import UNCOMMITTED
from lakebed.server.http.bodies import Body as RawBody
from lakebed.server.http.conditions import invocation_of, write_condition
from lakebed.server.s3.encryption import ENCRYPTION_HEADER, shown_encryption
from lakebed.server.s3.environ import Environ, environ_key, parse_number
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.payload import Payload, open_body
from lakebed.server.s3.router import S3Route
from lakebed.server.s3.sigv4 import Verified
from lakebed.server.s3.xml_writer import XML_TYPE
from lakebed.server.services import Services
from lakebed.server.settings import LimitSettings

VERSION_ID: Final = "x-amz-version-id"
"""The header with the version of a read object."""

_DIGITS_MAX: Final = 15


class RefPath(NamedTuple):
    """The ref and path of a key."""

    ref: str
    path: bytes
    """Empty: the key consists of a ref only."""


@dataclass(frozen=True, slots=True)
class S3Reply:
    """The answer to a request."""

    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | ByteStream = b""


@dataclass(frozen=True, slots=True)
class S3Request:
    """An authenticated request; its body is verified as it is read."""

    services: Services
    environ: Environ
    route: S3Route
    verified: Verified[Identity]
    client: str
    form: Mapping[str, str] = field(default_factory=dict)
    """The fields of a form before its file."""
    file: Payload | None = None
    """The file of a form, the body of the request."""

    @property
    def identity(self) -> Identity:
        return self.verified.identity

    @property
    def repository(self) -> RepositoryID:
        return RepositoryID(self.route.bucket)

    @property
    def ref_path(self) -> RefPath:
        """The branch and path to write; the path is empty only for a branch as a folder.

        Raises:
            S3Error: `INVALID_ARGUMENT`: the key has no path. `KEY_TOO_LONG`.
        """
        found = ref_path_of(self.route.key)
        if not found.path and not self.is_branch_itself:
            raise S3Error(
                ErrorCode.INVALID_ARGUMENT,
                f'the key "{self.route.key}" must be <branch>/<path of an object>',
            )
        return found

    @property
    def version_id(self) -> str:
        """The version of the object; by default what the ref shows."""
        return self.route.query.get("versionId", UNCOMMITTED)

    @property
    def is_branch_itself(self) -> bool:
        """Whether the key names a branch as a folder: ``main/``."""
        ref, slash, path = self.route.key.partition("/")
        return bool(ref and slash and not path)

    @property
    def url(self) -> str:
        """The URL of the bucket or object, as the client reaches it."""
        http = falcon.Request(self.environ)
        bucket = f"/{self.route.bucket}" if self.route.is_path_style else ""
        key = quote(self.route.key, safe="/~")
        return f"{http.forwarded_scheme}://{http.forwarded_host}{bucket}/{key}"

    @property
    def upload(self) -> Target:
        branch, path = self.ref_path
        upload_id = MultipartID(self.route.query["uploadId"])
        return Target(self.repository, BranchID(branch), path, upload_id)

    @property
    def write_condition(self) -> Condition | None:
        """The condition of a write, or None if unconditional.

        Raises:
            S3Error: `NOT_IMPLEMENTED`: a condition that S3 does not support either.
        """
        absent = self.header("If-None-Match")
        if absent not in {None, "", "*"}:
            raise S3Error(
                ErrorCode.NOT_IMPLEMENTED,
                f'If-None-Match of a write must be "*", not "{absent[:100]}"',
            )
        return write_condition(self.environ)

    @property
    def invocation(self) -> Invocation | None:
        """The id shared by all attempts of this request, or None if the client sent none."""
        return invocation_of(self.identity.unique_id, self.environ)

    def amount(self, parameter: str, most: int) -> int:
        """Return the requested number of items, by default and at most `most`."""
        asked = self.number(parameter)
        return most if asked is None else min(asked, most)

    def number(self, parameter: str) -> int | None:
        """Return a number of the query, or None if the parameter is missing or empty.

        Raises:
            S3Error: `INVALID_ARGUMENT`: the parameter is not a number.
        """
        return _number(parameter, self.route.query.get(parameter) or None)

    def number_header(self, name: str) -> int | None:
        """Return the number in a header, or None if the header is missing."""
        return _number(name, self.header(name))

    def header(self, name: str) -> str | None:
        """Return a header of the request, or None if missing."""
        value: str | None = self.environ.get(environ_key(name.lower()))
        return value

    def headers(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the headers with a prefix: the rest of the name, and the value."""
        start = f"HTTP_{prefix.upper().replace('-', '_')}"
        for key, value in self.environ.items():
            if key.startswith(start):
                yield key.removeprefix(start).replace("_", "-").lower(), value

    def body(self, *, has_checksums: bool = True) -> Payload:
        """Return the body; `has_checksums` tells whether checksums in headers refer to it."""
        if self.file is not None:
            return self.file
        limits = self.services.settings.limits
        return open_body(
            self.environ,
            raw_body(self.environ, limits).chunks(),
            payload=self.verified.payload,
            scope=self.verified.scope,
            has_checksums=has_checksums,
        )

    @property
    def asks_for_encryption(self) -> bool:
        """Whether the request asks for encryption, which is then the configured one."""
        in_query = (name.lower().startswith(ENCRYPTION_HEADER) for name in self.route.query)
        return any(value for _, value in self.headers(ENCRYPTION_HEADER)) or any(in_query)

    def encryption_headers(self, stats: ObjectStats) -> Mapping[str, str]:
        """Return the headers that show the configured encryption, if the object has it."""
        return shown_encryption(self.services.catalog.encryption, stats)

    def authorize(self, action: Action, resource: str) -> None:
        """Check a permission of the user."""
        context = Context(source_ip=self.client)
        self.services.auth.authorize(self.identity, context, Permission(action, resource))

    def authorize_repository(self, action: Action) -> None:
        """Check a permission on the repository; see `authorize`."""
        self.authorize(action, repository_arn(self.repository))

    def authorize_object(self, action: Action, path: bytes) -> None:
        """Check a permission on an object; see `authorize`."""
        self.authorize(action, object_arn(self.repository, path.decode()))


def raw_body(environ: Environ, limits: LimitSettings) -> RawBody:
    """Return the body of a request as received."""
    return RawBody(
        environ, seconds_max=limits.transfer_seconds, rate_min=limits.body_bytes_per_second
    )


def ref_path_of(key: str) -> RefPath:
    """Return the ref and path of a key.

    Raises:
        S3Error: `KEY_TOO_LONG`.
    """
    ref, _, path = key.partition("/")
    encoded = path.encode()
    try:
        if encoded:  # else the key is a ref
            check_path(encoded)
    except InvalidPath as error:
        raise S3Error(ErrorCode.KEY_TOO_LONG, str(error)) from None
    return RefPath(ref, encoded)


def version_headers(name: str, version_id: str) -> dict[str, str]:
    """Return the header with the version that a request names; other reads do not know theirs.

    Finding the commit that changed an object last would cost a walk through the history.
    """
    return {} if version_id == UNCOMMITTED else {name: version_id}


def xml(body: bytes, headers: Mapping[str, str] | None = None) -> S3Reply:
    """Return an XML document as an answer."""
    return S3Reply(headers={"Content-Type": XML_TYPE, **(headers or {})}, body=body)


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    number = parse_number(text, digits_max=_DIGITS_MAX)
    if number is None:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, f'{name} must be a number, not "{text[:100]}"')
    return number
