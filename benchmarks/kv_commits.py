"""A commit of many staged objects on several databases.

``python -m benchmarks.kv_commits valkey etcd``; all, if none is named. The ratio is that of the
time in which the staged objects are read, and nothing else is done, to that of the commit.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from unittest.mock import patch

from benchmarks.engine_data import LAKE, MAIN, REQUEST, open_lake, tables
from benchmarks.engine_listing import list_all
from benchmarks.report import Row, report
from lakebed.lake.commits import HeadChanges
from lakebed.testing.servers import ServerMissingError
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
TINY_OBJECTS = 1_000
SERVERS: dict[
    str, tuple[Callable[[], AbstractContextManager[DatabaseServer]], Callable[[int], str]]
] = {
    "valkey": (valkey_server, valkey_url),
    "mysql": (mariadb_server, mariadb_url),
    "etcd": (partial(etcd_server, durable=True), etcd_url),
    "dynamodb": (partial(dynamodb_server, durable=False), dynamodb_url),
}
NAMES = ("sqlite", "rocksdb", *SERVERS)


@contextmanager
def database_url(name: str, folder: Path) -> Iterator[str]:
    """Give the URL of a new database."""
    if name not in SERVERS:
        yield f"{name}:///{folder}/{name}"
        return
    run, url = SERVERS[name]
    credentials = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    with patch.dict(os.environ, credentials), run() as server:
        yield url(server.port)


def measure(name: str, objects: int) -> Row:
    """Stage objects, read them all, and commit them."""
    with (
        TemporaryDirectory() as folder,
        database_url(name, Path(folder)) as url,
        open_lake(Path(folder) / "lake", url) as lake,
    ):
        lake.start_worker()
        lake.stage(tables(objects))
        begun = perf_counter()
        assert sum(1 for _ in lake.store.scan(lake.token())) == objects
        read_at = perf_counter()
        HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
        reading, seconds = read_at - begun, perf_counter() - read_at
        assert list_all(lake) == objects
    operation = f"commit of {objects:,}: {seconds:.1f} s; read alone: {reading:.1f} s"
    return Row(operation, name, objects / seconds, reading / seconds, None)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("databases", nargs="*", help="which to measure; all, if none is named")
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    chosen = parser.parse_args()
    unknown = set(chosen.databases) - set(NAMES)
    if unknown:
        parser.error(f"not measured here: {', '.join(sorted(unknown))}")
    objects = TINY_OBJECTS if chosen.tiny else OBJECTS
    rows: list[Row] = []
    for name in chosen.databases or NAMES:
        try:
            rows.append(measure(name, objects))
        except ServerMissingError as error:
            print(f"{name} is not measured: {error}")
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
