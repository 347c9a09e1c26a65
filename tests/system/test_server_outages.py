"""A server whose database or storage is away says so, soon, and tells strangers nothing more."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from psycopg.conninfo import conninfo_to_dict

from lakebed.testing.servers.databases import PostgreSQLServer
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.proxy import Fault, Proxy
from tests.kit.served import eventually


@dataclass
class Bench:
    """A server, its database, and the network between them."""

    lakebed: LakebedServer
    database: PostgreSQLServer
    proxy: Proxy

    def get(self, path: str) -> httpx.Response:
        """Ask as the administrator; an answer that never comes fails."""
        pair = (self.lakebed.access_key_id, self.lakebed.secret_access_key)
        url = f"{self.lakebed.endpoint}/{path}"
        return httpx.get(url, auth=pair, timeout=60, trust_env=False)

    def assert_ready(self) -> None:
        eventually(lambda: self.get("readiness").status_code == 200)
        assert self.get("readiness").json() == {"database": "ok", "storage": "ok"}
        assert self.get("api/v1/repositories").status_code == 200

    def assert_database_away(self) -> None:
        """Both APIs say so, while it is away, without the place of the database."""
        answer = self.get("readiness")
        assert (answer.status_code, answer.json()["database"]) == (503, "does not answer")
        assert answer.json()["storage"] == "ok"
        self._assert_silent(answer)
        answer = self.get("api/v1/repositories")
        assert answer.status_code == 503
        assert answer.json()["kind"] in {"store_unreachable", "store_unavailable"}
        assert answer.headers["Retry-After"] == "1"
        self._assert_silent(answer)
        assert self.get("_health").status_code == 200
        request_id = answer.headers["X-Request-ID"]
        assert any(
            "request answered with 503: " in line and request_id in line
            for line in self.lakebed.log().splitlines()
        )

    def _assert_silent(self, answer: httpx.Response) -> None:
        for secret in ("127.0.0.1", str(self.proxy.port), "test_", "psycopg", "connection"):
            assert secret not in answer.text


@pytest.fixture
def bench(
    tmp_path_factory: pytest.TempPathFactory, mortal_postgresql: PostgreSQLServer
) -> Iterator[Bench]:
    name = conninfo_to_dict(mortal_postgresql.create_database())["dbname"]
    options = "sslmode=disable&gssencmode=disable"
    with Proxy(mortal_postgresql.socket) as proxy:
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/{name}?{options}"
        settings: dict[str, dict[str, object]] = {
            "database": {"url": url},
            "processes": {"workers": 1},
        }
        with lakebed_server(tmp_path_factory.mktemp("lakebed"), settings=settings) as lakebed:
            yield Bench(lakebed, mortal_postgresql, proxy)


def test_a_database_that_is_stopped(bench: Bench) -> None:
    bench.assert_ready()
    bench.database.stop()
    bench.assert_database_away()
    bench.database.start()
    bench.assert_ready()


def test_a_database_that_hangs(bench: Bench) -> None:
    bench.assert_ready()
    bench.proxy.break_open(Fault.SWALLOW_REPLIES)
    bench.proxy.break_new(Fault.SWALLOW_REPLIES)
    bench.assert_database_away()
    bench.proxy.break_new(Fault.NONE)
    bench.assert_ready()


def test_a_storage_that_is_away(sqlite_lakebed: LakebedServer) -> None:
    """The storage of a server that others use is away for a moment."""
    objects = sqlite_lakebed.folder / "objects"
    # The server is ready when one worker is. A process that starts later would make the folder.
    started = psutil.Process(sqlite_lakebed.process.pid).children()
    spawned = [each.pid for each in started if "spawn_main" in "".join(each.cmdline())]
    assert spawned
    eventually(lambda: all(has_open(pid, objects) for pid in spawned))
    aside = objects.rename(objects.with_name("aside"))
    try:
        answer = httpx.get(f"{sqlite_lakebed.endpoint}/readiness", timeout=60, trust_env=False)
        assert answer.status_code == 503
        assert answer.json() == {
            "database": "ok",
            "storage": "does not answer",
            "message": "the storage does not answer",
            "kind": "not_ready",
        }
    finally:
        aside.rename(objects)
    answer = httpx.get(f"{sqlite_lakebed.endpoint}/api/v1/readiness", timeout=60, trust_env=False)
    assert answer.status_code == 200


def has_open(pid: int, folder: Path) -> bool:
    """Whether a process has a folder open."""
    with suppress(FileNotFoundError):  # it closes something just now
        return any(each.readlink() == folder for each in Path(f"/proc/{pid}/fd").iterdir())
    return False
