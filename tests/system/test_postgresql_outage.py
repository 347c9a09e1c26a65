"""A database that is down: every call says so, and what it says names no host.

A call that had waited its whole turn would raise another error: that the connections are busy.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from socket import create_server
from time import monotonic

import pytest
from psycopg.conninfo import conninfo_to_dict

from lakebed.kv import ABSENT, Store, StoreUnreachable, open_store
from lakebed.kv.store import Put, puts
from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import PostgreSQLServer
from lakebed.testing.servers.proxy import Fault, Proxy
from tests.kit.postgresql import conninfo

CALLS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get(b"p", b"k"),
    "get_many": lambda store: store.get_many([(b"p", b"k")]),
    "scan": lambda store: list(store.scan(b"p")),
    "set": lambda store: store.set(b"p", b"k", b"v"),
    "set_if": lambda store: store.set(b"p", b"k", b"v", ABSENT),
    "delete": lambda store: store.delete(b"p", b"k"),
    "set_many": lambda store: store.write(puts(b"p", [(b"k", b"v")])),
    "set_all": lambda store: store.write([Put(b"p", b"k", b"v")]),
}


def expect_to_fail(store: Store, *, threads_each: int = 1) -> None:
    """Make all calls at once, as the requests of a busy server do."""

    def check(name: str) -> None:
        with pytest.raises(StoreUnreachable) as caught:
            CALLS[name](store)
        assert caught.value.public_message == "the database does not answer; retry later"

    in_threads([partial(check, name) for name in CALLS for _ in range(threads_each)])


def test_a_stopped_database_is_known_soon(mortal_postgresql: PostgreSQLServer) -> None:
    with open_store(mortal_postgresql.create_database()) as store:
        store.set(b"p", b"k", b"v")
        mortal_postgresql.stop()
        expect_to_fail(store)
        mortal_postgresql.start()
        assert store.get(b"p", b"k").value == b"v"


@pytest.fixture
def proxied(postgresql: PostgreSQLServer, postgresql_url: str) -> Iterator[tuple[Proxy, str]]:
    database = conninfo_to_dict(conninfo(postgresql_url))["dbname"]
    with Proxy(postgresql.socket) as proxy:
        address = f"127.0.0.1:{proxy.port}"
        options = "sslmode=disable&gssencmode=disable&pool_size=6&durable=true"
        yield proxy, f"postgresql://postgres@{address}/{database}?{options}"


def test_a_database_in_a_black_hole_is_known_soon(proxied: tuple[Proxy, str]) -> None:
    proxy, url = proxied
    with open_store(url) as store:
        store.set(b"p", b"k", b"v")
        proxy.break_new(Fault.SWALLOW_REPLIES)
        proxy.break_open(Fault.CUT)
        # More callers than connections: those who wait for their turn must not wait longer.
        expect_to_fail(store, threads_each=3)
        proxy.break_new(Fault.NONE)
        give_up_at = monotonic() + 60
        while True:
            try:
                assert store.get(b"p", b"k").value == b"v"
                break
            except StoreUnreachable:
                assert monotonic() < give_up_at


def test_a_second_host_is_found_behind_a_black_hole(proxied: tuple[Proxy, str]) -> None:
    proxy, url = proxied
    with closing(create_server(("127.0.0.1", 0))) as hole:
        hosts = f"127.0.0.1:{hole.getsockname()[1]},127.0.0.1:{proxy.port}"
        with open_store(url.replace(f"127.0.0.1:{proxy.port}", hosts)) as store:
            store.set(b"p", b"k", b"v")
            assert store.get(b"p", b"k").value == b"v"
