"""A store in a bucket of Google Cloud Storage, shared by any number of processes and machines.

``gs://bucket``. The bucket must exist; a bucket with foreign objects is rejected. Credentials come
from Google's default credentials. ``?endpoint=http://127.0.0.1:4443`` selects a server other than
Google's, which gets no credentials.

See `lakebed.kv.objects` for how records are stored, compared and deleted. Google compares the
generation of an object, and refuses tokens older than an hour.

**Durability.** Google acknowledges a write when it is stored. Reads and listings are consistent. A
bucket with rules that delete objects, or prevent replacing them, is rejected.

**Limits.** An object name has at most 1,024 bytes. So uploads of objects with names longer than
about 500 bytes are rejected. An object can be written once a second; Google refuses faster writes,
and they are retried: a branch takes about a commit a second.
"""

import re
from contextlib import suppress
from typing import Final

from google.api_core.exceptions import GoogleAPICallError, NotFound, PreconditionFailed
from google.api_core.page_iterator import HTTPIterator
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage import Blob, Bucket, Client
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import Failures
from lakebed.kv.drivers.requests_errors import failed_to_connect
from lakebed.kv.errors import ForeignStore, InvalidArgument, StoreUnavailable, UnsafeStore
from lakebed.kv.fenced import FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.objects import FIELD, SEPARATOR, Found, ObjectCells, decode
from lakebed.kv.store import PARTITIONS_PAGE, Store
from lakebed.kv.urls import split_url

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
CONNECTIONS: Final = 64

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_EXAMPLE: Final = "gs://bucket"
_ABSENT: Final = 0
"""The generation of a missing object."""
_FIELDS: Final = "items(name,generation,metadata),prefixes,nextPageToken"
_GONE: Final = "The specified bucket does not exist"
_SERVER_ERROR: Final = 500
_ERRORS: Final = (GoogleAPICallError, GoogleAuthError, RequestException)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a bucket; see `lakebed.kv.open_store`."""
    return FencedStore(GCSCells(url, runtime), runtime)


class GCSCells(ObjectCells):
    """The objects of a bucket."""

    name = "gs"

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        """Connect, and check the bucket. Raises as `lakebed.kv.open_store`."""
        super().__init__(runtime)
        # A retry inside the library could be applied twice, the second time unfenced.
        self._once: dict[str, object] = {"timeout": (CONNECT_SECONDS, reply_seconds), "retry": None}
        name, endpoint = _parse_url(url)
        self._client = _connect(endpoint)
        self._bucket = self._client.bucket(name)
        with closing_on_error(self.close):
            self._check_bucket()

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        def ask() -> tuple[list[str], str | None]:
            pages = self._pages(delimiter=SEPARATOR, page_token=cursor.decode() or None)
            next(pages.pages, None)
            return list(pages.prefixes), pages.next_page_token

        names, token = _FAILURES.read(ask)
        found = [decode(name.removesuffix(SEPARATOR)) for name in names]
        return found, token.encode() if token else None

    def close(self) -> None:
        self._client.close()

    def _head(self, name: str) -> Found | None:
        def ask() -> Found | None:
            blob = self._bucket.blob(name)
            try:
                blob.reload(**self._once)
            except NotFound as error:
                if _GONE in str(error):
                    raise  # a deleted bucket must not look like a missing key
                return None
            return _found(blob)

        return _FAILURES.read(ask)

    def _body(self, found: Found) -> bytes | None:
        def ask() -> bytes | None:
            blob = self._bucket.blob(found.name)
            with suppress(NotFound, PreconditionFailed):
                body: bytes = blob.download_as_bytes(
                    if_generation_match=int(found.etag), checksum=None, **self._once
                )
                return body
            return None

        return _FAILURES.read(ask)

    def _put(
        self, name: str, etag: str | None, metadata: dict[str, str], body: bytes
    ) -> str | None:
        blob = self._bucket.blob(name)
        blob.metadata = metadata
        generation = _ABSENT if etag is None else int(etag)
        try:
            blob.upload_from_string(
                body, if_generation_match=generation, checksum=None, **self._once
            )
        except PreconditionFailed:
            return None
        except _ERRORS as error:
            raise _FAILURES.of_write(error) from error
        return str(blob.generation)

    def _list(
        self, prefix: str, first: str, limit: int, token: str | None
    ) -> tuple[list[Found], str | None]:
        def ask() -> tuple[list[Found], str | None]:
            pages = self._pages(
                prefix=prefix, start_offset=first, page_size=limit, page_token=token
            )
            return [_found(blob) for blob in next(pages.pages, ())], pages.next_page_token

        return _FAILURES.read(ask)

    def _remove(self, name: str, etag: str) -> None:
        try:
            with suppress(NotFound, PreconditionFailed):
                self._bucket.blob(name).delete(if_generation_match=int(etag), **self._once)
        except _ERRORS as error:
            raise _FAILURES.of_write(error) from error

    def _pages(self, *, page_size: int = PARTITIONS_PAGE, **which: object) -> HTTPIterator:
        return self._client.list_blobs(
            self._bucket, page_size=page_size, fields=_FIELDS, **which, **self._once
        )

    def _check_bucket(self) -> None:
        name = self._bucket.name
        try:
            _FAILURES.read(lambda: self._bucket.reload(**self._once))
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, NotFound):
                raise
            raise StoreUnavailable(
                f"the bucket {name} does not exist: create an empty one"
            ) from error
        check_rules(self._bucket)
        some, _ = self._list("", "", 1, None)
        if any(FIELD not in found.metadata for found in some):
            raise ForeignStore(f"the bucket {name} is not empty, and not a Lakebed store")


def check_rules(bucket: Bucket) -> None:
    """Reject a bucket with rules that delete objects, or prevent replacing them."""
    wrong = [
        "a lifecycle rule deletes objects"
        for rule in bucket.lifecycle_rules
        if rule["action"].get("type") == "Delete" and not _is_noncurrent_only(rule["condition"])
    ]
    if bucket.retention_period:
        wrong.append("its retention policy prevents replacing objects")
    if bucket.default_event_based_hold:
        wrong.append("event-based holds are enabled by default")
    if bucket.requester_pays:
        wrong.append("requester-pays is enabled, which is not supported")
    if wrong:
        raise UnsafeStore(f"the bucket {bucket.name} cannot be a store: {'; '.join(wrong)}")


def _is_noncurrent_only(condition: dict[str, object]) -> bool:
    """Return whether a lifecycle rule applies only to noncurrent versions."""
    return condition.get("isLive") is False or any(
        name in condition
        for name in ("numNewerVersions", "daysSinceNoncurrentTime", "noncurrentTimeBefore")
    )


def _parse_url(url: str) -> tuple[str, str | None]:
    """Return the bucket, and the endpoint if it is not Google's."""
    parts, options = split_url(url, options={"endpoint"}, example=_EXAMPLE)
    if not _BUCKET.fullmatch(parts.netloc) or parts.path.strip("/"):
        # Do not quote the URL: it may contain credentials.
        raise InvalidArgument(
            f"the URL does not name a bucket: use {_EXAMPLE}; credentials come from the environment"
        )
    return parts.netloc, options.get("endpoint")


def _connect(endpoint: str | None) -> Client:
    try:
        if endpoint is None:
            client = Client()
        else:
            client = Client(
                "none",
                credentials=AnonymousCredentials(),
                client_options={"api_endpoint": endpoint},
            )
    except (GoogleAuthError, OSError) as error:
        raise InvalidArgument(f"no credentials for Google: {error}") from error
    adapter = HTTPAdapter(pool_maxsize=CONNECTIONS)
    for scheme in ("https://", "http://"):
        client._http.mount(scheme, adapter)  # noqa: SLF001 - the default is ten connections
    return client


def _was_refused(error: Exception) -> bool:
    return isinstance(error, GoogleAPICallError) and 0 < (error.code or 0) < _SERVER_ERROR


def _was_not_sent(error: Exception) -> bool:
    return isinstance(error, GoogleAuthError) or failed_to_connect(error)


_FAILURES: Final = Failures("Google", _ERRORS, was_refused=_was_refused, was_not_sent=_was_not_sent)


def _found(blob: Blob) -> Found:
    return Found(blob.name, blob.metadata or {}, str(blob.generation))
