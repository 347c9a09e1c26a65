"""A server whose storage has the driver of another package."""

from tests.kit.drivers import STORAGE, Packages
from tests.server.kit import BRANCH, REPOSITORY, server


def test_objects_are_in_the_storage_of_another_package(packages: Packages) -> None:
    packages.install("storage", STORAGE, group="lakebed.block")
    with server(blockstore__type="url", blockstore__url="shelf://host") as running:
        running.put("object", b"data")
        objects = f"/repositories/{REPOSITORY}/refs/{BRANCH}/objects"
        assert running.call("GET", f"{objects}?path=object").content == b"data"
        stat = running.call("GET", f"{objects}/stat?path=object").json
        assert stat["physical_address"].startswith(f"shelf://lakes/{REPOSITORY}/")
        storage = running.call("GET", "/config").json["storage_config"]
        assert storage["blockstore_type"] == "shelf"
        assert storage["blockstore_namespace_example"] == "shelf://name/example"
