"""Workers that keep answers, and what other processes write."""

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from lakebed.testing.servers.lakebed import lakebed_server
from tests.system.api_kit import RawClient

pytestmark = pytest.mark.extended

BRANCH = "/repositories/lake/branches/main"
STAT = "/repositories/lake/refs/main/objects/stat"


def test_what_was_acknowledged_is_seen_by_the_next_request_of_every_connection(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(lakebed_server(tmp_path))
        # Enough of them that either worker has some.
        clients = [stack.enter_context(closing(RawClient(server))) for _ in range(8)]
        body = b'{"name": "lake", "storage_namespace": "local://lakes/lake"}'
        made = clients[0].call(
            "POST", "/repositories", body=body, headers={"Content-Type": "application/json"}
        )
        assert made.status == 201, made.body
        for number in range(100):
            writer = clients[number % len(clients)]
            content = b"x" * (number + 1)
            assert writer.call("POST", f"{BRANCH}/objects", body=content, path="a").status == 201
            for _ in range(3):  # the last time from memory
                sizes = [
                    client.call("GET", STAT, path="a").json["size_bytes"] for client in clients
                ]
                assert sizes == [number + 1] * len(clients)
