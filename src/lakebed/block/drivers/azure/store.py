"""Driver for Azure Blob Storage: objects by obstore, everything else by Azure's own library.

Multipart uploads are lists of blocks; see `lakebed.block.drivers.azure.blocks`. Consequences of
having a single such list per blob:

- Any write of a blob, by whatever call, ends all uploads to its address.
- Azure deletes the blocks of an aborted upload itself, a week after the last block was sent.
- `list_uploads` misses uploads to addresses of existing objects, and scans every object of the
  namespace.

The first and the last do not affect Lakebed, which uses a new address for every upload.
"""

from binascii import Error as NotBase64Error
from binascii import a2b_base64
from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import pyarrow as pa
from azure.core import MatchConditions
from azure.identity import DefaultAzureCredential
from azure.storage.blob import (
    BlobBlock,
    BlobClient,
    BlobPrefix,
    BlobProperties,
    BlobSasPermissions,
    BlobServiceClient,
    generate_blob_sas,
)
from obstore.auth.azure import AzureCredentialProvider
from obstore.store import AzureStore

from lakebed.base.runtime import Runtime, now_us
from lakebed.block.address import AZURE_SCHEME, Address, Namespace, StoreName
from lakebed.block.drivers.azure.blocks import AzureBlock, BlobUploads, BlockKind
from lakebed.block.drivers.azure.errors import explained
from lakebed.block.drivers.cloud.errors import Place
from lakebed.block.drivers.cloud.store import (
    PART_BYTES,
    PARTS_AT_A_TIME,
    CloudBlockStore,
    check_endpoint,
    check_expiry,
    client_options,
    folders_in_order,
)
from lakebed.block.drivers.cloud.streams import MeasuredChunks, delayed_by_one, in_sizes
from lakebed.block.errors import (
    Archived,
    InvalidAddress,
    InvalidArgument,
    InvalidPart,
    ObjectNotFound,
    PreconditionFailed,
    StorageUnavailable,
    UploadNotFound,
)
from lakebed.block.settings import AzureSettings
from lakebed.block.store import ETag, ObjectInfo, Part, PartInfo, Upload, UploadId, WrittenPart
from lakebed.block.streams import ListedObject, check_order, check_part_number, exactly, list_batch

if TYPE_CHECKING:
    from obstore.store import AzureConfig, RetryConfig

_RETRIES: Final = 5
_BLOCK_BYTES_MAX: Final = 4000 << 20
# Limit of a server-side copy in one request, and of one block of a copy.
_COPY_BYTES_MAX: Final = 256 << 20
_COPY_SECONDS: Final = 24 * 3600


class AzureBlockStore(CloudBlockStore):
    """All containers of an account."""

    scheme = AZURE_SCHEME
    reads_empty_segments = True
    part_bytes_min = 0
    reads_suffixes = False

    def __init__(self, settings: AzureSettings, runtime: Runtime) -> None:
        super().__init__(runtime)
        check_endpoint(settings.endpoint)
        _check_key(settings.account_key)
        self._settings = settings
        usual_host = f"{settings.account}.blob.core.windows.net"
        self._endpoint = settings.endpoint or f"https://{usual_host}"
        host = urlsplit(self._endpoint).hostname or ""
        # Sovereign clouds have their own hosts; an emulator replaces the default host.
        self._host = host if host.startswith(f"{settings.account}.blob.core.") else usual_host
        self._identity = None if settings.account_key else DefaultAzureCredential()
        self.presigned_put_creates_only = settings.account_key is not None
        self._sdk = self._sdk_client(retries=_RETRIES)
        self._sdk_once = self._sdk_client(retries=0)

    def _head_by_sdk(self, address: Address) -> ObjectInfo:
        with explained(address):
            found = self._blob(address).get_blob_properties()
        etag = ETag(found.etag.strip('"'))
        return ObjectInfo(address, found.size, found.last_modified, etag)

    def _chunks_by_sdk(
        self, info: ObjectInfo, start: int, length: int
    ) -> Generator[bytes, None, None]:
        with explained(info.address):
            found = self._blob(info.address).download_blob(
                start,
                length,
                etag=f'"{info.etag}"',
                match_condition=MatchConditions.IfNotModified,
            )
            yield from found.chunks()

    def delete(self, address: Address) -> None:
        # Not by obstore: its single-object batch request hides a missing container.
        self._check(address)
        try:
            with explained(address):
                self._blob(address).delete_blob(delete_snapshots="include")
        except ObjectNotFound:
            pass

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
            raise ObjectNotFound(source) from error

    def _copy_content(self, info: ObjectInfo, destination: Address) -> None:
        """Copy the content found, completely, before returning.

        Not by Azure's asynchronous copy: until that ends, and if it fails, the destination is an
        empty object.
        """
        url, authorization = self._readable_url(info.address)
        if info.size > _COPY_BYTES_MAX:
            self._copy_in_blocks(info, destination, url, authorization)
            return
        copy = self._blob(destination).start_copy_from_url(
            url,
            requires_sync=True,
            source_authorization=authorization,
            source_etag=f'"{info.etag}"',
            source_match_condition=MatchConditions.IfNotModified,
        )
        if copy["copy_status"] != "success":
            raise StorageUnavailable(f"the copy of {info.address} to {destination} did not finish")

    def _copy_in_blocks(
        self, info: ObjectInfo, destination: Address, url: str, authorization: str | None
    ) -> None:
        put_id = self._new_id()

        def stage(number: int) -> AzureBlock:
            block = self._new_block(put_id, BlockKind.PUT, number)
            start = number * _COPY_BYTES_MAX
            self._blob(destination).stage_block_from_url(
                block.name,
                url,
                source_offset=start,
                source_length=min(_COPY_BYTES_MAX, info.size - start),
                source_authorization=authorization,
                headers={"x-ms-source-if-match": f'"{info.etag}"'},
            )
            return block

        numbers = range(-(-info.size // _COPY_BYTES_MAX))
        self._commit(destination, self._runtime.map_parallel(stage, numbers, limit=PARTS_AT_A_TIME))

    def _readable_url(self, address: Address) -> tuple[str, str | None]:
        """Return a URL from which Azure can read an object, and an authorization header or None."""
        if self._identity is None:
            return self.presign_get(address, expires_seconds=_COPY_SECONDS), None
        token = self._identity.get_token("https://storage.azure.com/.default").token
        return self._blob(address).url, f"Bearer {token}"

    def _put_in_parts(self, address: Address, chunks: Iterator[bytes]) -> ETag:
        # Not by obstore: Azure requires equally long names for all blocks of a blob.
        put_id = self._new_id()

        def stage(numbered: tuple[int, bytes]) -> AzureBlock:
            number, data = numbered
            block = self._new_block(put_id, BlockKind.PUT, number)
            self._blob(address).stage_block(block.name, data, length=len(data))
            return block

        parts = enumerate(in_sizes(chunks, PART_BYTES))
        blocks: list[AzureBlock] = []
        with explained(address):
            while some := list(islice(parts, PARTS_AT_A_TIME)):
                blocks += self._runtime.map_parallel(stage, some, limit=PARTS_AT_A_TIME)
            return self._commit(address, blocks)

    def _commit(self, address: Address, blocks: Iterable[AzureBlock]) -> ETag:
        """Make blocks the content of a blob.

        A retry after a lost reply finds the blocks in the blob itself.

        Raises:
            StorageUnavailable: Another write dropped the blocks.
        """
        named = [BlobBlock(block.name) for block in blocks]
        try:
            with explained(address):
                committed = self._blob(address).commit_block_list(named)
        except InvalidPart as error:
            raise StorageUnavailable(f"{address} was written concurrently") from error
        return ETag(str(committed["etag"]).strip('"'))

    def _pages(self, namespace: Namespace, after: str) -> Iterator[pa.RecordBatch]:
        container = self._sdk.get_container_client(namespace.parts.bucket)
        with explained(namespace):
            pages = container.list_blobs(
                name_starts_with=namespace.prefix or None, start_from=after or None
            ).by_page()
            for page in pages:
                rows = [_listed(namespace, blob) for blob in page if blob.name > after]
                if rows:
                    yield list_batch(rows)

    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        self._check(namespace)
        return folders_in_order(self._folders(namespace), namespace)

    def _folders(self, namespace: Namespace) -> Iterator[str]:
        container = self._sdk.get_container_client(namespace.parts.bucket)
        with explained(namespace):
            for found in container.walk_blobs(namespace.prefix or None, delimiter="/"):
                if isinstance(found, BlobPrefix):
                    yield found.name

    def create_upload(self, address: Address) -> UploadId:
        self._check(address)
        upload_id = self._new_id()
        self._stage_marker(address, upload_id, BlockKind.BEGUN)
        return upload_id

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
        self._find_upload(address, upload_id)
        source = MeasuredChunks(delayed_by_one(exactly(size, chunks)), size_max=_BLOCK_BYTES_MAX)
        with source.reraising(), explained(address):
            first, _ = source.take(0)
            if size == 0:
                block = self._stage_marker(address, upload_id, BlockKind.EMPTY_PART, number)
                return WrittenPart(number, block.etag, source.md5)
            block = self._new_block(upload_id, BlockKind.PART, number)
            self._blob(address, once=True).stage_block(
                block.name, _Body(source.after(first), size), length=size
            )
        return WrittenPart(number, block.etag, source.md5)

    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        self._check(address)
        stored = self._find_upload(address, upload_id).parts(upload_id)
        by_etag = {(info.number, info.etag): block for block, info in stored}
        check_order(parts)
        blocks = []
        for part in parts:
            block = by_etag.get((part.number, part.etag))
            if block is None:
                raise InvalidPart(f"part {part.number} was not uploaded with ETag {part.etag}")
            blocks.append(block)
        named = [BlobBlock(block.name) for block in blocks if block.kind is BlockKind.PART]
        with explained(address):
            # No retry: after a lost reply, a retry would not find the blocks it committed.
            self._blob(address, once=True).commit_block_list(named)
        return self._head_completed(address)

    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        self._check(address)
        try:
            self._find_upload(address, upload_id)
        except UploadNotFound:
            return
        self._stage_marker(address, upload_id, BlockKind.ABORTED)

    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        self._check(address)
        parts = self._find_upload(address, upload_id).parts(upload_id)
        return list({info.number: info for _, info in parts}.values())

    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        self._check(namespace)
        container = self._sdk.get_container_client(namespace.parts.bucket)
        with explained(namespace):
            blobs = container.list_blobs(
                name_starts_with=namespace.prefix or None, include=["uncommittedblobs"]
            )
            # Uncommitted blobs and empty blobs have size 0.
            empty = [
                blob.name for blob in blobs if blob.size == 0 and blob.name != namespace.prefix
            ]
        uploads = [
            Upload(address, upload_id, created)
            for address in (Address(namespace.store, name) for name in empty)
            for upload_id, created in self._uploads(address).begun.items()
        ]
        return iter(sorted(uploads, key=lambda upload: (upload.address, upload.upload_id)))

    def _presign(
        self, method: Literal["GET", "PUT"], address: Address, expires_seconds: int
    ) -> str:
        if self._settings.account_key is None:
            return super()._presign(method, address, expires_seconds)
        self._check(address)
        check_expiry(expires_seconds)
        # The create permission alone does not allow replacing an object.
        permission = BlobSasPermissions(read=method == "GET", create=method == "PUT")
        signature = generate_blob_sas(
            self._settings.account,
            address.parts.bucket,
            address.path,
            account_key=self._settings.account_key,
            permission=permission,
            expiry=datetime.fromtimestamp(self._runtime.now(), UTC)
            + timedelta(seconds=expires_seconds),
        )
        return f"{self._blob(address).url}?{signature}"

    def close(self) -> None:
        super().close()
        self._sdk.close()
        self._sdk_once.close()

    def _find_upload(self, address: Address, upload_id: UploadId) -> BlobUploads:
        uploads = self._uploads(address)
        if upload_id not in uploads.begun:
            raise UploadNotFound(address, upload_id)
        return uploads

    def _uploads(self, address: Address) -> BlobUploads:
        try:
            with explained(address):
                _, blocks = self._blob(address).get_block_list("uncommitted")
        except ObjectNotFound:
            blocks = []
        return BlobUploads((block.id, block.size) for block in blocks)

    def _stage_marker(
        self, address: Address, upload_id: UploadId, kind: BlockKind, number: int = 0
    ) -> AzureBlock:
        """Send a block that matters only for its name."""
        block = self._new_block(upload_id, kind, number)
        with explained(address):
            self._blob(address).stage_block(block.name, b"\0", length=1)
        return block

    def _new_id(self) -> UploadId:
        return UploadId(self._runtime.random_bytes(16).hex())

    def _new_block(self, upload_id: UploadId, kind: BlockKind, number: int) -> AzureBlock:
        time_us = now_us(self._runtime)
        return AzureBlock(upload_id, kind, number, time_us, self._runtime.random_bytes(8))

    def _check(self, place: Place) -> None:
        super()._check(place)
        if place.parts.host != self._host:
            raise InvalidAddress(f"{place} is not in the account {self._host}")
        if isinstance(place, Address) and (
            "\\" in place.path or any(part.endswith(".") for part in place.path.split("/"))
        ):
            raise InvalidAddress(
                f"Azure changes paths with a backslash or a dot at the end of a segment: {place}"
            )

    def _connect(self, store: StoreName, retries: "RetryConfig") -> AzureStore:
        config: AzureConfig = {"account_name": self._settings.account, "endpoint": self._endpoint}
        if self._settings.account_key is not None:
            config["account_key"] = self._settings.account_key
        provider = AzureCredentialProvider(self._identity) if self._identity else None
        return AzureStore(
            store.bucket,
            config=config,
            client_options=client_options(self._endpoint),
            retry_config=retries,
            credential_provider=provider,
        )

    def _blob(self, address: Address, *, once: bool = False) -> BlobClient:
        """Return the client for a blob; with `once`, a client without retries."""
        service = self._sdk_once if once else self._sdk
        return service.get_blob_client(address.parts.bucket, address.path)

    def _sdk_client(self, *, retries: int) -> BlobServiceClient:
        return BlobServiceClient(
            self._endpoint,
            self._settings.account_key or self._identity,
            retry_total=retries,
            connection_timeout=5,
            read_timeout=60,
        )


class _Body:
    """Stream with a known length, as requests needs it."""

    def __init__(self, chunks: Iterator[bytes], size: int) -> None:
        self._chunks = chunks
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks


def _check_key(key: str | None) -> None:
    try:
        a2b_base64(key or "", strict_mode=True)
    except NotBase64Error:
        raise InvalidArgument("the account key is not Base64") from None


def _listed(namespace: Namespace, blob: BlobProperties) -> ListedObject:
    mtime_us = int(blob.last_modified.timestamp()) * 1_000_000
    return ListedObject(f"{namespace.store}/{blob.name}", blob.size, mtime_us, _bare(blob.etag))


def _bare(etag: str | None) -> str:
    return (etag or "").strip('"')
