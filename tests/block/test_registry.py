import pickle
from pathlib import Path

import pytest

from lakebed.block import (
    AzureSettings,
    Between,
    BlockSettings,
    FromOffset,
    GCSSettings,
    InvalidAddress,
    InvalidArgument,
    LocalSettings,
    MemorySettings,
    Namespace,
    S3Settings,
    Suffix,
    URLSettings,
    open_block,
)
from tests.kit.drivers import STORAGE, Packages

SETTINGS: list[BlockSettings] = [
    LocalSettings(Path("/data")),
    MemorySettings(),
    S3Settings(access_key_id="id", secret_access_key="hush", session_token="hush"),
    GCSSettings(),
    AzureSettings("account", account_key="hush"),
    URLSettings("shelf://user:hush@host/path"),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_travel_but_do_not_show_their_secrets(settings: BlockSettings) -> None:
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "hush" not in repr(settings)


def test_settings_of_no_driver_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="str"):
        open_block("local:///data")  # type: ignore[arg-type]


def test_the_driver_of_another_package_opens_its_scheme(packages: Packages) -> None:
    with pytest.raises(InvalidAddress):
        Namespace.parse("shelf://top/lake")
    packages.install("storage", STORAGE, group="lakebed.block")
    address = Namespace.parse("shelf://top/lake").address("object")
    with open_block(URLSettings("shelf://user:hush@host")) as block:
        block.put(address, [b"data"])
        assert block.read(address) == b"data"


def test_a_storage_without_a_driver_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no driver for shelf:// storage: install a package"):
        open_block(URLSettings("shelf://user:hush@host"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Between(2, 2),
        lambda: Between(3, 2),
        lambda: Between(-1, 2),
        lambda: FromOffset(-1),
        lambda: Suffix(0),
        lambda: Suffix(-1),
    ],
)
def test_byte_ranges_that_mean_nothing(make: type) -> None:
    with pytest.raises(InvalidArgument):
        make()
