"""One request to the gateway, as its operation sees it, and the answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple

from lakebed.auth import Action, Context, Identity, Permission
from lakebed.auth.policy.actions import object_arn, repository_arn
from lakebed.catalog.model import PATH_BYTES_MAX
from lakebed.catalog.multipart.records import MultipartID, Target
from lakebed.catalog.nouns import BranchID, ByteStream, RepositoryID
from lakebed.server.http.bodies import Body as RawBody
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.payload import Body, open_body
from lakebed.server.s3.router import Route
from lakebed.server.s3.sigv4 import Environ, Verified, environ_key
from lakebed.server.services import Services

XML_TYPE: Final = "application/xml"
_DIGITS_MAX: Final = 10


class Place(NamedTuple):
    """What a key stands for."""

    ref: str
    path: bytes
    """Empty: the ref itself."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | ByteStream = b""


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose sender is known; its body proves itself as it is read."""

    services: Services
    environ: Environ
    route: Route
    verified: Verified[Identity]
    client: str
    """The address that the request comes from."""

    @property
    def identity(self) -> Identity:
        """Who is asking."""
        return self.verified.identity

    @property
    def repository(self) -> RepositoryID:
        """The repository that stands for the bucket."""
        return RepositoryID(self.route.bucket)

    @property
    def place(self) -> Place:
        """What the key stands for.

        Raises:
            S3Error: It is too long.
        """
        return place_of(self.route.key)

    @property
    def is_branch_itself(self) -> bool:
        """Whether the key is that of a branch as a folder: ``main/``."""
        ref, slash, path = self.route.key.partition("/")
        return bool(ref and slash and not path)

    @property
    def upload(self) -> Target:
        """The multipart upload that the request is about."""
        branch, path = self.place
        upload_id = MultipartID(self.route.query["uploadId"])
        return Target(self.repository, BranchID(branch), path, upload_id)

    def amount(self, parameter: str, default: int) -> int:
        """Return a number of the query; above the default, which is also the most, it is that.

        Raises:
            S3Error: `INVALID_ARGUMENT`: it is not a number.
        """
        text = self.route.query.get(parameter) or str(default)
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            raise S3Error(ErrorCode.INVALID_ARGUMENT, f"{parameter} must be a number")
        return min(int(text), default)

    def header(self, name: str) -> str | None:
        """Return a header of the request."""
        value: str | None = self.environ.get(environ_key(name.lower()))
        return value

    def headers(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Iterate over the headers whose names begin so: the rest of the name, in lower case."""
        start = f"HTTP_{prefix.upper().replace('-', '_')}"
        for key, value in self.environ.items():
            if key.startswith(start):
                yield key.removeprefix(start).replace("_", "-").lower(), value

    def body(self, *, has_checksums: bool = True) -> Body:
        """Return the body of the request; `has_checksums`: those of headers are of the body.

        Raises:
            S3Error: The headers that describe it make no sense.
        """
        seconds_max = self.services.settings.limits.transfer_seconds
        raw = RawBody(self.environ, seconds_max=seconds_max)
        return open_body(
            self.environ,
            raw.unproven_chunks(),
            payload=self.verified.payload,
            scope=self.verified.scope,
            has_checksums=has_checksums,
        )

    def authorize(self, action: Action, resource: str) -> None:
        """Let the sender do something, or not.

        Raises:
            Denied: The sender's policies do not allow it.
        """
        context = Context(source_ip=self.client)
        self.services.auth.authorize(self.identity, context, Permission(action, resource))

    def authorize_repository(self, action: Action) -> None:
        """As `authorize`, of the repository."""
        self.authorize(action, repository_arn(self.repository))

    def authorize_object(self, action: Action, path: bytes) -> None:
        """As `authorize`, of an object in the repository."""
        self.authorize(action, object_arn(self.repository, path.decode()))


def place_of(key: str) -> Place:
    """Return what a key stands for.

    Raises:
        S3Error: It is too long.
    """
    ref, _, path = key.partition("/")
    encoded = path.encode()
    if len(encoded) > PATH_BYTES_MAX:
        raise S3Error(
            ErrorCode.KEY_TOO_LONG, f"a key has at most {PATH_BYTES_MAX} bytes behind its ref"
        )
    return Place(ref, encoded)


def xml(body: bytes) -> Reply:
    """Return a document as an answer."""
    return Reply(headers={"Content-Type": XML_TYPE}, body=body)
