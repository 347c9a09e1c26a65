import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.block import (
    AzureSettings,
    Between,
    BlockSettings,
    FromOffset,
    GCSSettings,
    InvalidArgument,
    LocalSettings,
    MemorySettings,
    S3Settings,
    Suffix,
)

SETTINGS: list[BlockSettings] = [
    LocalSettings(Path("/data")),
    MemorySettings(),
    S3Settings(access_key_id="id", secret_access_key="hush", session_token="hush"),
    GCSSettings(),
    AzureSettings("account", account_key="hush"),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_travel_but_do_not_show_their_secrets(settings: BlockSettings) -> None:
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "hush" not in repr(settings)


def test_no_driver_is_loaded_before_it_is_opened() -> None:
    program = (
        "import sys, lakebed.block;"
        "print([name for name in sys.modules if name.startswith('lakebed.block.drivers')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout == b"[]\n"


def test_a_missing_extra_says_what_to_install() -> None:
    # A fresh interpreter in which the libraries of the clouds cannot be imported.
    program = """
import sys
for name in ("obstore", "boto3", "botocore", "azure"):
    sys.modules[name] = None
from lakebed.block import S3Settings, open_block
from lakebed.block import registry
from lakebed.errors import MissingExtraError
registry._DRIVERS = {S3Settings: ("obstore", "s3")}
try:
    open_block(S3Settings())
except MissingExtraError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"pip install 'lakebed[s3]'" in result.stdout


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
