"""URLs that a real storage signs: objects are read and uploaded by them, without the server."""

import httpx

from lakebed.block import S3Settings, open_block
from lakebed.catalog.keys import LINKS
from lakebed.engine.model import RepositoryID
from lakebed.kv import open_store
from lakebed.kv.records import Records
from tests.kit.lake import MAIN, REPOSITORY, make_lake


def test_uploading_to_a_presigned_url(seaweedfs_settings: S3Settings) -> None:
    with open_store("memory://") as store, open_block(seaweedfs_settings) as block:
        lake = make_lake(store, block, name=RepositoryID("linked"))
        given = lake.catalog.links.get_physical_address(lake.name, MAIN, b"a", presign=True)
        assert given.upload is not None
        httpx.put(given.upload.url, content=b"straight").raise_for_status()
        stats = lake.catalog.links.link(
            lake.name, MAIN, b"a", given.address, checksum="sum", size=8
        )
        with block.get(stats.address) as stream:
            assert b"".join(stream) == b"straight"
        (record,) = Records(lake.store, LINKS, lake.repository.partition).scan()
        assert record.message.etag == block.head(stats.address).etag


def test_a_presigned_url_reads_the_object(seaweedfs_settings: S3Settings) -> None:
    with open_store("memory://") as store, open_block(seaweedfs_settings) as block:
        lake = make_lake(store, block)
        lake.upload(b"a", "signed")
        stats = lake.catalog.objects.stat(REPOSITORY, "main", b"a")
        signed = lake.catalog.objects.presign(stats)
        assert httpx.get(signed.url).text == "signed"
        left = signed.expires.timestamp() - lake.clock.now()
        assert 0 < left <= lake.settings.presign_life_seconds
