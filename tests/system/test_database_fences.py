"""The rarer ways of the fences of etcd and Valkey, on real servers."""

import threading
from collections.abc import Iterator
from typing import Any, NoReturn
from uuid import uuid4

import httpx
import pytest
from valkey import Valkey
from valkey.connection import Connection

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import StoreUnavailable
from lakebed.kv.drivers.etcd import EtcdStore, driver
from lakebed.kv.drivers.etcd.gateway import encode
from lakebed.kv.drivers.valkey import ValkeyStore, link
from lakebed.kv.drivers.valkey.link import ValkeyTimeouts
from lakebed.kv.managed import ManagedStore
from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import (
    DatabaseServer,
    etcd_server,
    etcd_url,
    valkey_server,
    valkey_url,
)
from lakebed.testing.servers.proxy import Fault, Proxy
from tests.kit.database_bench import WRITES

pytestmark = [pytest.mark.extended, pytest.mark.slow]


@pytest.fixture(scope="module")
def etcd() -> Iterator[DatabaseServer]:
    with etcd_server(durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def valkey() -> Iterator[DatabaseServer]:
    with valkey_server() as server:
        yield server


def test_a_session_of_etcd_that_ended_changes_nothing_and_is_replaced(
    etcd: DatabaseServer,
) -> None:
    runtime = ThreadRuntime()
    partition = uuid4().hex.encode()
    with EtcdStore(etcd_url(etcd.port), runtime) as store:
        version = store.set(partition, b"key", b"old")
        (session,) = store._sessions
        store._gateway.write("/v3/kv/deleterange", {"key": encode(session.key)})
        with pytest.raises(StoreUnavailable, match="its session has expired"):
            store.set(partition, b"key", b"new", version)
        assert store.get(partition, b"key").value == b"old"
        store._sessions.append(session)
        ManagedStore(store, runtime).set(partition, b"key", b"new", version)
        assert store.get(partition, b"key").value == b"new"


def test_a_process_that_cannot_fence_its_write_to_etcd_ends(
    etcd: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndedError(Exception):
        pass

    def end() -> NoReturn:
        raise EndedError

    monkeypatch.setattr(driver, "FENCE_SECONDS", 0.5)
    with Proxy(("127.0.0.1", etcd.port)) as proxy:
        store = EtcdStore(etcd_url(proxy.port), ThreadRuntime(), reply_seconds=2.0, give_up=end)
        store.set(b"p", b"key", b"value")
        proxy.break_new(Fault.CUT)
        proxy.break_open(Fault.CUT_ON_REPLY)
        with pytest.raises(EndedError):
            store.set(b"p", b"key", b"new")
        store.close()


def test_calls_to_etcd_at_the_same_time_share_no_connections(
    etcd: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that threads share may close a connection that one of them has begun to use."""
    used: list[httpx.Client] = []
    all_are_there = threading.Barrier(4)
    post = httpx.Client.post

    def meet_and_post(client: httpx.Client, *args: Any, **kwargs: Any) -> httpx.Response:
        used.append(client)
        all_are_there.wait(60)
        return post(client, *args, **kwargs)

    with EtcdStore(etcd_url(etcd.port), ThreadRuntime()) as store:
        version = store.set(b"p", b"shared", b"value")

        def read() -> None:
            assert store.get(b"p", b"shared").predicate == version

        monkeypatch.setattr(httpx.Client, "post", meet_and_post)
        for _ in range(2):
            in_threads([read] * 4)
    assert len({id(client) for client in used[:4]}) == 4
    assert {id(client) for client in used[4:]} == {id(client) for client in used[:4]}
    assert all(client.is_closed for client in used)


def test_valkey_refuses_a_write_that_comes_after_its_deadline(valkey: DatabaseServer) -> None:
    url, runtime = valkey_url(valkey.port), ThreadRuntime()
    late = ValkeyTimeouts(start_seconds=-1.0)
    with ValkeyStore(url, runtime) as store, ValkeyStore(url, runtime, timeouts=late) as tardy:
        for name, write in WRITES.items():
            partition = f"{name}-{uuid4().hex}".encode()
            store.set(partition, b"other", b"old")
            version = store.set(partition, b"there", b"old")
            before = list(store.scan(partition))
            with pytest.raises(StoreUnavailable, match="after its deadline"):
                write(tardy, partition, version)
            assert list(store.scan(partition)) == before


def test_a_busy_connection_to_valkey_is_used_without_more_system_calls(
    valkey: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "CHECK_AFTER_SECONDS", 600.0)
    monkeypatch.setattr(Connection, "can_read", lambda *_: pytest.fail("it was asked"))
    with ValkeyStore(valkey_url(valkey.port), ThreadRuntime()) as store:
        version = store.set(b"p", b"key", b"value")
        assert store.get(b"p", b"key").predicate == version
        ((connection, _),) = store._nodes.pool_of(b"p")._idle
        # With a time-out of Python's own, each step would begin with a question to the kernel.
        assert connection._sock.gettimeout() is None


def test_an_idle_connection_that_valkey_closed_is_replaced(
    valkey: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "CHECK_AFTER_SECONDS", 0.0)
    with ValkeyStore(valkey_url(valkey.port), ThreadRuntime()) as store:
        version = store.set(b"p", b"idle", b"value")
        with Valkey(port=valkey.port) as client:
            client.client_kill_filter(_type="normal", skipme=True)
        store.set(b"p", b"idle", b"new", version)
        assert store.get(b"p", b"idle").value == b"new"
