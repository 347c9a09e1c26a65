"""The application under gunicorn (`make test-all PARTS=wsgi`), as under httpd."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from lakebed.server.processes.preflight import CannotStart
from lakebed.server.quickstart import WELL_KNOWN_PAIR
from lakebed.server.wsgi import make_application
from lakebed.testing.servers.lakebed import settings_in
from tests.kit.served import PATIENCE_SECONDS, eventually

ROOT: Final = Path(__file__).parents[2]
CONTENT: Final = os.urandom(5 << 20)
ENTRY: Final = "lakebed.server.wsgi:make_application({config!r})"
SERVERS: Final = ["httpd", pytest.param("gunicorn", marks=pytest.mark.wsgi)]


def write_settings(folder: Path, **sections: dict[str, object]) -> tuple[Path, int]:
    settings = settings_in(folder, sections)
    file = folder / "lakebed.yaml"
    file.write_text(yaml.safe_dump(settings))
    port: int = settings["listen"]["port"]
    return file, port


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    file, port = write_settings(tmp_path)
    entry = ENTRY.format(config=str(file))
    command: list[str | Path] = [sys.executable, "-m", "tests.system.wsgi_child", entry, str(port)]
    if request.param == "gunicorn":
        command = [
            ROOT / ".envs/wsgi/bin/gunicorn",
            "--bind",
            f"127.0.0.1:{port}",
            "--workers",
            "2",
        ]
        command += ["--worker-class", "gthread", "--threads", "16", entry]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        eventually(lambda: is_ready(f"http://127.0.0.1:{port}/_health"))
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


def test_keys_that_everyone_knows_are_refused(url: str) -> None:
    """The other server chooses the address, which other machines may reach."""
    pair = WELL_KNOWN_PAIR
    key = {"access_key_id": pair.access_key_id, "secret_access_key": pair.secret_access_key}
    with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        answer = client.post("/setup_lakefs", json={"username": "admin", "key": key})
    assert answer.status_code == 400
    assert "is refused by this server" in answer.json()["message"]


def test_objects_go_up_and_come_down(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE_SECONDS) as client:
        keys = client.post("/setup_lakefs", json={"username": "admin"}).raise_for_status().json()
        client.auth = (keys["access_key_id"], keys["secret_access_key"])
        made = {"name": "lake", "storage_namespace": "local://lakes/lake"}
        client.post("/repositories", json=made).raise_for_status()
        for name, content in (("length", CONTENT), ("chunks", iter([CONTENT]))):
            put(client, name, content)
        commit = client.post("/repositories/lake/branches/main/commits", json={"message": "two"})
        commit.raise_for_status()
        for name in ("length", "chunks"):
            path = "/repositories/lake/refs/main/objects"
            got = client.get(path, params={"path": name}).raise_for_status().content
            assert hashlib.sha256(got).digest() == hashlib.sha256(CONTENT).digest()


def put(client: httpx.Client, name: str, content: Any) -> None:
    client.post(
        "/repositories/lake/branches/main/objects",
        params={"path": name},
        content=content,
        headers={"Content-Type": "application/octet-stream"},
    ).raise_for_status()


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"database": {"url": "memory://"}}, "allows only one process"),
        ({"listen": {"tls_certificate": "a.crt", "tls_key": "a.key"}}, "listen.tls_certificate"),
    ],
)
def test_settings_that_another_server_cannot_follow_are_refused(
    tmp_path: Path, sections: dict[str, dict[str, object]], message: str
) -> None:
    file, _ = write_settings(tmp_path, **sections)
    with pytest.raises(CannotStart, match=message):
        make_application(str(file))
