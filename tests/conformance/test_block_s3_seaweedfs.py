import pytest

from lakebed.block import (
    BlockSettings,
    BlockStore,
    Namespace,
    NotSupported,
    S3Settings,
    UploadId,
    UploadNotFound,
)
from lakebed.testing.conformance.block import BlockConformance
from lakebed.testing.conformance.block_listing import ORDERED_PATHS, addresses_of
from tests.kit.object_stores import BUCKET


class TestS3OnSeaweedFS(BlockConformance):
    large_mib = 150

    @pytest.fixture
    def settings(self, seaweedfs_settings: S3Settings) -> BlockSettings:
        return seaweedfs_settings

    @pytest.fixture
    def place(self) -> str:
        return f"s3://{BUCKET}/somewhere"

    def test_listings_are_in_order_of_the_paths(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # SeaweedFS walks folders: "a/b" comes before "a-b". What can be shown is that the driver
        # does not hand on what is out of order.
        for path in ORDERED_PATHS:
            store.put(namespace.address(path), [b""])
        with pytest.raises(NotSupported, match="lists out of order"):
            addresses_of(store.list_objects(namespace))

    def test_folders_are_in_order_of_the_paths_in_them(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # For the same reason: "dev" comes before "dev-2" here, and is not handed on behind it.
        for path in ("dev/1", "dev-2/1", "other/x/1"):
            store.put(namespace.address(path), [b""])
        with pytest.raises(NotSupported, match="lists out of order"):
            list(store.list_folders(namespace))
        assert list(store.list_folders(namespace.folder("other"))) == ["x"]

    def test_empty_segments_are_kept_or_refused(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # SeaweedFS stores files in folders: "a//b" is "a/b" to it. S3 keeps both.
        store.put(namespace.address("a/b"), [b"data"])
        assert store.read(namespace.address("a//b")) == b"data"
        store.delete(namespace.address("a//b"))
        assert not store.exists(namespace.address("a/b"))

    def test_listings_agree_with_a_sorted_list(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # SeaweedFS leaves out the whole of the folder "a" after "a", so there are no folders here.
        addresses = [namespace.address(path) for path in ("a", "a b", "a-b", "b", "é", "\uffee")]
        for address in reversed(addresses):
            store.put(address, [b""])
        for number, address in enumerate(addresses):
            rest = store.list_objects(namespace, start_after=address)
            assert addresses_of(rest) == list(map(str, addresses[number + 1 :]))

    def test_a_part_is_replaced_and_one_is_dropped(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # SeaweedFS keeps both contents of a part, lists both, and takes the one whose ETag is
        # named; S3 would refuse the older.
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        store.put_part(address, upload_id, 1, [b"old"], size=3)
        new = store.put_part(address, upload_id, 1, [b"newer"], size=5)
        store.put_part(address, upload_id, 2, [b"dropped"], size=7)
        store.complete_upload(address, upload_id, [new])
        assert store.read(address) == b"newer"

    @pytest.mark.parametrize("upload_id", ["", "0" * 32])
    def test_an_unknown_upload_is_refused(
        self, store: BlockStore, namespace: Namespace, upload_id: str
    ) -> None:
        # Ids with dots and slashes are bad requests to SeaweedFS; to S3 they are like any other.
        address, unknown = namespace.address("object"), UploadId(upload_id)
        store.abort_upload(address, unknown)
        for call in (
            lambda: store.put_part(address, unknown, 1, [b"data"], size=4),
            lambda: store.list_parts(address, unknown),
            lambda: store.complete_upload(address, unknown, []),
        ):
            with pytest.raises(UploadNotFound):
                call()
        assert not store.exists(address)
