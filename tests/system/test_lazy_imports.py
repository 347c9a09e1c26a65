"""What is not imported before it is needed, and what is said where it is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.cli.kit import bare_environ

OF_LIBRARIES = {"httpx", "click", "rich", "pygments", "pydantic", "importlib.metadata", "msgspec"}
"""What httpx, its command line, Typer's conversion of arguments and the client import."""


def test_no_driver_is_loaded_before_it_is_opened() -> None:
    program = (
        "import sys, lakebed.block;"
        "print([name for name in sys.modules if name.startswith('lakebed.block.drivers')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout == b"[]\n"


def test_every_cloud_says_what_to_install() -> None:
    program = """
import sys
sys.modules |= dict.fromkeys(("obstore", "boto3", "botocore", "azure"))
from lakebed.block import AzureSettings, GCSSettings, S3Settings, open_block
from lakebed.base.errors import MissingExtraError
for settings in (S3Settings(), AzureSettings("account"), GCSSettings()):
    try:
        open_block(settings)
    except MissingExtraError as error:
        print(error.extra)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert result.stdout.split() == [b"s3", b"azure", b"gcs"]


@pytest.mark.parametrize(
    ("arguments", "code", "may_load"),
    [
        (["--version"], 0, set()),
        (["--help"], 0, set()),
        (["repo", "list", "--endpoint", "http://127.0.0.1:1"], 1, OF_LIBRARIES),
    ],
)
def test_commands_load_no_more_than_they_need(
    tmp_path: Path, arguments: list[str], code: int, may_load: set[str]
) -> None:
    heavy = {"httpx", "rich", "click", "yaml", "pydantic", "pyarrow", "httptools", "msgspec"}
    heavy |= {"lakebed.server", "lakebed.engine", "importlib.metadata", "pygments"}
    probe = (
        f"import sys, lakebed.clients.cli as cli; code = cli.run(cli.app, {arguments})\n"
        f"found = {heavy - may_load} & set(sys.modules)\n"
        f"print(sorted(found), file=sys.stderr) if found or code != {code} else None\n"
        f"sys.exit(bool(found) or code != {code})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe],
        env=bare_environ(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


def test_opentelemetry_is_not_imported_without_tracing() -> None:
    program = (
        "import sys; from tests.server.kit import server\n"
        "with server() as served: served.put('a')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
