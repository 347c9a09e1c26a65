"""`lakebed kv copy` with real databases and a real server."""

import json
import signal
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest
import yaml

from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.kv import Store, open_store
from lakebed.kv.copying import partition_hashes
from lakebed.kv.halt import Permit
from lakebed.kv.store import puts
from lakebed.testing.servers.lakebed import (
    LakebedServer,
    end,
    lakebed_server,
    launch,
    wait_until_ready,
)
from tests.kit.postgresql import conninfo

pytestmark = [pytest.mark.extended, pytest.mark.slow]

KEYS = 1500
WITHOUT_WAIT = """
from lakebed.clients.cli import main
from lakebed.kv import halt
halt.SETTLE_SECONDS = 0.0
main()
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Run":
    monkeypatch.setattr("lakebed.kv.halt.SETTLE_SECONDS", 0.0)
    return Run(capsys)


class Run:
    """Runs commands in this process, without the wait for servers elsewhere."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = running.run(cli.app, list(arguments))
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err


def look(url: str) -> Store:
    return open_store(url, permit=Permit(reads_only=True))


def test_a_copy_that_is_killed_goes_on(tmp_path: Path, postgresql_url: str, run: Run) -> None:
    source = f"sqlite:///{tmp_path}/old.db"
    with open_store(source) as store:
        for token in range(5):
            values = [(b"key/%06d" % each, b"v%d" % each) for each in range(KEYS)]
            store.write(puts(b"token-%d" % token, values))
        before = partition_hashes(store)
    command = [sys.executable, "-c", WITHOUT_WAIT, "kv", "copy", source, postgresql_url]
    # A row that is not committed holds the copy up at the fourth of five tokens.
    with look(postgresql_url) as target, psycopg.connect(conninfo(postgresql_url)) as blocker:
        blocker.execute(
            "INSERT INTO lakebed_kv (partition, key, value, version) VALUES (%b, %b, %b, %b)",
            (b"token-3", b"key/000000", b"", b""),
        )
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            # On a busy machine it may give the fourth up before this is seen: half a copy, too.
            deadline = time.monotonic() + 240
            while b"token-2" not in target.partitions():
                time.sleep(0.05)
                assert time.monotonic() < deadline
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        blocker.rollback()
    for url in (source, postgresql_url):
        code, printed = run("cleaner", "run", "--database", url)
        assert code == 1
        assert "lakebed kv copy" in printed
        assert printed.count("\n") == 1
    code, printed = run("kv", "copy", source, postgresql_url)
    assert code == 0, printed
    assert f"{5 * KEYS + 1:,} records in 6 partitions" in printed
    written = int(printed.partition(" partitions, ")[2].partition(" ")[0].replace(",", ""))
    # The last token at least, and not the first ones. What the killed process had sent of the
    # fourth may have been applied when the row was free.
    assert KEYS <= written < 5 * KEYS
    with look(postgresql_url) as target, look(source) as old:
        assert partition_hashes(target) == partition_hashes(old) == before
    code, printed = run("kv", "copy", source, postgresql_url)
    assert (code, "is a complete copy of sqlite:" in printed) == (1, True), printed


def test_a_server_moves_from_sqlite_to_postgresql(
    tmp_path: Path, postgresql_url: str, run: Run
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with lakebed_server(folder, settings={"processes": {"workers": 1}}) as server:
        create(server, "lake")
        code, printed = run("kv", "copy", f"sqlite:///{folder}/lakebed.db", postgresql_url)
        assert code == 0, printed
        # Within a moment: it looks at the mark every two seconds.
        deadline = time.monotonic() + 60
        while (refusal := create(server, f"late-{time.monotonic_ns()}")) is None:
            assert time.monotonic() < deadline
        assert refusal == (503, "the database is being migrated and is read-only")
        assert "lake" in names(server)
    # It does not start again on the old database, and does on the new one, with the same users.
    ended = subprocess.run(
        [sys.executable, "-m", "lakebed", "run", "--config", str(folder / "lakebed.yaml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "was copied to postgresql://" in ended.stderr
    settings = yaml.safe_load((folder / "lakebed.yaml").read_text())
    settings["database"]["url"] = postgresql_url
    process = launch(folder, settings, "-m", "lakebed", "run", "--config")
    try:
        wait_until_ready(process, folder, f"lakebed is ready at {server.endpoint}")
        assert names(server) == ["lake"]
        assert create(server, "after") is None
    finally:
        end(process)


def create(server: LakebedServer, name: str) -> tuple[int, str] | None:
    """Create a repository; return why not, if not."""
    body = {"name": name, "storage_namespace": f"{server.namespace}/{name}"}
    try:
        ask(server, json.dumps(body).encode())
    except HTTPError as error:
        return error.code, json.load(error)["message"]
    return None


def names(server: LakebedServer) -> list[str]:
    return [each["id"] for each in ask(server)["results"]]


def ask(server: LakebedServer, body: bytes | None = None) -> Any:
    keys = b64encode(f"{server.access_key_id}:{server.secret_access_key}".encode()).decode()
    headers = {"Authorization": f"Basic {keys}", "Content-Type": "application/json"}
    with urlopen(Request(f"{server.endpoint}/api/v1/repositories", body, headers)) as answer:
        return json.load(answer)
