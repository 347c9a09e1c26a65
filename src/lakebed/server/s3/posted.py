"""PostObject: an object in a form, as browsers send it, signed by a policy in the form's fields.

The policy is a JSON document in base 64 with an expiry and conditions on the fields. Its signature
is the authentication. The fields before the file take the place of the headers of a PutObject: an
`Upload` is a request to put the file, and is answered by the same code.

Until the signature is verified, the client is unauthenticated: the fields are bounded in size.
"""

import json
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from lakebed.lake.checksums import tee
from lakebed.server.http.bodies import Body, MalformedBody
from lakebed.server.http.forms import FormFile, form_file
from lakebed.server.s3.body_checksums import checksum_values
from lakebed.server.s3.encryption import encryption_headers
from lakebed.server.s3.environ import Environ, environ_key
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.payload import Payload, expected_checksums
from lakebed.server.s3.request import S3Request
from lakebed.server.s3.tagging import HEADER as TAGGING
from lakebed.server.s3.tagging import as_header
from lakebed.server.s3.unsupported import check_headers

_FIELDS_BYTES_MAX: Final = 20 << 10
"""As in S3."""
_FILE: Final = "file"
_FILENAME: Final = "${filename}"
_NEEDS_NO_CONDITION: Final = frozenset({"policy", "x-amz-signature"})
_IGNORED_PREFIX: Final = "x-ignore-"
_HEADERS: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    }
)
"""Fields that are headers of the object. Fields with the prefix ``x-amz-`` are headers too."""
_OBJECT_KEYS: Final = frozenset(map(environ_key, _HEADERS))
"""The same headers of the request itself: the policy does not cover them."""
_PREFIX: Final = "x-amz-"


@dataclass(frozen=True, slots=True)
class Upload:
    """The parts of a form with an object."""

    fields: Mapping[str, str]
    """The fields before the file, by name in lower case."""
    file: FormFile

    def as_put(self, request: S3Request, now: datetime) -> S3Request:
        """Return the request that the form stands for: headers, route and body.

        Raises:
            S3Error: The policy has expired or does not allow the fields; the form has no key, or
                asks for a missing feature.
        """
        key = self.fields.get("key")
        if not key:
            raise S3Error(ErrorCode.INVALID_ARGUMENT, "the form needs a field key before the file")
        sizes = Policy.parse(self.fields["policy"]).allowed_sizes(
            {**self.fields, "bucket": request.route.bucket}, now
        )
        headers = {
            name: value
            for name, value in self.fields.items()
            if name in _HEADERS or name.startswith(_PREFIX)
        }
        if "acl" in self.fields:
            headers["x-amz-acl"] = self.fields["acl"]
        if "tagging" in self.fields:
            headers[TAGGING] = as_header(self.fields["tagging"])
        kept = {
            name: value
            for name, value in request.environ.items()
            if name not in _OBJECT_KEYS and not name.startswith("HTTP_X_AMZ_")
        }
        sent = {name: value.encode().decode("latin-1") for name, value in headers.items()}
        put = {**kept, **{environ_key(name): value for name, value in sent.items()}}
        check_headers(put, {}, encryption_headers(request.services.catalog.encryption))
        return replace(
            request,
            environ=put,
            route=replace(request.route, key=key),
            form=self.fields,
            file=_payload(put, self.file.chunks, sizes),
        )


def read_form(environ: Environ, body: Body) -> Upload:
    """Return the form in a body, read up to the file.

    Raises:
        S3Error: `MALFORMED_POST_REQUEST`: the body is not a form with a file.
        BodyError: The body was cut, or is too slow.
    """
    try:
        file = form_file(
            body,
            environ.get("CONTENT_TYPE", ""),
            field=_FILE,
            fields_bytes_max=_FIELDS_BYTES_MAX,
        )
    except MalformedBody as error:
        raise S3Error(ErrorCode.MALFORMED_POST_REQUEST, str(error)) from error
    name = (file.filename or "").replace("\\", "/").rpartition("/")[2]
    fields: dict[str, str] = {}
    for field, value in file.fields:
        if field.lower() in fields:
            raise S3Error(
                ErrorCode.MALFORMED_POST_REQUEST, f'the form has the field "{field[:50]}" twice'
            )
        fields[field.lower()] = value.replace(_FILENAME, name)
    return Upload(fields, file)


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a form."""

    expires: datetime
    conditions: list[Any]

    @classmethod
    def parse(cls, text: str) -> "Policy":
        """Parse a policy in base 64; raise `S3Error` if it is invalid."""
        try:
            found = json.loads(b64decode(text, validate=True))
            expires = datetime.fromisoformat(found["expiration"])
            conditions = found["conditions"]
        except (ValueError, TypeError, LookupError, RecursionError):
            raise S3Error(
                ErrorCode.INVALID_POLICY_DOCUMENT,
                "the policy must be a JSON object in base 64 with expiration and conditions",
            ) from None
        if not isinstance(conditions, list):
            raise _invalid(conditions)
        return cls(expires if expires.tzinfo else expires.replace(tzinfo=UTC), conditions)

    def allowed_sizes(self, fields: Mapping[str, str], now: datetime) -> range:
        """Check the fields; return the allowed sizes of the file."""
        if now >= self.expires:
            raise S3Error(ErrorCode.ACCESS_DENIED, "the policy has expired; sign a new one")
        checked = set(_NEEDS_NO_CONDITION)
        smallest, largest = 0, sys.maxsize - 1
        for condition in self.conditions:
            match condition:
                case ["content-length-range", int(low), int(high)]:
                    smallest, largest = max(smallest, low), min(largest, high)
                    continue
                case ["eq" | "starts-with" as operator, str(name), str() | int() as value] if (
                    name.startswith("$")
                ):
                    tests = [(operator, name[1:], value)]
                case dict():
                    tests = [("eq", name, value) for name, value in condition.items()]
                case _:
                    raise _invalid(condition)
            for operator, name, value in tests:
                checked.add(name.lower())
                given = fields.get(name.lower(), "")
                is_start = operator == "starts-with" and given.startswith(str(value))
                if not (is_start or given == str(value)):
                    raise S3Error(
                        ErrorCode.ACCESS_DENIED,
                        f"the form does not meet the condition {json.dumps(condition)[:200]}",
                    )
        extra = sorted(
            name for name in fields.keys() - checked if not name.startswith(_IGNORED_PREFIX)
        )
        if extra:
            raise S3Error(
                ErrorCode.ACCESS_DENIED, f"the policy has no condition for {', '.join(extra)[:200]}"
            )
        return range(smallest, largest + 1)


def _invalid(condition: object) -> S3Error:
    return S3Error(
        ErrorCode.INVALID_POLICY_DOCUMENT,
        f"the policy has the invalid condition {json.dumps(condition)[:200]}; use eq, starts-with"
        " or content-length-range",
    )


def _payload(environ: Environ, chunks: Iterator[bytes], sizes: range) -> Payload:
    """Return the file of a form as a body; the form does not announce its size."""
    given = checksum_values(environ)
    expected = expected_checksums(given)

    def pieces() -> Iterator[bytes]:
        size = 0
        for piece in tee(chunks, [each.digest for each in expected]):
            size += len(piece)
            if size >= sizes.stop:
                raise S3Error(
                    ErrorCode.ENTITY_TOO_LARGE,
                    f"the policy allows files of at most {sizes.stop - 1} bytes",
                )
            yield piece
        if size < sizes.start:
            raise S3Error(
                ErrorCode.ENTITY_TOO_SMALL,
                f"the file has {size} bytes; the policy requires at least {sizes.start}",
            )
        for each in expected:
            each.check()

    return Payload(pieces(), sizes.stop - 1, checksums=given)
