"""The wheel, in an environment that has nothing else: quickstart works, and keeps what it has."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from lakebed.server.quickstart import SAMPLE, WELL_KNOWN_PAIR
from tests.kit.served import PATIENCE_SECONDS, free_port

ROOT: Final = Path(__file__).parents[2]
PAIR: Final = (WELL_KNOWN_PAIR.access_key_id, WELL_KNOWN_PAIR.secret_access_key)
READY_SECONDS: Final = 60
EMBEDDED: Final = """
import lakebed
with lakebed.open({folder!r}) as lake:
    main = lake.repository("lake").create().branch("main")
    main.object("a").upload(b"1")
    assert main.commit("first").id
    assert main.object("a").reader().read() == b"1"
"""


def run(*command: str | Path) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
    (wheel,) = folder.glob("lakebed-*.whl")
    return wheel


def install(wheel: Path, lock: str) -> Path:
    """Install the wheel and what a lock file says that it needs; return the command."""
    uv = shutil.which("uv") or ROOT / ".uv" / "bin" / "uv"
    place = wheel.parent / lock
    python = place / "bin" / "python"
    run(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, place)
    install = (uv, "pip", "install", "--quiet", "--python", python)
    run(*install, "--require-hashes", "-r", ROOT / "requirements" / lock)
    run(*install, "--no-deps", wheel)
    return python.with_name("lakebed")


@pytest.fixture(scope="module")
def program(wheel: Path) -> Path:
    """The command of an environment with the wheel, and what its server needs."""
    return install(wheel, "run.txt")


@contextmanager
def quickstart(program: Path, port: int, data: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the command as somebody would who has no other programs; end it by Ctrl-C."""
    process = subprocess.Popen(
        [program, "quickstart", "--port", str(port), "--data-dir", data],
        env={"PATH": str(program.parent), "HOME": str(data.parent)},
        cwd=data.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.communicate()


def wait_until_ready(process: subprocess.Popen[str], url: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        try:
            if httpx.get(f"{url}/healthcheck", timeout=30, trust_env=False).status_code < 300:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail(f"no answer within {READY_SECONDS} seconds")


@pytest.mark.timeout(300)
def test_the_wheel_alone_is_a_server_that_keeps_everything(program: Path, tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    url = f"http://127.0.0.1:{port}"
    sample = f"{url}/api/v1/repositories/{SAMPLE}"
    main = f"{sample}/refs/main"
    with httpx.Client(auth=PAIR, timeout=30, trust_env=False) as client:
        with quickstart(program, port, data) as process:
            wait_until_ready(process, url)
            listed = client.get(f"{main}/objects/ls").raise_for_status().json()["results"]
            assert listed
            log = client.get(f"{main}/commits").raise_for_status().json()["results"]
            assert len(log) > 1
            assert len(client.get(f"{sample}/branches").json()["results"]) > 1
            objects = f"{sample}/branches/main/objects"
            client.post(objects, params={"path": "mine"}, content=b"mine").raise_for_status()
            assert_refused(program, port, tmp_path / "other")
        assert process.returncode == 0
        with quickstart(program, port, data) as process:
            wait_until_ready(process, url)
            found = client.get(f"{main}/objects/ls").raise_for_status().json()["results"]
            assert [each["path"] for each in found] == sorted(
                [*(each["path"] for each in listed), "mine"]
            )
            assert client.get(f"{main}/objects", params={"path": "mine"}).content == b"mine"
            assert client.get(f"{main}/commits").json()["results"] == log
        assert process.returncode == 0


def assert_refused(program: Path, port: int, data: Path) -> None:
    """Another server at the same port says so, in a line."""
    done = subprocess.run(
        [program, "quickstart", "--port", str(port), "--data-dir", data],
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"port {port} of 127.0.0.1 is in use" in line


@pytest.mark.timeout(300)
def test_without_the_extra_there_is_no_server_and_that_is_said(wheel: Path, tmp_path: Path) -> None:
    program = install(wheel, "client.txt")
    for command in ("run", "quickstart"):
        refused = subprocess.run(
            [program, command],
            env={"PATH": os.defpath},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (refused.returncode, refused.stdout) == (1, "")
        (line,) = refused.stderr.splitlines()
        assert "the server needs an extra: pip install 'lakebed[server]'" in line
        assert "pip install '.[server]'" in line
    assert list(tmp_path.iterdir()) == []
    run(program.with_name("python"), "-c", EMBEDDED.format(folder=str(tmp_path / "lake")))
