from contextlib import closing
from urllib.request import Request, urlopen

import pytest

from lakebed.block import (
    AlreadyExists,
    BlockSettings,
    BlockStore,
    Namespace,
    S3Settings,
    StorageUnavailable,
    UploadId,
    UploadNotFound,
)
from lakebed.testing.conformance.block import BlockConformance
from lakebed.testing.conformance.block_conditional import increment, increment_with
from tests.kit.object_stores import BUCKET


class TestS3OnMoto(BlockConformance):
    large_mib = 120
    many_objects = 100  # moto takes its time for each; SeaweedFS shows the pages

    @pytest.fixture
    def settings(self, moto_settings: S3Settings) -> BlockSettings:
        return moto_settings

    @pytest.fixture
    def place(self) -> str:
        return f"s3://{BUCKET}/somewhere"

    def test_an_unknown_upload_is_refused(  # type: ignore[override]  # the ids are all alike here
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        store.abort_upload(namespace.address("object"), UploadId("a/b"))
        _finds_no_upload(store, namespace, UploadId("a/b"))

    def test_an_aborted_upload_does_not_exist(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        store.put_part(address, upload_id, 1, [b"data"], size=4)
        store.abort_upload(address, upload_id)
        store.abort_upload(address, upload_id)
        assert not store.exists(address)
        _finds_no_upload(store, namespace, upload_id)

    def test_an_upload_belongs_to_its_address(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # moto finds an upload at any address.
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        assert store.complete_upload(address, upload_id, [part]).address == address
        assert store.read(address) == b"data"

    def test_a_presigned_request_is_for_one_part(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        """Moto looks at no signature: SeaweedFS does."""

    def test_uploads_are_listed(self, store: BlockStore, namespace: Namespace) -> None:
        # moto says of every upload that it was begun in 2010.
        folder = namespace.folder("dev")
        addresses = [folder.address("b"), folder.address("a/x"), folder.address("b")]
        begun = [(address, store.create_upload(address)) for address in addresses]
        store.create_upload(namespace.address("dev-2/a"))
        listed = store.list_uploads(folder)
        assert [(upload.address, upload.upload_id) for upload in listed] == sorted(begun)

    def test_presigned_requests(self, store: BlockStore, namespace: Namespace) -> None:
        # moto checks no signatures, so a URL that was changed is as good; and it takes a body of
        # the type that urllib says it has by default for a form.
        address = namespace.address("folder/an object é")
        url = store.presign_put(address, expires_seconds=60)
        request = Request(url, b"data", {"Content-Type": "application/data"}, method="PUT")
        with closing(urlopen(request)):
            assert store.read(address) == b"data"
        with closing(urlopen(store.presign_get(address, expires_seconds=60))) as response:
            assert response.read() == b"data"

    # moto compares and writes in two steps, so of several that race more than one wins. SeaweedFS
    # and Azurite show the driver in a race; here it is alone.

    def test_one_of_many_creators_wins(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("object")
        etag = store.create(address, b"first")
        for _ in range(3):
            with pytest.raises(AlreadyExists):
                store.create(address, b"later")
        assert store.head(address).etag == etag

    def test_counting_by_replace_from_threads(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("counter")
        store.create(address, b"0")
        increment_with(store, address, rounds=10, threads=1)
        assert store.read(address) == b"10"

    def test_counting_by_replace_from_processes(
        self, settings: BlockSettings, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("counter")
        store.create(address, b"0")
        increment(settings, address, rounds=10, threads=1)
        assert store.read(address) == b"10"


def _finds_no_upload(store: BlockStore, namespace: Namespace, upload_id: UploadId) -> None:
    address = namespace.address("object")
    with pytest.raises(UploadNotFound):
        store.list_parts(address, upload_id)
    with pytest.raises(UploadNotFound):
        store.complete_upload(address, upload_id, [])
    # moto fails at this, with status 500, where S3 would say that there is no such upload.
    with pytest.raises(StorageUnavailable):
        store.put_part(address, upload_id, 1, [b"data"], size=4)
