"""What errors tell strangers, and who may read the metrics."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed
from lakebed import block, kv
from lakebed.base.errors import LakebedError
from lakebed.block import LocalSettings
from lakebed.server.http.errors import message_of, status_of
from lakebed.server.s3.errors import S3Error
from lakebed.server.s3.translation import as_s3_error
from lakebed.server.settings import MetricsSettings
from tests.server.disk_kit import serve

SECRET_PLACE = "/srv/lakebed at db.internal:5432"


def kinds_of_errors() -> Iterator[type[LakebedError]]:
    """All errors that code of the server can raise."""
    for package in ("auth", "block", "engine", "formats", "kv", "lake", "reclaim", "server"):
        importlib.import_module(f"lakebed.{package}")
        for module in pkgutil.walk_packages(
            [f"{lakebed.__path__[0]}/{package}"], f"lakebed.{package}."
        ):
            if module.name.endswith(".errors"):
                importlib.import_module(module.name)
    found = [LakebedError]
    for kind in found:
        found += kind.__subclasses__()
    return (each for each in found if not issubclass(each, S3Error))


def test_unexpected_errors_tell_nothing() -> None:
    unexpected = 0
    for kind in kinds_of_errors():
        error = kind.__new__(kind)
        error.args = (SECRET_PLACE,)
        if status_of(error) == 500:
            unexpected += 1
            assert SECRET_PLACE not in message_of(error, "getObject"), kind
            assert SECRET_PLACE not in str(as_s3_error(error)), kind
    assert unexpected > 10
    assert SECRET_PLACE not in message_of(FileNotFoundError(2, "no", SECRET_PLACE), "getObject")


@pytest.mark.parametrize(
    "error",
    [
        kv.OutcomeUnknown(SECRET_PLACE),
        kv.StoreUnavailable(SECRET_PLACE),
        kv.ForeignStore(SECRET_PLACE),
        block.Forbidden(SECRET_PLACE),
        block.StorageUnavailable(SECRET_PLACE),
        block.StorageFull(SECRET_PLACE),
    ],
    ids=lambda error: error.kind,
)
def test_errors_of_stores_and_storages_do_not_say_where_they_are(error: LakebedError) -> None:
    assert SECRET_PLACE not in message_of(error, "getObject")
    assert SECRET_PLACE not in str(as_s3_error(error))


def test_no_address_is_refused_with_a_folder_of_the_server(tmp_path: Path) -> None:
    store = block.open_block(LocalSettings(tmp_path / "objects"))
    beyond = "/".join(["x" * 200] * 25)
    (tmp_path / "objects" / "name").mkdir()
    (tmp_path / "objects" / "name" / "link").symlink_to(tmp_path)
    for path in (beyond, "x" * 300, "a//b", "../a", "link/x"):
        address = block.Address("local://name", path)
        with pytest.raises(block.InvalidAddress) as caught:
            store.put(address, [b"data"])
        assert str(tmp_path) not in str(caught.value)
    store.close()


def test_metrics_can_be_limited_to_networks_or_a_key(tmp_path: Path) -> None:
    key = "a key for prometheus"
    limits: dict[str, object] = {"metrics__networks": ("10.0.0.0/8",), "metrics__key": key}
    with serve(tmp_path, **limits) as server:

        def status(client: str, **headers: str) -> int:
            extras = {"REMOTE_ADDR": client}
            return server.request("GET", "/metrics", headers=headers, extras=extras).status_code

        assert status("10.1.2.3") == 200
        assert status("127.0.0.1") == 403
        assert status("127.0.0.1", Authorization=f"Bearer {key}") == 200
        assert status("127.0.0.1", Authorization=f"Bearer {key}.") == 403
        assert status("127.0.0.1", Authorization="Bearer ") == 403
        assert status("not known") == 403
        refused = server.request("GET", "/metrics")
        assert refused.json["kind"] == "metrics_refused"
        assert "lakebed_" not in refused.text
    with serve(tmp_path) as server:
        assert server.request("GET", "/metrics").status_code == 200
    assert MetricsSettings().networks == ()
