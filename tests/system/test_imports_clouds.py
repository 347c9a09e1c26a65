"""Imports from real object stores: their ETags are kept, and what changed since is never read."""

import uuid

import pytest

from lakebed.block import Archived, Namespace, S3Settings, open_block
from lakebed.installation.statuses import status_of
from lakebed.kv import open_store
from lakebed.lake.errors import ChangedBytes
from lakebed.lake.imports.sources import ImportSource
from lakebed.server.s3.errors import ErrorCode
from lakebed.server.s3.translation import as_s3_error
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT
from tests.kit.lake import MAIN, REPOSITORY, make_lake
from tests.kit.object_stores import BUCKET, OTHER_BUCKET, client_of

pytestmark = pytest.mark.extended

_AZURE = f"https://{AZURE_ACCOUNT}.blob.core.windows.net"


@pytest.mark.parametrize(
    ("settings", "scheme"),
    [
        ("seaweedfs_settings", "s3:/"),
        ("moto_settings", "s3:/"),
        ("azure_settings", _AZURE),
    ],
)
def test_an_import_from_an_object_store(
    request: pytest.FixtureRequest, settings: str, scheme: str
) -> None:
    name = uuid.uuid4().hex
    with open_store("memory://") as store, open_block(request.getfixturevalue(settings)) as block:
        lake = make_lake(store, block, namespace=f"{scheme}/{BUCKET}/{name}")
        source = Namespace.parse(f"{scheme}/{OTHER_BUCKET}/{name}")
        for path in ("a", "b/1", "b/2", "c"):
            block.put(source.address(path), [path.encode()])
        imports = lake.catalog.imports
        import_id = imports.start(
            REPOSITORY,
            MAIN,
            [ImportSource.of_prefix(source, b"in")],
            committer="ann",
            message="import",
        )
        status = imports.status(REPOSITORY, MAIN, import_id)
        assert (status.completed, status.objects, status.error) == (True, 4, None)
        for path in ("a", "b/1", "b/2", "c"):
            assert lake.text("main", f"in/{path}".encode()) == path
        block.put(source.address("b/1"), [b"B!1"])
        objects = lake.catalog.objects
        stats = objects.stat(REPOSITORY, "main", b"in/b/1")
        for read in (objects.read, objects.check_bytes):
            with pytest.raises(ChangedBytes, match="changed since import"):
                read(stats)


def test_an_archived_object_says_its_class_and_the_remedy(moto_settings: S3Settings) -> None:
    name = uuid.uuid4().hex
    with open_store("memory://") as store, open_block(moto_settings) as block:
        lake = make_lake(store, block, namespace=f"s3://{BUCKET}/{name}")
        source = Namespace.parse(f"s3://{OTHER_BUCKET}/{name}")
        client_of(moto_settings).put_object(
            Bucket=OTHER_BUCKET, Key=f"{name}/old", Body=b"old", StorageClass="GLACIER"
        )
        lake.catalog.imports.start(
            REPOSITORY,
            MAIN,
            [ImportSource.of_prefix(source, b"in")],
            committer="ann",
            message="import",
        )
        objects, old = lake.catalog.objects, source.address("old")
        words = f"{old} is archived: 403 InvalidObjectState GLACIER: restore it"
        with pytest.raises(Archived, match=words) as caught:
            objects.read(objects.stat(REPOSITORY, "main", b"in/old"))
        assert status_of(caught.value) == 409
        assert as_s3_error(caught.value).code is ErrorCode.INVALID_OBJECT_STATE
        with pytest.raises(Archived, match=f"{old} is archived: 403 ObjectNotInActiveTierError"):
            block.copy(old, source.address("copy"))
