"""A commit of many staged objects on other databases than SQLite.

``python -m benchmarks.kv_commits valkey etcd mysql dynamodb``; all of these, if none is named. The
ratio is the share of the time in which nothing but the staged objects would have been read.
"""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from unittest.mock import patch

from benchmarks.engine_data import LAKE, MAIN, REQUEST, open_lake, tables
from benchmarks.report import Row, report
from lakebed.testing.servers.databases import (
    DatabaseServer,
    dynamodb_server,
    dynamodb_url,
    etcd_server,
    etcd_url,
    valkey_server,
    valkey_url,
)
from lakebed.testing.servers.more_databases import mariadb_server, mariadb_url

OBJECTS = 100_000
SERVERS: dict[
    str, tuple[Callable[[], AbstractContextManager[DatabaseServer]], Callable[[int], str]]
] = {
    "valkey": (valkey_server, valkey_url),
    "mysql": (mariadb_server, mariadb_url),
    "etcd": (partial(etcd_server, durable=True), etcd_url),
    "dynamodb": (partial(dynamodb_server, durable=False), dynamodb_url),
}


def measure(name: str, objects: int) -> Row:
    """Stage objects, read them all, and commit them."""
    run, url = SERVERS[name]
    credentials = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    with (
        patch.dict(os.environ, credentials),
        TemporaryDirectory() as folder,
        run() as server,
        open_lake(Path(folder) / "lake", url(server.port)) as lake,
    ):
        lake.start_worker()
        lake.stage(tables(objects))
        begun = perf_counter()
        assert sum(1 for _ in lake.store.scan(lake.token())) == objects
        read_at = perf_counter()
        lake.engine.commit(LAKE, MAIN, REQUEST)
        reading, seconds = read_at - begun, perf_counter() - read_at
    operation = f"commit of {objects:,}: {seconds:.1f} s; read alone: {reading:.1f} s"
    return Row(operation, name, objects / seconds, reading / seconds, None)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("databases", nargs="*", help="which to measure; all, if none is named")
    parser.add_argument("--objects", type=int, default=OBJECTS, help="how many are staged")
    chosen = parser.parse_args()
    unknown = set(chosen.databases) - set(SERVERS)
    if unknown:
        parser.error(f"not measured here: {', '.join(sorted(unknown))}")
    return report([measure(name, chosen.objects) for name in chosen.databases or SERVERS])


if __name__ == "__main__":
    sys.exit(main())
