"""URLs that a real storage signs: objects are read and uploaded by them, without the server."""

import time

import httpx
import pytest

from lakebed.block import (
    AzureSettings,
    Between,
    Namespace,
    NotSupported,
    S3Settings,
    Suffix,
    open_block,
)
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.formats.imported import CONTENT
from lakebed.kv import open_store
from lakebed.kv.records import Records
from lakebed.lake.errors import ChangedBytes, MissingBytes, PartMissing
from lakebed.lake.keys import LINKS
from lakebed.lake.model import ObjectStats
from lakebed.lake.multipart.records import NamedPart, Target
from lakebed.lake.settings import LinkSettings
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, make_lake
from tests.kit.object_stores import BUCKET


def test_uploading_to_a_presigned_url(seaweedfs_settings: S3Settings) -> None:
    with open_store("memory://") as store, open_block(seaweedfs_settings) as block:
        lake = make_lake(store, block, name=RepositoryID("linked"))
        given = lake.catalog.links.get_physical_address(lake.name, MAIN, b"a", presign=True)
        assert given.upload is not None
        httpx.put(given.upload.url, content=b"straight", timeout=60).raise_for_status()
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
        assert httpx.get(signed.url, timeout=60).text == "signed"
        left = signed.expires.timestamp() - lake.clock.now()
        assert 0 < left <= lake.settings.presign_life_seconds


def test_an_object_in_presigned_parts(seaweedfs_settings: S3Settings) -> None:
    name = RepositoryID("in-parts")
    with open_store("memory://") as store, open_block(seaweedfs_settings) as block:
        lake = make_lake(store, block, name=name)
        uploads, completions = lake.catalog.presigned_uploads, lake.catalog.completions
        begun = uploads.create(name, MAIN, b"a", parts=2)
        target = Target(name, MAIN, b"a", begun.id, begun.address)
        first = b"1" * (5 << 20)
        # The first is sent three times; the storage goes on to list what was sent before.
        for data in (b"0" * (5 << 20), b"short"):
            httpx.put(begun.urls[0].url, content=data, timeout=60).raise_for_status()
        marks = [
            httpx.put(url.url, content=data, timeout=60)
            .raise_for_status()
            .headers["ETag"]
            .strip('"')
            for url, data in zip(begun.urls, (first, b"end"), strict=True)
        ]
        named = [NamedPart(number, mark) for number, mark in enumerate(marks, start=1)]
        with pytest.raises(PartMissing):
            completions.complete(target, [named[0], NamedPart(2, "0" * 32)])
        stats = completions.complete(target, named)
        assert lake.bytes_of(name, "main", b"a") == first + b"end"
        assert stats.checksum == block.head(begun.address).etag, "as S3 makes it"
        # What comes late changes nothing, here and after an abort.
        assert httpx.put(begun.urls[0].url, content=b"late").status_code == 404
        assert completions.complete(target, named) == stats
        assert lake.bytes_of(name, "main", b"a") == first + b"end"
        other = uploads.create(name, MAIN, b"b", parts=1)
        lake.catalog.multiparts.abort(Target(name, MAIN, b"b", other.id, other.address))
        assert httpx.put(other.urls[0].url, content=b"late").status_code == 404
        assert list(block.list_uploads(lake.repository.namespace)) == []


def test_a_url_for_a_part_expires(seaweedfs_settings: S3Settings) -> None:
    with open_block(seaweedfs_settings) as block:
        address = Namespace.parse(f"s3://{BUCKET}/expiring").address("a")
        upload_id = block.create_upload(address)
        url = block.presign_part(address, upload_id, 1, expires_seconds=1)
        deadline = time.monotonic() + 60
        while httpx.put(url, content=b"data").status_code == 200:
            assert time.monotonic() < deadline, "the URL lives on"
            time.sleep(0.2)
        block.abort_upload(address, upload_id)


def test_azure_signs_no_parts(azure_settings: AzureSettings) -> None:
    """Its answer to a block names no content by which a client could name the part."""
    name = RepositoryID("azure-parts")
    place = f"https://{AZURE_ACCOUNT}.blob.core.windows.net/{BUCKET}/{name}"
    with open_store("memory://") as store, open_block(azure_settings) as block:
        lake = make_lake(store, block, name=name, namespace=place)
        assert not lake.catalog.presigning.parts_supported
        with pytest.raises(NotSupported):
            lake.catalog.presigned_uploads.create(name, MAIN, b"a", parts=1)


LATER = BranchID("later")


def link(lake: Lake, data: bytes) -> tuple[ObjectStats, str]:
    """Upload an object by a presigned URL and link it; return it with the URL."""
    given = lake.catalog.links.get_physical_address(lake.name, MAIN, b"a", presign=True)
    assert given.upload is not None
    httpx.put(
        given.upload.url, content=data, headers={"x-ms-blob-type": "BlockBlob"}, timeout=60
    ).raise_for_status()
    stats = lake.catalog.links.link(
        lake.name, MAIN, b"a", given.address, checksum="sum", metadata={"k": "v"}
    )
    return stats, given.upload.url


@pytest.mark.parametrize("evil", [b"replaced", b"longer than before"])
def test_linked_objects_cannot_be_replaced_by_their_url(
    seaweedfs_settings: S3Settings, evil: bytes
) -> None:
    name = RepositoryID(f"evil-{len(evil)}")
    with open_store("memory://") as store, open_block(seaweedfs_settings) as block:
        lake = make_lake(store, block, name=name)
        catalog, objects = lake.catalog, lake.catalog.objects
        stats, url = link(lake, b"original")
        assert stats.metadata == {"k": "v"}, "what is kept is not shown"
        catalog.commits.commit(name, MAIN, CommitRequest(committer="ann", message="linked"))
        lake.engine.refs.create_branch(name, LATER, DEV)
        catalog.commits.merge(name, "main", LATER, MergeRequest(committer="ann", message="merged"))
        # On all roads that an entry takes, it goes on to stand for the bytes that were linked.
        catalog.copies.set_metadata(name, MAIN, b"a", {"k": "w"})
        copy = {"source_ref": "main", "source_path": b"a"}
        catalog.copies.copy(name, MAIN, b"shared", metadata={}, **copy)  # type: ignore[arg-type]
        catalog.copies.copy(name, DEV, b"copied", **copy)  # type: ignore[arg-type]
        assert lake.bytes_of(name, "main", b"shared") == b"original"

        httpx.put(url, content=evil, timeout=60).raise_for_status()
        for ref, path in (("later", b"a"), ("main", b"a"), ("main", b"shared")):
            found = objects.stat(name, ref, path)
            assert found.address == stats.address
            for wanted in (None, Between(0, 2), Suffix(2)):
                with pytest.raises(ChangedBytes, match="not the one that was linked"):
                    objects.read(found, byte_range=wanted)
            with pytest.raises(ChangedBytes):
                objects.check_bytes(found)
        with pytest.raises(ChangedBytes):
            catalog.copies.copy(name, DEV, b"b", source_ref="later", source_path=b"a")
        assert lake.bytes_of(name, "dev", b"copied") == b"original", "has bytes of its own"
        # The bytes themselves count, not when they were written.
        httpx.put(url, content=b"original", timeout=60).raise_for_status()
        assert lake.bytes_of(name, "later", b"a") == b"original"
        objects.check_bytes(objects.stat(name, "later", b"a"))


def test_what_was_linked_before_it_was_uploaded_is_what_was_read_first(
    seaweedfs_settings: S3Settings,
) -> None:
    name = RepositoryID("unverified")
    links = LinkSettings(require_object=False)
    with open_store("memory://") as store, open_block(seaweedfs_settings) as block:
        lake = make_lake(store, block, name=name, links=links)
        given = lake.catalog.links.get_physical_address(name, MAIN, b"a", presign=True)
        assert given.upload is not None
        lake.catalog.links.link(name, MAIN, b"a", given.address, checksum="sum", size=8)
        lake.catalog.commits.commit(name, MAIN, CommitRequest(committer="ann", message="linked"))
        with pytest.raises(MissingBytes):
            lake.bytes_of(name, "main", b"a")
        httpx.put(given.upload.url, content=b"original", timeout=60).raise_for_status()
        assert lake.bytes_of(name, "main", b"a") == b"original"
        httpx.put(given.upload.url, content=b"replaced", timeout=60).raise_for_status()
        with pytest.raises(ChangedBytes, match="not the one that was read first"):
            lake.bytes_of(name, "main", b"a")
        with pytest.raises(ChangedBytes):
            lake.catalog.copies.copy(name, DEV, b"b", source_ref="main", source_path=b"a")


def test_a_storage_that_signs_only_to_create_keeps_nothing_more(
    azure_settings: AzureSettings,
) -> None:
    name = RepositoryID("azure-linked")
    place = f"https://{AZURE_ACCOUNT}.blob.core.windows.net/{BUCKET}/{name}"
    with open_store("memory://") as store, open_block(azure_settings) as block:
        lake = make_lake(store, block, name=name, namespace=place)
        stats, url = link(lake, b"original")
        assert CONTENT not in stats.reserved
        again = httpx.put(url, content=b"evil", headers={"x-ms-blob-type": "BlockBlob"}, timeout=60)
        assert again.status_code == 403
        assert lake.bytes_of(name, "main", b"a") == b"original"
