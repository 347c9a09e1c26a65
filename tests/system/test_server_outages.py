"""A server whose database or storage is away says so, soon, and tells strangers nothing more."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict

from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.postgresql import PostgreSQLServer
from lakebed.testing.servers.proxy import Fault, Proxy
from tests.kit.served import eventually

ANSWER_SECONDS = 3.0
READINESS_SECONDS = 2.0


@dataclass
class Bench:
    """A server, its database, and the network between them."""

    lakebed: LakebedServer
    database: PostgreSQLServer
    proxy: Proxy

    def get(self, path: str) -> tuple[httpx.Response, float]:
        """Ask as the administrator; return the answer and how long it took."""
        begun = time.monotonic()
        pair = (self.lakebed.access_key_id, self.lakebed.secret_access_key)
        url = f"{self.lakebed.endpoint}/{path}"
        answer = httpx.get(url, auth=pair, timeout=60, trust_env=False)
        return answer, time.monotonic() - begun

    def assert_ready(self) -> None:
        eventually(lambda: self.get("readiness")[0].status_code == 200)
        assert self.get("readiness")[0].json() == {"database": "ok", "storage": "ok"}
        assert self.get("api/v1/repositories")[0].status_code == 200

    def assert_database_away(self) -> None:
        """Both doors say so, in time, without the place of the database."""
        answer, seconds = self.get("readiness")
        assert (answer.status_code, answer.json()["database"]) == (503, "does not answer")
        assert answer.json()["storage"] == "ok"
        self._assert_silent(answer)
        assert seconds < READINESS_SECONDS
        answer, seconds = self.get("api/v1/repositories")
        assert answer.status_code == 503
        assert answer.json()["kind"] in {"store_unreachable", "store_unavailable"}
        assert answer.headers["Retry-After"] == "1"
        self._assert_silent(answer)
        assert seconds < ANSWER_SECONDS
        assert self.get("_health")[0].status_code == 200
        request_id = answer.headers["X-Request-ID"]
        assert any(
            "a request was answered 503: " in line and request_id in line
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
    aside = objects.rename(objects.with_name("aside"))
    try:
        begun = time.monotonic()
        answer = httpx.get(f"{sqlite_lakebed.endpoint}/readiness", trust_env=False)
        assert time.monotonic() - begun < READINESS_SECONDS
        assert answer.status_code == 503
        assert answer.json() == {
            "database": "ok",
            "storage": "does not answer",
            "message": "the storage does not answer",
            "kind": "not_ready",
        }
    finally:
        aside.rename(objects)
    answer = httpx.get(f"{sqlite_lakebed.endpoint}/api/v1/readiness", trust_env=False)
    assert answer.status_code == 200
