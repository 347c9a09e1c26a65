import pytest

from lakebed.block import AzureSettings, BlockSettings, BlockStore, Namespace, NotSupported
from lakebed.testing.conformance.block import BlockConformance
from lakebed.testing.conformance.block_listing import ORDERED_PATHS, addresses_of
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT
from tests.kit.object_stores import BUCKET


class TestAzureOnAzurite(BlockConformance):
    large_mib = 120
    many_objects = 300  # Azurite takes its time for each, and its pages have 5,000

    @pytest.fixture
    def settings(self, azure_settings: AzureSettings) -> BlockSettings:
        return azure_settings

    @pytest.fixture
    def place(self) -> str:
        return f"https://{AZURE_ACCOUNT}.blob.core.windows.net/{BUCKET}/somewhere"

    def test_listings_are_in_order_of_the_paths(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # Azurite orders by UTF-16: what takes two units comes before the last of those of one.
        for path in ORDERED_PATHS:
            store.put(namespace.address(path), [b""])
        with pytest.raises(NotSupported, match="lists out of order"):
            addresses_of(store.list_objects(namespace))
        store.delete(namespace.address("\uffee"))
        kept = [namespace.address(path) for path in ORDERED_PATHS if path != "\uffee"]
        assert addresses_of(store.list_objects(namespace)) == list(map(str, kept))
        for number, address in enumerate(kept):
            rest = store.list_objects(namespace, start_after=address)
            assert addresses_of(rest) == list(map(str, kept[number + 1 :]))

    def test_a_part_is_replaced_and_one_is_dropped(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        # Azure keeps both contents of a part, and which is newer only the clocks of their senders
        # tell; so the driver takes the one whose ETag is named.
        address = namespace.address("object")
        for number, expected in enumerate([b"first", b"second"]):
            upload_id = store.create_upload(address)
            named = [
                store.put_part(address, upload_id, 1, [data], size=len(data))
                for data in (b"first", b"second")
            ]
            store.put_part(address, upload_id, 2, [b"dropped"], size=7)
            assert store.list_parts(address, upload_id)[0].etag == named[1].etag
            store.complete_upload(address, upload_id, [named[number]])
            assert store.read(address) == expected
