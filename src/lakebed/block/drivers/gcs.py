"""Driver for Google Cloud Storage: **experimental**.

Shares its code with the drivers for S3 and Azure, but is untested against a server that honours
preconditions, as none was available. Limitations: no multipart uploads; copies between buckets go
through this process; listings fail on names that obstore cannot represent. Empty segments are
refused, but the object ``t/`` is listed as ``t``.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import GCSStore

from lakebed.base.runtime import Runtime
from lakebed.block.address import Address, Namespace, StoreName
from lakebed.block.drivers.cloud.errors import Place, explained
from lakebed.block.drivers.cloud.store import CloudBlockStore, client_options
from lakebed.block.errors import InvalidAddress, NotSupported, ObjectNotFound, PreconditionFailed
from lakebed.block.ranges import ByteRange
from lakebed.block.settings import GCSSettings
from lakebed.block.store import (
    LIST_SCHEMA,
    ByteStream,
    ETag,
    ObjectInfo,
    Part,
    PartInfo,
    Upload,
    UploadId,
    WrittenPart,
)

if TYPE_CHECKING:  # these exist for type checkers only
    from obstore import GetOptions, ObjectMeta, UpdateVersion
    from obstore import PutResult as Written
    from obstore.store import GCSConfig, RetryConfig

_PAGE_ROWS: Final = 1000


def open_driver(settings: GCSSettings, runtime: Runtime) -> "GCSBlockStore":
    """Open the storage without sending a request. See `lakebed.block.open_block`."""
    return GCSBlockStore(settings, runtime)


class GCSBlockStore(CloudBlockStore):
    """All buckets that the credentials can access."""

    scheme = "gs"
    part_bytes_min = 0
    supports_uploads = False

    def __init__(self, settings: GCSSettings, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._settings = settings

    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        try:
            return super().get(address, byte_range=byte_range, etag=etag)
        except ObjectNotFound as error:
            # Google does not find a replaced generation.
            if etag is not None and self.exists(address):
                raise PreconditionFailed(address) from error
            raise

    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        client = self._client(source)
        self._check(destination)
        if etag is not None or source.store != destination.store:
            # Google copies between buckets and conditionally, but obstore has no call for either.
            with self.get(source, etag=etag) as stream:
                self.put(destination, stream)
            return
        try:
            with explained(destination):
                obstore.copy(client, source.path, destination.path)
        except ObjectNotFound as error:
            raise ObjectNotFound(source) from error

    def _pages(self, namespace: Namespace, after: str) -> Iterator[pa.RecordBatch]:
        client = self._client(namespace)
        try:
            stream = obstore.list(
                client,
                namespace.prefix or None,
                offset=after or None,
                chunk_size=_PAGE_ROWS,
                return_arrow=True,
            )
            with explained(namespace):
                for batch in stream:
                    yield _listed(namespace, pa.record_batch(batch))
        except ValueError as error:
            raise InvalidAddress(f"cannot list {namespace}: {error}") from error

    def create_upload(self, address: Address) -> UploadId:
        self._refuse_upload(address)

    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        self._refuse_upload(address)

    def complete_upload(
        self,
        address: Address,
        upload_id: UploadId,
        parts: Sequence[Part],
    ) -> ObjectInfo:
        self._refuse_upload(address)

    def abort_upload(
        self,
        address: Address,
        upload_id: UploadId,
    ) -> None:
        self._refuse_upload(address)

    def list_parts(
        self,
        address: Address,
        upload_id: UploadId,
    ) -> list[PartInfo]:
        self._refuse_upload(address)

    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        self._refuse_upload(namespace)

    def _refuse_upload(self, place: Place) -> NoReturn:
        self._check(place)
        raise NotSupported(f"gs:// storage does not support multipart uploads: {place}")

    # Google compares the generation of an object; the ETag does not work.

    def _etag(self, result: "Written | ObjectMeta") -> ETag:
        return ETag(result["version"] or "")

    def _version(self, etag: ETag) -> "UpdateVersion":
        return {"version": etag}

    def _if_match(self, etag: ETag) -> "GetOptions":
        return {"version": etag}

    def _connect(self, store: StoreName, retries: "RetryConfig") -> GCSStore:
        config: GCSConfig = {}
        if self._settings.service_account_file is not None:
            config["service_account"] = str(self._settings.service_account_file)
        return GCSStore(
            store.bucket, config=config, client_options=client_options(None), retry_config=retries
        )


def _listed(namespace: Namespace, batch: pa.RecordBatch) -> pa.RecordBatch:
    addresses = pc.binary_join_element_wise(namespace.store, batch["path"].cast(pa.string()), "/")
    # As in `_etag`: the generation serves as the ETag.
    etags = pc.fill_null(batch["version"].cast(pa.string()), "")
    columns = [addresses, batch["size"], batch["last_modified"], etags]
    arrays = [
        pc.cast(column, field.type) for column, field in zip(columns, LIST_SCHEMA, strict=True)
    ]
    return pa.record_batch(arrays, schema=LIST_SCHEMA)
