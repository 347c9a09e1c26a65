"""Driver for S3: objects by obstore; copies, listings, uploads and bulk deletes by boto3.

boto3 also handles objects with empty segments in their paths (``in//x``, ``dir/``), which obstore
cannot represent. Such objects are written only by multipart uploads.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypedDict
from urllib.parse import urlsplit, urlunsplit

import boto3
import pyarrow as pa
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from obstore.auth.boto3 import Boto3CredentialProvider
from obstore.store import S3Store

from lakebed.base.runtime import Runtime
from lakebed.block.address import Address, Namespace, StoreName
from lakebed.block.drivers.cloud.errors import Answer, refusal
from lakebed.block.drivers.cloud.store import (
    CloudBlockStore,
    check_endpoint,
    check_expiry,
    client_options,
    folders_in_order,
    has_empty_segment,
)
from lakebed.block.drivers.cloud.streams import MeasuredChunks, delayed_by_one
from lakebed.block.drivers.s3.errors import answer_of, explain, explained
from lakebed.block.drivers.s3.wire import SignedRequests
from lakebed.block.errors import (
    Archived,
    BlockError,
    Forbidden,
    InvalidAddress,
    InvalidArgument,
    Locked,
    ObjectNotFound,
    PreconditionFailed,
    StorageClosed,
    StorageUnavailable,
    UploadNotFound,
)
from lakebed.block.settings import S3Settings
from lakebed.block.store import (
    PART_BYTES_MAX,
    DeleteResult,
    ETag,
    ObjectInfo,
    Part,
    PartInfo,
    Upload,
    UploadId,
    WrittenPart,
)
from lakebed.block.streams import CHUNK_BYTES, check_order, check_part_number, exactly

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from obstore.store import RetryConfig, S3Config
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import (
        CompletedPartTypeDef,
        CopySourceTypeDef,
        ObjectIdentifierTypeDef,
        PartTypeDef,
    )

    class _EncryptionParameters(TypedDict, total=False):
        ServerSideEncryption: Literal["AES256", "aws:kms"]
        SSEKMSKeyId: str


_ATTEMPTS: Final = 5
_COPY_BYTES_MAX: Final = 5 << 30
_DELETES_A_REQUEST: Final = 1000
_REQUESTS_AT_ONCE: Final = 4
_VERSION_ROUNDS: Final = 5
_VERSIONED_DELETES_AT_ONCE: Final = 16
_FORBIDDEN_CODES: Final = frozenset({"AccessDenied", "AllAccessDisabled", "InvalidAccessKeyId"})
_COPY_IN_PARTS: Final = TransferConfig(multipart_chunksize=512 << 20)


class _DeleteAnswer(NamedTuple):
    """Response of a bucket about an object of a bulk delete."""

    code: str
    """Error code; empty if the object was deleted."""
    leaves_marker: bool = False
    """Whether a delete marker hides the object, which remains as an older version."""

    def result(self, address: Address) -> DeleteResult:
        error = _error_of(self.code, address)
        return DeleteResult(address, error, leaves_versions=self.leaves_marker)


class S3BlockStore(CloudBlockStore):
    """All buckets that the credentials can access."""

    scheme = "s3"
    reads_empty_segments = True
    part_bytes_min = 5 << 20
    supports_presign_part = True

    def __init__(self, settings: S3Settings, runtime: Runtime) -> None:
        super().__init__(runtime)
        if (settings.access_key_id is None) != (settings.secret_access_key is None):
            raise InvalidArgument("an access key needs both an id and a secret")
        check_endpoint(settings.endpoint)
        self.encryption = settings.encryption
        self._settings = settings
        self._session = _session(settings)
        self._sdk_clients: dict[int, S3Client] = {}
        self._wire = SignedRequests(lambda: self._sdk)

    def _head_by_sdk(self, address: Address) -> ObjectInfo:
        with explained(address):
            found = self._sdk.head_object(Bucket=address.parts.bucket, Key=address.path)
        etag = ETag(found["ETag"].strip('"'))
        return ObjectInfo(address, found["ContentLength"], found["LastModified"], etag)

    def _chunks_by_sdk(
        self, info: ObjectInfo, start: int, length: int
    ) -> Generator[bytes, None, None]:
        address = info.address
        with explained(address):
            found = self._sdk.get_object(
                Bucket=address.parts.bucket,
                Key=address.path,
                Range=f"bytes={start}-{start + length - 1}",
                IfMatch=f'"{info.etag}"',
            )
        return _chunks(found["Body"], address)

    def delete(self, address: Address) -> None:
        if not has_empty_segment(address.path):
            super().delete(address)
            return
        self._check(address)
        with explained(address):
            self._sdk.delete_object(Bucket=address.parts.bucket, Key=address.path)

    def presign_get(self, address: Address, *, expires_seconds: int) -> str:
        if not has_empty_segment(address.path):
            return super().presign_get(address, expires_seconds=expires_seconds)
        self._check(address)
        check_expiry(expires_seconds)
        return self._wire.sign_get(address, expires_seconds=expires_seconds)

    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        info = self.head(source)
        if etag not in {None, info.etag}:
            raise PreconditionFailed(source)
        self._check(destination)
        try:
            with explained(destination):
                self._copy_content(info, destination)
        except Archived as error:
            raise Archived(source, error.why) from error
        except ObjectNotFound as error:
            if info.size > _COPY_BYTES_MAX:
                # A retried completion after a lost reply does not find the upload.
                raise StorageUnavailable(
                    f"the copy to {destination} may have been completed"
                ) from error
            raise ObjectNotFound(source) from error

    def _copy_content(self, info: ObjectInfo, destination: Address) -> None:
        """Copy exactly the content found, so that no copy mixes parts of two contents."""
        source: CopySourceTypeDef = {
            "Bucket": info.address.parts.bucket,
            "Key": info.address.path,
        }
        bucket, key = destination.parts.bucket, destination.path
        etag = f'"{info.etag}"'
        if info.size <= _COPY_BYTES_MAX:
            self._sdk.copy_object(
                CopySource=source,
                CopySourceIfMatch=etag,
                Bucket=bucket,
                Key=key,
                # S3 copies an object onto itself only with a metadata change. Lakebed writes no
                # metadata, so replacing it loses nothing.
                MetadataDirective="REPLACE" if info.address == destination else "COPY",
                **self._encryption,
            )
        else:
            asked = {"CopySourceIfMatch": etag, **self._encryption}
            self._sdk.copy(source, bucket, key, ExtraArgs=asked, Config=_COPY_IN_PARTS)

    @property
    def _encryption(self) -> "_EncryptionParameters":
        """Parameters of boto3 that request the encryption."""
        encryption = self.encryption
        if encryption is None:
            return {}
        if encryption.kms_key_id is None:
            return {"ServerSideEncryption": encryption.algorithm}
        return {
            "ServerSideEncryption": encryption.algorithm,
            "SSEKMSKeyId": encryption.kms_key_id,
        }

    def _pages(self, namespace: Namespace, after: str) -> Iterator[pa.RecordBatch]:
        token = None
        while True:
            rows, token, _ = self._wire.list_page(namespace, after, token)
            if rows.num_rows:
                yield rows
            if token is None:
                return

    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        self._check(namespace)
        return folders_in_order(self._folders(namespace), namespace)

    def _folders(self, namespace: Namespace) -> Iterator[str]:
        token = None
        while True:
            page = self._wire.list_page(namespace, "", token, by_folder=True)
            yield from page.folders
            token = page.next_token
            if token is None:
                return

    def delete_many(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        self._check_open()
        results: dict[Address, DeleteResult] = {}
        by_bucket: dict[StoreName, list[Address]] = {}
        for address in dict.fromkeys(addresses):
            try:
                self._check(address)
            except InvalidAddress as error:
                results[address] = DeleteResult(address, error)
            else:
                by_bucket.setdefault(address.parts, []).append(address)
        chunks = [
            some[start : start + _DELETES_A_REQUEST]
            for some in by_bucket.values()
            for start in range(0, len(some), _DELETES_A_REQUEST)
        ]
        for found in self._runtime.map_parallel(self._delete_some, chunks, limit=_REQUESTS_AT_ONCE):
            results |= found
        return [results[address] for address in addresses]

    def _delete_some(self, addresses: list[Address]) -> dict[Address, DeleteResult]:
        """Delete objects of a bucket by one request; return the result for each."""
        try:
            answers = self._delete_keys(
                [{"Key": address.path} for address in addresses], addresses[0]
            )
        except InvalidArgument:
            answers = {}  # some servers do not support the call
        except BlockError as error:
            return {address: DeleteResult(address, error) for address in addresses}
        # Objects missing from the response are deleted individually.
        return {
            address: (
                answers[address.path, None].result(address)
                if (address.path, None) in answers
                else self._delete_result(address)
            )
            for address in addresses
        }

    def _delete_keys(
        self, objects: "list[ObjectIdentifierTypeDef]", place: Address
    ) -> "dict[tuple[str, str | None], _DeleteAnswer]":
        """Delete by one request; return the response for each key and version."""
        with explained(Namespace(place.store, "")):
            answer = self._sdk.delete_objects(
                Bucket=place.parts.bucket, Delete={"Objects": objects}
            )
        answers = {
            (each["Key"], each.get("VersionId")): _DeleteAnswer("", each.get("DeleteMarker", False))
            for each in answer.get("Deleted", [])
        }
        return answers | {
            (each["Key"], each.get("VersionId")): _DeleteAnswer(each["Code"])
            for each in answer.get("Errors", [])
        }

    def delete_versions(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        self._check_open()
        return self._runtime.map_parallel(
            self._delete_all_of, addresses, limit=_VERSIONED_DELETES_AT_ONCE
        )

    def _delete_all_of(self, address: Address) -> DeleteResult:
        """Delete all versions and delete markers of an object."""
        done = DeleteResult(address, None)
        try:
            self._check(address)
            for _ in range(_VERSION_ROUNDS):
                found = self._versions(address)
                if not found:
                    return done
                for start in range(0, len(found), _DELETES_A_REQUEST):
                    some = dict(found[start : start + _DELETES_A_REQUEST])
                    done = self._delete_some_versions(address, some, done)
                if done.error is not None:
                    return done
        except StorageClosed:
            raise
        except BlockError as error:
            return replace(done, error=error)
        again = f"{address} was written repeatedly while being deleted"
        return replace(done, error=StorageUnavailable(again))

    def _delete_some_versions(
        self, address: Address, sizes: dict[str, int], done: DeleteResult
    ) -> DeleteResult:
        """Delete versions by one request; return `done` updated with the results."""
        answers = self._delete_keys(
            [{"Key": address.path, "VersionId": version} for version in sizes], address
        )
        for version, size in sizes.items():
            # Some servers do not report the version. If none is reported, the next listing shows
            # the result.
            of_key = answers.get((address.path, None), _DeleteAnswer(""))
            code = answers.get((address.path, version), of_key).code
            error = self._error_of_version(code, address, version)
            if error is None:
                done = replace(done, versions=done.versions + 1, bytes=done.bytes + size)
            else:
                done = replace(done, error=done.error or error)
        return done

    def _versions(self, address: Address) -> list[tuple[str, int]]:
        """Return id and size of all versions and delete markers of an object."""
        with _naming_permission("s3:ListBucketVersions", address, ""), explained(address):
            pages = self._sdk.get_paginator("list_object_versions").paginate(
                Bucket=address.parts.bucket, Prefix=address.path
            )
            found = [
                (each["Key"], each["VersionId"], size)
                for page in pages
                for each, size in (
                    *((version, version["Size"]) for version in page.get("Versions", [])),
                    *((marker, 0) for marker in page.get("DeleteMarkers", [])),
                )
            ]
        return [(version, size) for key, version, size in found if key == address.path]

    def _error_of_version(self, code: str, address: Address, version: str) -> BlockError | None:
        """Return the error for a version's error code, or None if the version was deleted."""
        error = _error_of(code, address)
        if not isinstance(error, Forbidden):
            return error
        lock = self._lock_of(address, version)
        return lock or _missing_permission("s3:DeleteObjectVersion", address, "/*", error)

    def _lock_of(self, address: Address, version: str) -> Locked | None:
        """Return the object lock of a version, or None if these credentials see no lock."""
        try:
            with explained(address):
                found: Mapping[str, object] = self._sdk.head_object(
                    Bucket=address.parts.bucket, Key=address.path, VersionId=version
                )
        except BlockError:
            return None
        if found.get("ObjectLockLegalHoldStatus") == "ON":
            return Locked(address, None)
        until = found.get("ObjectLockRetainUntilDate")
        return Locked(address, until.astimezone(UTC)) if isinstance(until, datetime) else None

    def create_upload(self, address: Address) -> UploadId:
        self._check(address)
        bucket, key = address.parts.bucket, address.path
        with explained(address):
            created = self._sdk.create_multipart_upload(Bucket=bucket, Key=key, **self._encryption)
        return UploadId(created["UploadId"])

    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        self._check(address)
        check_part_number(number)
        source = MeasuredChunks(delayed_by_one(exactly(size, chunks)), size_max=PART_BYTES_MAX)
        with source.reraising(), _explained(address, upload_id):
            # Before the request: some servers take a stream that breaks off at once for an empty
            # part.
            first, _ = source.take(0)
            body = source.after(first)
            etag = self._wire.put_part(address, upload_id, number, body, size=size)
        return WrittenPart(number, etag, source.md5)

    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        # S3 repeats the response of a completion, so only a list shows whether the upload exists.
        self._stored_parts(address, upload_id, limit=1)
        check_order(parts)
        named: list[CompletedPartTypeDef] = [
            {"PartNumber": part.number, "ETag": f'"{part.etag}"'} for part in parts
        ]
        with _explained(address, upload_id), explained(address):
            # No retry: after a lost reply, a retry would not find the upload it completed.
            self._sdk_once.complete_multipart_upload(
                Bucket=address.parts.bucket,
                Key=address.path,
                UploadId=upload_id,
                MultipartUpload={"Parts": named},
            )
        return self._head_completed(address)

    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        self._check(address)
        bucket, key = address.parts.bucket, address.path
        try:
            with _explained(address, upload_id), explained(address):
                self._sdk.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
        except UploadNotFound:
            pass

    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        return [
            PartInfo(
                part["PartNumber"],
                ETag(part["ETag"].strip('"')),
                part["Size"],
                part["LastModified"].astimezone(UTC),
            )
            for part in self._stored_parts(address, upload_id, limit=None)
        ]

    def _stored_parts(
        self, address: Address, upload_id: UploadId, *, limit: int | None
    ) -> "list[PartTypeDef]":
        self._check(address)
        with _explained(address, upload_id), explained(address):
            pages = self._sdk.get_paginator("list_parts").paginate(
                Bucket=address.parts.bucket,
                Key=address.path,
                UploadId=upload_id,
                PaginationConfig={} if limit is None else {"MaxItems": limit, "PageSize": limit},
            )
            return [part for page in pages for part in page.get("Parts", [])]

    def presign_part(
        self, address: Address, upload_id: UploadId, number: int, *, expires_seconds: int
    ) -> str:
        self._check(address)
        check_part_number(number)
        check_expiry(expires_seconds)
        return self._wire.sign_part(address, upload_id, number, expires_seconds=expires_seconds)

    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        self._check(namespace)
        with explained(namespace):
            pages = self._sdk.get_paginator("list_multipart_uploads").paginate(
                Bucket=namespace.parts.bucket, Prefix=namespace.prefix
            )
            found = [upload for page in pages for upload in page.get("Uploads", [])]
        uploads = [
            Upload(
                Address(namespace.store, upload["Key"]),
                UploadId(upload["UploadId"]),
                upload["Initiated"].astimezone(UTC),
            )
            for upload in found
            if upload["Key"] != namespace.prefix
        ]
        return iter(sorted(uploads, key=lambda upload: (upload.address, upload.upload_id)))

    def probe(self, namespace: Namespace | None) -> None:
        self._check_open()
        try:
            if namespace is None:
                self._sdk_once.list_buckets()
                return
            self._check(namespace)
            bucket, prefix = namespace.parts.bucket, namespace.prefix
            self._sdk_once.list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
        except ClientError as error:
            answer = answer_of(error)
            # Without a bucket: the keys are valid, but limited to some buckets.
            if namespace is not None or answer.code != "AccessDenied":
                raise refusal(answer, namespace or self._all) from error
        except BotoCoreError as error:
            raise explain(error, self._all) from error

    @property
    def _all(self) -> str:
        """Name of the storage in errors about no particular bucket."""
        return f"the S3 storage at {self._settings.endpoint or 'AWS'}"

    def close(self) -> None:
        super().close()
        self._wire.close()
        with self._lock:
            for client in self._sdk_clients.values():
                client.close()

    def _connect(self, store: StoreName, retries: "RetryConfig") -> S3Store:
        bucket = Namespace(f"s3://{store.bucket}", "")
        with explained(bucket):
            credentials = self._session.get_credentials()
        # obstore turns a session without credentials into a ValueError.
        if credentials is None:
            raise Forbidden(
                f"no credentials for {bucket}: set them in the environment or the settings"
            )
        config: S3Config = {
            "region": self._settings.region,
            "virtual_hosted_style_request": not self._settings.uses_path_style,
            "disable_bulk_delete": True,
        }
        if self._settings.endpoint is not None:
            config["endpoint"] = self._endpoint_of(store)
        if self.encryption is not None:
            config["server_side_encryption"] = self.encryption.algorithm
            if self.encryption.kms_key_id is not None:
                config["sse_kms_key_id"] = self.encryption.kms_key_id
        return S3Store(
            store.bucket,
            config=config,
            client_options=client_options(self._settings.endpoint),
            retry_config=retries,
            credential_provider=Boto3CredentialProvider(self._session),
        )

    def _endpoint_of(self, store: StoreName) -> str:
        """Return the endpoint for obstore, including the bucket for virtual-hosted requests."""
        url = urlsplit(self._settings.endpoint or "")
        host = url.netloc if self._settings.uses_path_style else f"{store.bucket}.{url.netloc}"
        return urlunsplit(url._replace(netloc=host))

    @property
    def _sdk(self) -> "S3Client":
        return self._sdk_client(attempts=_ATTEMPTS)

    @property
    def _sdk_once(self) -> "S3Client":
        """Client without retries."""
        return self._sdk_client(attempts=1)

    def _sdk_client(self, *, attempts: int) -> "S3Client":
        # Created on first use: a client takes a tenth of a second. Under a lock: a session cannot
        # create two at once.
        with self._lock:
            client = self._sdk_clients.get(attempts)
            if client is None:
                client = self._sdk_clients[attempts] = self._new_sdk_client(attempts)
        return client

    def _new_sdk_client(self, attempts: int) -> "S3Client":
        config = Config(
            signature_version="s3v4",
            connect_timeout=5,
            read_timeout=60,
            max_pool_connections=64,
            retries={"total_max_attempts": attempts, "mode": "standard"},
            s3={"addressing_style": "path" if self._settings.uses_path_style else "virtual"},
            # Servers other than Amazon's refuse unknown checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return self._session.client("s3", endpoint_url=self._settings.endpoint, config=config)


def _session(settings: S3Settings) -> boto3.Session:
    try:
        return boto3.Session(
            aws_access_key_id=settings.access_key_id,
            aws_secret_access_key=settings.secret_access_key,
            aws_session_token=settings.session_token,
            region_name=settings.region,
        )
    except BotoCoreError as error:
        raise InvalidArgument(f"invalid S3 settings in the environment: {error}") from error


def _error_of(code: str, address: Address) -> BlockError | None:
    """Return the error for a code of a bulk delete, or None if the object is deleted."""
    if code in {"", "NoSuchKey", "NoSuchVersion"}:
        return None
    forbidden = code in _FORBIDDEN_CODES
    status = HTTPStatus.FORBIDDEN if forbidden else HTTPStatus.INTERNAL_SERVER_ERROR
    return refusal(Answer(status, code), address)


def _missing_permission(right: str, address: Address, part: str, error: Forbidden) -> Forbidden:
    """Return the error for a missing permission on a bucket or, with `part`, its objects."""
    return Forbidden(f"{error}; required: {right} on arn:aws:s3:::{address.parts.bucket}{part}")


@contextmanager
def _naming_permission(right: str, address: Address, part: str) -> Iterator[None]:
    try:
        yield
    except Forbidden as error:
        raise _missing_permission(right, address, part, error) from error


@contextmanager
def _explained(address: Address, upload_id: UploadId) -> Iterator[None]:
    """Convert a missing object to a missing upload; refuse an empty upload id."""
    if not upload_id:
        raise UploadNotFound(address, upload_id)
    try:
        yield
    except ObjectNotFound as error:
        raise UploadNotFound(address, upload_id) from error


def _chunks(content: "StreamingBody", address: Address) -> Generator[bytes, None, None]:
    """Yield the bytes of a response, with errors converted as by `explained`."""
    with content, explained(address):
        yield from content.iter_chunks(CHUNK_BYTES)
