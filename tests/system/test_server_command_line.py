"""The commands that start a server or look after one."""

import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import httpx
import pytest

from lakebed.auth import AuthenticationFailed
from lakebed.clients.cli import app
from lakebed.clients.cli.running import run
from lakebed.engine import records_pb2 as pb
from lakebed.engine.keys import DROPPED, DROPPED_PARTITION
from lakebed.engine.model import RepositoryID
from lakebed.kv import open_store
from lakebed.kv.records import Records
from lakebed.server.app import open_services
from lakebed.server.config_files import load
from lakebed.server.quickstart import WELL_KNOWN_PAIR, create_key, flags_of, prepare
from lakebed.server.settings import ListenSettings, ServerSettings
from tests.kit.served import PATIENCE_SECONDS, Servers, free_port

PROGRAM: Final = [sys.executable, "-m", "tests.system.command_line"]
KEYED: Final = {"LAKEBED_SERVER__AUTH__SECRET_KEY": "a key for tests only"}


@dataclass
class Ended:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


def invoke(*arguments: str, **environment: str) -> Ended:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with patch.dict(os.environ, environment), redirect_stdout(out), redirect_stderr(err):
        exit_code = run(app, list(arguments))
    for stream in (out, err):
        stream.seek(0)
    return Ended(exit_code, out.read(), err.read())


def refused(*arguments: str, exit_code: int) -> list[str]:
    """What a command that fails has to say."""
    done = subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (exit_code, "")
    return done.stderr.splitlines()


def until_line(process: subprocess.Popen[str], ending: str) -> list[str]:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].endswith(ending):
        line = process.stdout.readline()
        assert line, lines
        lines.append(line.strip())
    return lines


def test_a_quickstart_prints_what_to_paste_and_keeps_its_key(
    servers: Servers, tmp_path: Path
) -> None:
    port, folder = free_port(), tmp_path / "data"
    command = [*PROGRAM, "quickstart", "--port", str(port), "--data-dir", str(folder)]
    key = None
    for _ in range(2):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        servers.started.append(process)
        lines = until_line(process, f"http://127.0.0.1:{port}/")
        assert f"The log is {folder}/lakebed.log; warnings are shown here too." in lines
        text = "\n".join(lines)
        assert f"Lakebed is ready at http://127.0.0.1:{port}" in lines
        assert "AKIAIOSFOLQUICKSTART" in text
        assert "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" in text
        assert any(line.endswith(" repo list") for line in lines)
        assert httpx.get(f"http://127.0.0.1:{port}/healthcheck", timeout=60).status_code == 200
        assert httpx.get(f"http://127.0.0.1:{port}/crash", timeout=60).status_code == 500
        file = folder / "secret.key"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert key in {None, file.read_text()}
        key = file.read_text()
        process.send_signal(signal.SIGINT)
        _, terminal = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0
        # The terminal has the failure; the file has the requests too.
        assert "request failed: internal: ZeroDivisionError" in terminal
        assert "GET /healthcheck 200" not in terminal
        log = (folder / "lakebed.log").read_text()
        assert "request failed: internal: ZeroDivisionError" in log
        assert "GET /healthcheck 200" in log


def test_a_busy_port_and_a_folder_that_cannot_be_written_take_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        arguments = ("quickstart", "--port", port, "--data-dir", str(tmp_path / "data"))
        assert refused(*arguments, exit_code=1) == [
            f"lakebed: port {port} of 127.0.0.1 is in use: stop the other program, or use --port"
        ]
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file" / "data")
    assert refused("quickstart", "--data-dir", folder, exit_code=1) == [
        f"lakebed: cannot write to {tmp_path}/file/data: Not a directory"
    ]


def test_run_takes_flags_over_the_file_and_says_when_it_is_ready(servers: Servers) -> None:
    port = free_port()
    process = servers.launch(
        servers.settings(), "-m", "tests.system.command_line", "run", "--port", str(port),
        "--workers", "1", "--config",
    )  # fmt: skip
    assert until_line(process, str(port)) == [f"lakebed is ready at http://127.0.0.1:{port}"]
    process.terminate()
    assert process.wait(timeout=PATIENCE_SECONDS) == 0


def test_a_new_server_waits_for_its_first_administrator(servers: Servers) -> None:
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    process = servers.launch(
        servers.settings(), "-m", "lakebed", "run", "--port", str(port), "--workers", "1",
        "--config",
    )  # fmt: skip
    ready, waits = until_line(process, f" setup --endpoint {endpoint}")
    assert ready == f"lakebed is ready at {endpoint}"
    assert waits.startswith("It has no users yet. To set it up: ")
    made = invoke("setup", "--endpoint", endpoint, "--user-name", "ada", "--json")
    keys = json.loads(made.stdout)
    known = {
        "LAKEBED_ENDPOINT": endpoint,
        "LAKEBED_ACCESS_KEY_ID": keys["access_key_id"],
        "LAKEBED_SECRET_ACCESS_KEY": keys["secret_access_key"],
    }
    assert invoke("identity", **known).stdout.startswith("id\tada\n")
    again = invoke("setup", "--endpoint", endpoint)
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr == (
        "lakebed: the installation already has an administrator: nothing was changed (409)\n"
    )
    process.terminate()
    assert process.wait(timeout=PATIENCE_SECONDS) == 0


def test_run_names_every_problem_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "lakebed.yaml"
    file.write_text("listen: {prot: 1}\nprocesses: {workers: many}")
    assert refused("run", "--config", str(file), exit_code=2) == [
        f"lakebed: {file}: unknown setting listen.prot: did you mean listen.port?",
        f"lakebed: processes.workers: expected a whole number, not 'many' (from {file})",
    ]


def test_the_settings_are_shown_without_their_secrets(tmp_path: Path, postgresql_url: str) -> None:
    file = tmp_path / "lakebed.yaml"
    url = postgresql_url.replace("postgres@", "postgres:hunter2@")
    file.write_text(f"listen: {{port: 8123}}\ndatabase: {{url: '{url}'}}")
    shown = invoke("config", "check", "--config", str(file), **KEYED)
    assert shown.exit_code == 0
    assert "port: 8123" in shown.stdout
    assert "postgresql://postgres:********@/" in shown.stdout
    assert "hunter2" not in shown.stdout + shown.stderr
    assert "a key for tests" not in shown.stdout + shown.stderr
    failed = invoke("config", "check")
    assert (failed.exit_code, failed.stdout) == (2, "")
    assert failed.stderr == (
        "lakebed: auth.secret_key is missing: set it, or auth.secret_key_file\n"
    )


def test_a_database_that_cannot_be_opened_is_told_with_all_other_problems(tmp_path: Path) -> None:
    file = tmp_path / "lakebed.yaml"
    file.write_text("listen: {port: 0}\ndatabase: {url: 'oracle://u:hunter2@db/x'}")
    problems = refused("config", "check", "--config", str(file), exit_code=2)
    assert problems[0] == "lakebed: listen.port is 0: use a number above 0"
    assert any("database.url: unsupported database URL: oracle" in each for each in problems)
    assert "lakebed: auth.secret_key is missing: set it, or auth.secret_key_file" in problems
    assert "hunter2" not in "".join(problems)
    (tmp_path / "not-a-database").write_text("what is this" * 100)
    for url, complaint in [
        (f"sqlite:///{tmp_path}/not-a-database", "not a"),
        ("etcd://127.0.0.1:1/lakebed", "cannot reach etcd"),
    ]:
        file.write_text(f"listen: {{port: 0}}\ndatabase: {{url: '{url}'}}")
        problems = refused("config", "check", "--config", str(file), exit_code=2)
        assert "lakebed: listen.port is 0: use a number above 0" in problems
        assert any("database.url: " in each and complaint in each for each in problems)


def test_a_check_makes_no_new_file(tmp_path: Path) -> None:
    file = tmp_path / "lakebed.yaml"
    file.write_text(f"database: {{url: 'sqlite:///{tmp_path}/new.db?namespace=one'}}")
    assert invoke("config", "check", "--config", str(file), **KEYED).exit_code == 0
    assert [each.name for each in tmp_path.iterdir()] == ["lakebed.yaml"]


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a store with a token that a branch has dropped."""
    url = f"sqlite:///{tmp_path}/lakebed.db"
    with open_store(url) as store:
        token = pb.DroppedToken(repository="r", unique_id="u", branch="main")
        Records(store, DROPPED, DROPPED_PARTITION).set(b"r-main:token", token)
        store.set(b"r-main:token", b"key/a", b"x")
    return url


def test_a_pass_of_the_cleaner_says_what_has_to_wait(database: str) -> None:
    shown = invoke("cleaner", "run", "--database", database)
    assert shown.exit_code == 0
    assert "tokens waiting\t1\n" in shown.stdout
    assert "1 have to wait until" in shown.stdout
    counts = json.loads(invoke("cleaner", "run", "--json", "--database", database).stdout)
    assert (counts["ran"], counts["tokens_waiting"], counts["keys_deleted"]) == (True, 1, 0)
    assert counts["waiting_until"] is not None


def test_the_cleaner_can_wait_until_all_is_clean(database: str) -> None:
    grace = {"LAKEBED_SERVER__ENGINE__GRACE_SECONDS": "0.3"}
    done = invoke("cleaner", "run", "--wait", "--json", "--database", database, **grace)
    counts = json.loads(done.stdout)
    assert (counts["tokens_done"], counts["keys_deleted"]) == (1, 1)
    assert (counts["tokens_waiting"], counts["waiting_until"]) == (0, None)


def test_a_database_that_is_none_takes_one_line() -> None:
    failed = invoke("cleaner", "run", "--database", "nonsense")
    assert failed.exit_code == 2
    assert failed.stderr.count("\n") == 1


def test_a_database_that_does_not_answer_is_not_a_wrong_call() -> None:
    failed = invoke("cleaner", "run", "--database", "postgresql://u:hunter2@127.0.0.1:1/db")
    assert failed.exit_code == 1
    assert failed.stderr.count("\n") == 1
    assert "refused" in failed.stderr
    assert "hunter2" not in failed.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_the_well_known_keys_are_for_loopback_addresses(host: str) -> None:
    assert ListenSettings(host=host).is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "no.such.host.invalid", ""])
def test_other_addresses_are_for_others_too(host: str) -> None:
    assert not ListenSettings(host=host).is_loopback


def quickstart_settings(folder: Path, host: str) -> ServerSettings:
    create_key(folder)
    return load(environment={}, flags=flags_of(folder, host, 8000))


def test_a_first_start_on_loopback_has_the_keys_of_tutorials(tmp_path: Path) -> None:
    settings = quickstart_settings(tmp_path, "127.0.0.1")
    for _ in range(2):
        assert prepare(settings, sample=True) == WELL_KNOWN_PAIR
    services = open_services(settings)
    key, secret = WELL_KNOWN_PAIR.access_key_id, WELL_KNOWN_PAIR.secret_access_key
    assert services.auth.authenticate(key, secret).user_id == "admin"
    assert len(list(services.catalog.refs.list_branches(RepositoryID("sample")))) == 2
    services.close()


def test_elsewhere_the_keys_are_random_and_told_once(tmp_path: Path) -> None:
    settings = quickstart_settings(tmp_path, "0.0.0.0")
    pair = prepare(settings, sample=False)
    assert pair not in {None, WELL_KNOWN_PAIR}
    assert prepare(settings, sample=False) is None
    services = open_services(settings)
    assert pair is not None
    services.auth.authenticate(pair.access_key_id, pair.secret_access_key)
    services.close()


def test_the_keys_of_tutorials_open_nothing_once_others_can_connect(tmp_path: Path) -> None:
    prepare(quickstart_settings(tmp_path, "127.0.0.1"), sample=False)
    settings = quickstart_settings(tmp_path, "0.0.0.0")
    pair = prepare(settings, sample=False)
    assert pair not in {None, WELL_KNOWN_PAIR}
    services = open_services(settings)
    with pytest.raises(AuthenticationFailed):
        services.auth.authenticate(WELL_KNOWN_PAIR.access_key_id, WELL_KNOWN_PAIR.secret_access_key)
    services.close()


def test_a_key_is_drawn_once(tmp_path: Path) -> None:
    create_key(tmp_path)
    key = (tmp_path / "secret.key").read_text()
    create_key(tmp_path)
    assert (tmp_path / "secret.key").read_text() == key
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]
    create_key(tmp_path / "other")
    assert (tmp_path / "other" / "secret.key").read_text() != key


def test_help_does_not_import_the_server() -> None:
    program = (
        "import sys, lakebed.clients.cli; "
        "heavy = {'lakebed.server', 'pyarrow', 'httptools', 'rich.console', 'httpx', 'yaml'}; "
        "print(heavy & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
