"""Presigned URLs for storages that do not sign URLs themselves, and the handler that serves them.

A URL contains, signed, a method, an address, an expiry time and, for reads, the size of the object.
The URL is the only credential needed. A write creates an object once and never replaces one. A read
fails if the object has another size.

The URL of a part of a multipart upload contains the upload and the part number instead. A part can
be sent again until the upload is completed or aborted; afterwards the storage refuses it.
"""

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import falcon

from lakebed.auth import AuthenticationFailed
from lakebed.base.runtime import Runtime
from lakebed.block import (
    PART_BYTES_MAX,
    Address,
    AlreadyExists,
    BlockStore,
    ByteRange,
    ByteStream,
    PutResult,
    UploadId,
    WrittenPart,
)
from lakebed.lake.errors import ChangedBytes
from lakebed.server.http.admission import Admission
from lakebed.server.http.bodies import Body, BodyTooLarge, LengthRequired
from lakebed.server.http.conditions import etag, http_date, requested_range, select_bytes
from lakebed.server.http.dispositions import ATTACHMENT
from lakebed.server.http.errors import answer_error
from lakebed.server.http.request import current_record
from lakebed.server.settings import LimitSettings

PATH: Final = "/presigned/"
PART_PATH: Final = f"{PATH}part/"
_OPERATION: Final = "presigned"
_PART: Final = "PART"  # no method of HTTP: such a token never opens a whole object
_PURPOSE: Final = b"presigned URLs"


class Opened(NamedTuple):
    """Content of a valid token."""

    address: Address
    size: int | None
    """The required size of the object in bytes; None: unknown."""


class OpenedPart(NamedTuple):
    """Content of a valid token for a part of an upload."""

    address: Address
    upload_id: UploadId
    number: int


class URLSigner:
    """Creation and verification of presigned URLs."""

    def __init__(self, server_key: bytes) -> None:
        # A derived key: signatures made for one purpose are invalid for all others.
        self._key = hmac.digest(server_key, _PURPOSE, hashlib.sha256)

    def sign(self, method: str, address: Address, expires: int, size: int | None = None) -> str:
        """Return the path of a URL that gives access to an address until it expires."""
        return PATH + self._token(method, str(address), expires, size)

    def sign_part(
        self, address: Address, upload_id: UploadId, number: int, expires: int, life_seconds: int
    ) -> str:
        """Return the path of a URL to upload a part.

        The query repeats the expiry time, as in S3: clients read it there, and without it request a
        new URL for every part. The server ignores the query.
        """
        token = self._token(_PART, str(address), expires, upload_id, number)
        begun = datetime.fromtimestamp(expires - life_seconds, UTC)
        date = f"{begun:%Y%m%dT%H%M%SZ}"
        return f"{PART_PATH}{token}?X-Amz-Date={date}&X-Amz-Expires={life_seconds}"

    def open(self, method: str, token: str, now: float) -> Opened:
        """Return the content of a token.

        Raises:
            AuthenticationFailed: The token is forged, expired, or for another method.
        """
        address, *size = self._content(method, token, now)
        return Opened(Address.parse(address), size[0] if size else None)

    def open_part(self, token: str, now: float) -> OpenedPart:
        """Return the content of a token for a part."""
        address, upload_id, number = self._content(_PART, token, now)
        return OpenedPart(Address.parse(address), UploadId(upload_id), number)

    def _token(self, method: str, address: str, expires: int, *more: str | int | None) -> str:
        content = json.dumps([method, address, expires, *more]).encode()
        return _text(content) + "." + _text(self._mac(content))

    def _content(self, method: str, token: str, now: float) -> list[Any]:
        """Verify a token and its expiry; return the signed address and further values."""
        content_text, _, mac_text = token.partition(".")
        try:
            content, mac = urlsafe_b64decode(content_text), urlsafe_b64decode(mac_text)
        except ValueError:
            raise AuthenticationFailed from None
        if not hmac.compare_digest(mac, self._mac(content)):
            raise AuthenticationFailed
        allowed, address, expires, *more = json.loads(content)
        if method != allowed or now >= expires:
            raise AuthenticationFailed
        return [address, *more]

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, hashlib.sha256)


class PresignedHandler:
    """HTTP handler of presigned URLs."""

    def __init__(
        self,
        signer: URLSigner,
        block: BlockStore,
        runtime: Runtime,
        limits: LimitSettings,
        admission: Admission,
    ) -> None:
        self._signer = signer
        self._block = block
        self._runtime = runtime
        self._limits = limits
        self._admission = admission

    def on_get(self, request: falcon.Request, response: falcon.Response, token: str) -> None:
        """Return an object, or a part of it."""
        try:
            wanted = requested_range(request.get_header("Range"))
            opened = self._open(request, token)
            written = self._block.head(opened.address).mtime
            stream = self._read(opened, wanted)
            selection = select_bytes(wanted, stream.object_size)
        except Exception as error:  # noqa: BLE001 - the last place that can tell the client
            answer_error(error, _OPERATION, response)
            return
        response.status = selection.status
        headers = {
            "Accept-Ranges": "bytes",
            "Content-Disposition": ATTACHMENT,
            "Last-Modified": http_date(written),
        }
        response.set_headers(headers | selection.headers)
        response.content_type = "application/octet-stream"
        response.set_stream(stream, selection.length)

    def on_put(self, request: falcon.Request, response: falcon.Response, token: str) -> None:
        """Store an object."""
        try:
            stored = self._store(request, self._open(request, token).address)
        except Exception as error:  # noqa: BLE001 - the last place that can tell the client
            answer_error(error, _OPERATION, response)
            return
        response.set_header("ETag", etag(stored.md5))

    def on_put_part(self, request: falcon.Request, response: falcon.Response, token: str) -> None:
        """Store a part of an upload."""
        try:
            self._admit()
            opened = self._signer.open_part(token, self._runtime.now())
            stored = self._store_part(request, opened)
        except Exception as error:  # noqa: BLE001 - the last place that can tell the client
            answer_error(error, _OPERATION, response)
            return
        response.set_header("ETag", etag(stored.etag))

    def _read(self, opened: Opened, wanted: ByteRange | None) -> ByteStream:
        address, size = opened
        stream = self._block.get(address, byte_range=wanted)
        if size in {None, stream.object_size}:
            return stream
        stream.close()
        found = f"has {stream.object_size} bytes instead of {size}"
        raise ChangedBytes(address.path.encode(), address, found)

    def _store(self, request: falcon.Request, address: Address) -> PutResult:
        if self._block.exists(address):
            raise AlreadyExists(address)
        body = self._body(request)
        # Never replace an object created meanwhile: it may be linked and committed by now.
        return self._block.put_new(address, body.chunks())

    def _store_part(self, request: falcon.Request, opened: OpenedPart) -> WrittenPart:
        body = self._body(request)
        if body.length is None:
            raise LengthRequired
        if body.length > PART_BYTES_MAX:
            raise BodyTooLarge(PART_BYTES_MAX)
        return self._block.put_part(*opened, body.chunks(), size=body.length)

    def _body(self, request: falcon.Request) -> Body:
        return Body(
            request.env,
            seconds_max=self._limits.transfer_seconds,
            rate_min=self._limits.body_bytes_per_second,
        )

    def _open(self, request: falcon.Request, token: str) -> Opened:
        self._admit()
        return self._signer.open(request.method, token, self._runtime.now())

    def _admit(self) -> None:
        record = current_record()
        assert record is not None, "called outside of the pipeline"
        record.operation = _OPERATION
        self._admission.admit(record, is_transfer=True)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()
