"""Requests to S3 that neither obstore nor boto3 can send as needed.

boto3 signs them as URLs, and urllib3 sends them: uploads of a part from a stream that cannot be
rewound (boto3 would read it twice), and pages of a listing, which boto3 parses ten times slower
than this module.

A signed URL is as good as the credentials while it is valid. No message contains one, and errors of
urllib3, which quote the URL, are never attached as causes.
"""

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.compute as pc
import urllib3
from urllib3.exceptions import HTTPError

from lakebed.block.address import Address, Namespace
from lakebed.block.drivers.cloud.errors import Answer, Place, refusal
from lakebed.block.drivers.s3.errors import explained
from lakebed.block.errors import StorageUnavailable
from lakebed.block.store import LIST_SCHEMA, ETag, UploadId

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_URL_SECONDS: Final = 900
_TIMEOUT: Final = urllib3.Timeout(connect=5, read=60)
_READ_RETRIES: Final = urllib3.Retry(
    total=5, backoff_factor=0.1, backoff_jitter=0.1, status_forcelist=(500, 502, 503, 504)
)
_CONNECTIONS: Final = 64


class ListingPage(NamedTuple):
    """A page of a listing."""

    rows: pa.RecordBatch
    next_token: str | None
    """Token of the next page, or None for the last."""
    folders: list[str]
    """Prefixes of the folders in the namespace, ending in a slash; only by request."""


class SignedRequests:
    """Sends requests that boto3 signs."""

    def __init__(self, signer: "Callable[[], S3Client]") -> None:
        self._signer = signer
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS)

    def close(self) -> None:
        """Drop idle connections."""
        self._pool.clear()

    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterator[bytes],
        *,
        size: int,
    ) -> ETag:
        """Send one part, without retries; return its ETag.

        Raises:
            BlockError: The storage refused the part or did not answer.
        """
        response = self._send(
            "PUT",
            self.sign_part(address, upload_id, number, expires_seconds=_URL_SECONDS),
            address,
            body=chunks,
            headers={"Content-Length": str(size)},
            retries=False,
        )
        return ETag(response.headers.get("ETag", "").strip('"'))

    def sign_get(self, address: Address, *, expires_seconds: int) -> str:
        """Return a URL to read an object."""
        params = {"Bucket": address.parts.bucket, "Key": address.path}
        return self._sign("get_object", params, address, expires_seconds)

    def sign_part(
        self, address: Address, upload_id: UploadId, number: int, *, expires_seconds: int
    ) -> str:
        params = {
            "Bucket": address.parts.bucket,
            "Key": address.path,
            "UploadId": upload_id,
            "PartNumber": number,
        }
        return self._sign("upload_part", params, address, expires_seconds)

    def list_page(
        self, namespace: Namespace, after: str, token: str | None, *, by_folder: bool = False
    ) -> ListingPage:
        """Return the page at a token, or else the first page after a path.

        With `by_folder`, objects in folders are left out, and the folders are returned.

        Raises:
            BlockError: The storage refused the request or did not answer.
        """
        params = {
            "Bucket": namespace.parts.bucket,
            "Prefix": namespace.prefix,
            "EncodingType": "url",
        }
        if by_folder:
            params["Delimiter"] = "/"
        if token is not None:
            params["ContinuationToken"] = token
        elif after:
            params["StartAfter"] = after
        url = self._sign("list_objects_v2", params, namespace, _URL_SECONDS)
        return parse_page(self._send("GET", url, namespace, retries=_READ_RETRIES).data, namespace)

    def _sign(
        self, operation: str, params: Mapping[str, object], place: Place, expires_seconds: int
    ) -> str:
        with explained(place):
            return self._signer().generate_presigned_url(operation, params, expires_seconds)

    def _send(
        self,
        method: Literal["GET", "PUT"],
        url: str,
        place: Place,
        *,
        body: Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
        retries: urllib3.Retry | Literal[False],
    ) -> urllib3.BaseHTTPResponse:
        try:
            response = self._pool.request(
                method, url, body=body, headers=headers, timeout=_TIMEOUT, retries=retries
            )
        except HTTPError as error:
            reason = type(error).__name__
            raise StorageUnavailable(f"no response to a request for {place}: {reason}") from None
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise refusal(Answer(response.status, _error_code(response.data)), place)
        return response


def _error_code(document: bytes) -> str:
    try:
        return _xml(document).findtext("{*}Code") or ""
    except ET.ParseError:
        return ""


def _xml(document: bytes) -> ET.Element:
    return ET.fromstring(document)  # noqa: S314 - from a storage that is trusted with the data


def parse_page(document: bytes, namespace: Namespace) -> ListingPage:
    """Parse a ListBucketResult.

    Raises:
        StorageUnavailable: The document is malformed or incomplete. Nothing is skipped or guessed:
            garbage collection relies on complete listings.
    """
    try:
        return _page(_xml(document), namespace)
    except (ET.ParseError, ValueError, OverflowError) as error:
        raise StorageUnavailable(f"invalid listing of {namespace}: {error}") from error


def _page(root: ET.Element, namespace: Namespace) -> ListingPage:
    schema, brace, name = root.tag.rpartition("}")
    schema += brace
    if name != "ListBucketResult":
        raise ValueError("not a ListBucketResult")
    encoded = root.findtext(f"{schema}EncodingType") == "url"
    entries = root.findall(f"{schema}Contents")
    keys = [_text(entry, f"{schema}Key") for entry in entries]
    prefixes = [_text(each, f"{schema}Prefix") for each in root.findall(f"{schema}CommonPrefixes")]
    paths, folders = keys, prefixes
    if encoded:
        paths = [unquote_plus(key, errors="strict") for key in keys]
        folders = [unquote_plus(prefix, errors="strict") for prefix in prefixes]
    sizes = [int(_text(entry, f"{schema}Size")) for entry in entries]
    times = [_text(entry, f"{schema}LastModified") for entry in entries]
    # Storages may omit ETags: garbage collection does not use them.
    etags = [(entry.findtext(f"{schema}ETag") or "").strip('"') for entry in entries]
    columns = [
        pa.array([f"{namespace.store}/{path}" for path in paths], pa.string()),
        pa.array(sizes, pa.int64()),
        pc.cast(pa.array(times, pa.string()), LIST_SCHEMA.field("mtime").type),
        pa.array(etags, pa.string()),
    ]
    rows = pa.record_batch(columns, schema=LIST_SCHEMA)
    match _text(root, f"{schema}IsTruncated"):
        case "true":
            return ListingPage(rows, _text(root, f"{schema}NextContinuationToken"), folders)
        case "false":
            return ListingPage(rows, None, folders)
        case _:
            raise ValueError("IsTruncated is neither true nor false")


def _text(element: ET.Element, tag: str) -> str:
    text = element.findtext(tag)
    if not text:
        raise ValueError(f"missing element {tag}")
    return text
