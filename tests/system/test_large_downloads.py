"""Objects that are large enough to be sent without being read, by every API of a server."""

import os
import re
from functools import partial
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlsplit

import httpx

from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.served import PATIENCE_SECONDS, eventually
from tests.system.api_kit import RawClient, create_repository
from tests.system.test_hostile_bytes import put, targets

DATA: Final = os.urandom((9 << 20) + 123)
RANGES: Final = [(0, len(DATA)), (1, len(DATA)), (5_000, 5_000_000), (len(DATA) - 10, len(DATA))]


def bytes_out(server: LakebedServer) -> float:
    """How many bytes came out of the storage, by the metric."""
    text = httpx.get(f"{server.endpoint}/metrics", timeout=PATIENCE_SECONDS).text
    line = r'^lakebed_block_bytes_total{direction="out",driver="local"} (.*)$'
    found = re.search(line, text, re.MULTILINE)
    return 0.0 if found is None else float(found[1])


def has_counted(server: LakebedServer, size: float) -> bool:
    return bytes_out(server) >= size


def test_whole_objects_and_ranges_by_every_api(
    sqlite_lakebed: LakebedServer, repository_name: str
) -> None:
    with RawClient(sqlite_lakebed) as client:
        create_repository(client, repository_name)
        put(client, repository_name, "a", DATA)
        apis = targets(client, repository_name, "a")
        stats = f"/repositories/{repository_name}/refs/main/objects/stat"
        found = client.call("GET", stats, path="a", presign="true").json
    apis["presigned"] = (urlsplit(found["physical_address"]).path, {})
    for api, (target, headers) in apis.items():
        before = bytes_out(sqlite_lakebed)
        connection = HTTPConnection("127.0.0.1", sqlite_lakebed.port, timeout=PATIENCE_SECONDS)
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        assert (api, answer.status) == (api, 200)
        assert answer.read() == DATA
        for first, last in RANGES:
            asked = {"Range": f"bytes={first}-{last - 1}"}
            connection.request("GET", target, headers={**headers, **asked})
            answer = connection.getresponse()
            assert (api, answer.status) == (api, 206)
            assert answer.read() == DATA[first:last]
        connection.close()
        expected = before + len(DATA) + sum(last - first for first, last in RANGES)
        # A client may have its answer before the server has counted it, and others may read too.
        eventually(partial(has_counted, sqlite_lakebed, expected))
