"""Imports from real object stores: their ETags are kept, and what changed since is never read."""

import uuid

import pytest

from lakebed.block import Namespace, open_block
from lakebed.kv import open_store
from lakebed.lake.errors import ChangedBytes
from lakebed.lake.imports.sources import ImportSource
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT
from tests.kit.lake import MAIN, REPOSITORY, make_lake
from tests.kit.object_stores import BUCKET, OTHER_BUCKET

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
