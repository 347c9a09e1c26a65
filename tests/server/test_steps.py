"""How many calls to the store a request makes, one after the other, by either API.

On a database in the network each of them costs a round trip. The process has made the same request
before: who the user is, and what never changes, it knows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lakebed.base.runtime import Runtime
from lakebed.installation import opening
from lakebed.kv import Store, open_store
from lakebed.testing.faults import FaultyStore
from tests.kit.steps import Steps
from tests.server.kit import REPOSITORY, Server, server
from tests.server.s3.gateway_client import GatewayClient

PATH = f"/repositories/{REPOSITORY}"


@dataclass
class World:
    rest: Server
    s3: GatewayClient
    steps: Steps
    commit: str


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    steps = Steps()

    def counted(url: str, *, runtime: Runtime) -> Store:
        return FaultyStore(open_store(url, runtime=runtime), steps.count_store)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_store", counted)
        with server() as found:
            found.put("committed")
            body = {"message": "all"}
            made = found.call("POST", f"{PATH}/branches/main/commits", json=body)
            found.call("POST", f"{PATH}/tags", json={"id": "tag", "ref": "main"})
            found.put("staged")
            yield World(found, GatewayClient(found.services), steps, made.json["id"])


@pytest.mark.parametrize(
    ("target", "calls"),
    [
        ("", 1),
        ("/refs/main/objects/stat?path=committed", 1),
        ("/refs/main/objects/stat?path=staged", 1),
        ("/refs/{commit}/objects/stat?path=committed", 1),
        ("/refs/tag/objects/stat?path=committed", 1),
        ("/refs/main/objects?path=committed", 1),
        ("/refs/main/objects?path=staged", 1),
        ("/refs/{commit}/objects?path=committed", 1),
        ("/refs/main/commits", 1),
        ("/refs/tag/commits", 1),
        ("/commits/main", 1),
        ("/commits/{commit}", 2),  # whether a hook refused it
    ],
)
def test_a_read_by_the_api(world: World, target: str, calls: int) -> None:
    path, _, query = (PATH + target.format(commit=world.commit)).partition("?")
    for _ in range(2):
        world.steps.clear()
        answer = world.rest.call("GET", path, query_string=query)
        assert answer.status_code == 200, answer.text
    assert world.steps.store == calls, world.steps.calls


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("name", ["committed", "staged"])
def test_a_read_by_s3(world: World, method: str, name: str) -> None:
    for _ in range(2):
        world.steps.clear()
        assert world.s3.ask(method, f"/{REPOSITORY}/main/{name}").status == 200
    assert world.steps.store <= 1, world.steps.calls


LISTING = "/refs/main/objects/ls?prefix=c&amount=10"


@pytest.mark.parametrize("target", [LISTING, f"{LISTING}&delimiter=/", "/branches/main/diff"])
def test_a_page_by_the_api(world: World, target: str) -> None:
    path, _, query = (PATH + target).partition("?")
    for _ in range(2):
        world.steps.clear()
        answer = world.rest.call("GET", path, query_string=query)
        assert answer.status_code == 200, answer.text
    assert world.steps.store <= 2, world.steps.calls


def test_a_page_by_s3(world: World) -> None:
    for _ in range(2):
        world.steps.clear()
        assert world.s3.ask("GET", f"/{REPOSITORY}?list-type=2&prefix=main%2Fc").status == 200
    assert world.steps.store <= 2, world.steps.calls


def test_writes_by_the_api(world: World) -> None:
    for number in range(2):
        name = f"name-{number}"
        counts: dict[str, int] = {}
        requests: list[tuple[str, str, str, dict[str, Any]]] = [
            ("upload", "POST", f"/branches/main/objects?path={name}", {"body": b"data"}),
            ("commit", "POST", "/branches/main/commits", {"json": {"message": "some"}}),
            ("branch", "POST", "/branches", {"json": {"name": name, "source": "main"}}),
            ("delete", "DELETE", f"/branches/main/objects?path={name}", {}),
        ]
        for operation, method, target, body in requests:
            path, _, query = (PATH + target).partition("?")
            world.steps.clear()
            answer = world.rest.call(method, path, query_string=query, **body)
            assert answer.status_code < 300, answer.text
            counts[operation] = world.steps.store
    most = {"upload": 5, "commit": 7, "branch": 3, "delete": 4}
    assert all(counts[operation] <= most[operation] for operation in most), counts


def test_writes_by_s3(world: World) -> None:
    for number in range(2):
        target = f"/{REPOSITORY}/main/by-s3-{number}"
        world.steps.clear()
        assert world.s3.ask("PUT", target, b"data").status == 200
        assert number == 0 or world.steps.store <= 5, world.steps.calls
        world.steps.clear()
        assert world.s3.ask("DELETE", target).status == 204
        assert number == 0 or world.steps.store <= 4, world.steps.calls
