"""PostgreSQL: the store against a bare psycopg pool that runs the same statements.

Both sides use the same table, server and number of threads; floor and store take turns in short
rounds, and medians are compared, since other work on the machine disturbs both alike.
"""

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
from psycopg_pool import ConnectionPool

from benchmarks.report import Row
from lakebed.kv import Store, Version, open_store
from lakebed.kv.drivers.postgresql import statements
from lakebed.kv.urls import take_options
from lakebed.testing.servers.databases import postgresql_server

THREADS = 16
MANY_THREADS = 100
"""More than a store has connections: they wait for each other's."""
ROUNDS = 7
KEYS_PER_THREAD = 64
VALUE = b"v" * 200
PARTITION = b"bench"
BAR = 0.7
MANY_BAR = 1.2

# A call gets the number of the thread and the number of the call in it.
Call = Callable[[int, int], object]


def measure(*, scale: float) -> list[Row]:
    """Measure `get`, `get_many` and `set_if`; `scale` shrinks the number of calls."""
    calls = max(2, int(400 * scale))
    rounds = ROUNDS if scale >= 1 else 1
    with postgresql_server(durable=scale >= 1) as server:
        url = server.create_database()
        with open_store(url) as store, _bare_pool(take_options(url, {"durable"})[0]) as pool:
            versions = _fill(store)
            get = _compare(_bare_get(pool), _our_get(store), calls, rounds)
            crowd = _compare(
                _bare_get(pool),
                _our_get(store),
                max(2, calls * THREADS // MANY_THREADS),
                rounds,
                threads=MANY_THREADS,
            )
            get_many = _compare(_three(_our_get(store)), _our_get_many(store), calls, rounds)
            set_if = _compare(
                _bare_set_if(pool, versions), _our_set_if(store, versions), calls, rounds
            )
    return [
        Row("get, 16 threads", "postgresql", *get, BAR),
        Row(f"get, {MANY_THREADS} threads", "postgresql", *crowd, BAR),
        Row("get_many of 3 against 3 gets, 16 threads", "postgresql", *get_many, MANY_BAR),
        Row("set_if, 16 threads", "postgresql", *set_if, BAR),
    ]


def _compare(
    floor: Call, ours: Call, calls: int, rounds: int, *, threads: int = THREADS
) -> tuple[float, float]:
    """Calls per second of ours, and the ratio to the floor."""
    for side in (floor, ours):
        _round(side, max(2, calls // 10), threads)  # connections are made and statements prepared
    speeds: dict[str, list[float]] = {"floor": [], "ours": []}
    for number in range(rounds):
        sides = [("floor", floor), ("ours", ours)]
        for name, side in sides if number % 2 else reversed(sides):
            speeds[name].append(_round(side, calls, threads))
    median = statistics.median(speeds["ours"])
    return median, median / statistics.median(speeds["floor"])


def _round(call: Call, calls: int, threads: int) -> float:
    barrier = Barrier(threads + 1)

    def work(thread: int) -> None:
        barrier.wait()
        for number in range(calls):
            call(thread, number)

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, thread) for thread in range(threads)]
        barrier.wait()
        begun = time.perf_counter()
        for future in futures:
            future.result()
        return threads * calls / (time.perf_counter() - begun)


def _key(thread: int, number: int) -> bytes:
    return b"key/%02d/%03d" % (thread % THREADS, number % KEYS_PER_THREAD)


def _fill(store: Store) -> dict[bytes, Version]:
    keys = [_key(thread, number) for thread in range(THREADS) for number in range(KEYS_PER_THREAD)]
    with ThreadPoolExecutor(THREADS) as pool:
        versions = pool.map(lambda key: store.set(PARTITION, key, VALUE), keys)
        return dict(zip(keys, versions, strict=True))


def _our_get(store: Store) -> Call:
    return lambda thread, number: store.get(PARTITION, _key(thread, number))


def _our_get_many(store: Store) -> Call:
    def call(thread: int, number: int) -> None:
        store.get_many([(PARTITION, _key(thread, number + each)) for each in range(3)])

    return call


def _three(get: Call) -> Call:
    def call(thread: int, number: int) -> None:
        for each in range(3):
            get(thread, number + each)

    return call


def _our_set_if(store: Store, versions: dict[bytes, Version]) -> Call:
    def call(thread: int, number: int) -> None:
        key = _key(thread, number)
        versions[key] = store.set(PARTITION, key, VALUE, versions[key])

    return call


def _bare_pool(url: str) -> ConnectionPool[psycopg.Connection]:
    return ConnectionPool(
        url,
        min_size=THREADS,
        max_size=THREADS,
        open=True,
        kwargs={"autocommit": True, "cursor_factory": psycopg.RawCursor},
        configure=_configure,
    )


def _configure(connection: psycopg.Connection) -> None:
    # Otherwise the floor would plan every statement anew until it has run a few times.
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET enable_seqscan = off")


def _bare_get(pool: ConnectionPool[psycopg.Connection]) -> Call:
    def call(thread: int, number: int) -> None:
        with pool.connection() as connection:
            key = _key(thread, number)
            cursor = connection.execute(statements.GET, (PARTITION, key), prepare=True, binary=True)
            assert cursor.fetchone() is not None

    return call


def _bare_set_if(pool: ConnectionPool[psycopg.Connection], versions: dict[bytes, Version]) -> Call:
    never = time.time() + 1e6

    def call(thread: int, number: int) -> None:
        key = _key(thread, number)
        new = Version(os.urandom(16))
        parameters = (never, PARTITION, key, VALUE, new, versions[key])
        with pool.connection() as connection:
            cursor = connection.execute(
                statements.SET_IF_VERSION, parameters, prepare=True, binary=True
            )
            assert cursor.rowcount == 1
        versions[key] = new

    return call
