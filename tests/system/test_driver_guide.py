"""The package of the guide for drivers: built, installed, and held to the conformance suite."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lakebed.testing.conformance.kv import StoreConformance

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPENED = """
import sys
from lakebed.kv import open_store
with open_store(sys.argv[1]) as store:
    store.set(b"p", b"key", b"value")
with open_store(sys.argv[1] + "?namespace=other") as store:
    assert store.get_many([(b"p", b"key")]) == [None]
"""


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package, with its wheel unpacked in `site`."""
    folder = tmp_path_factory.mktemp("package")
    for name, content in FILES.findall((ROOT / "docs/drivers.md").read_text()):
        (folder / name).write_text(content)
    run(folder, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist")
    (wheel,) = (folder / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder


def installed(package: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(package / "site"), str(ROOT / "src")])}


def test_the_scheme_of_the_package_is_opened(package: Path, tmp_path: Path) -> None:
    run(package, "-c", OPENED, f"example://{tmp_path}/records", **installed(package))


def test_the_driver_passes_the_conformance_suite(package: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "test_example.py")
    printed = run(package, "-m", "pytest", *options, **installed(package))
    (passed,) = re.findall(r"(\d+) passed", printed)
    assert int(passed) >= len([name for name in dir(StoreConformance) if name.startswith("test")])
    assert "skipped" not in printed
