"""How many calls to the store a request makes, one after the other, by either door.

On a database in the network each of them costs a round trip. The process has made the same request
before: who the user is, and what never changes, it knows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from lakebed.installation import opening
from lakebed.kv import Store, open_store
from lakebed.runtime import Runtime
from lakebed.testing.faults import FaultyStore
from tests.kit.steps import Steps
from tests.server.kit import REPOSITORY, Server, server
from tests.server.s3.door import Door

PATH = f"/repositories/{REPOSITORY}"


@dataclass
class World:
    rest: Server
    s3: Door
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
            yield World(found, Door(found.services), steps, made.json["id"])


@pytest.mark.parametrize(
    ("target", "calls"),
    [
        ("", 1),
        ("/refs/main/objects/stat?path=committed", 1),
        ("/refs/main/objects/stat?path=staged", 1),
        ("/refs/{commit}/objects/stat?path=committed", 1),
        ("/refs/tag/objects/stat?path=committed", 3),
        ("/refs/main/objects?path=committed", 1),
        ("/refs/main/objects?path=staged", 1),
        ("/refs/{commit}/objects?path=committed", 1),
        ("/refs/main/commits", 1),
        ("/refs/tag/commits", 1),
        ("/commits/main", 1),
        ("/commits/{commit}", 1),
    ],
)
def test_a_read_by_the_api(world: World, target: str, calls: int) -> None:
    path, _, query = (PATH + target.format(commit=world.commit)).partition("?")
    for _ in range(2):
        world.steps.clear()
        answer = world.rest.call("GET", path, query_string=query)
        assert answer.status_code == 200, answer.text
    assert world.steps.store <= calls, world.steps.calls


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("name", ["committed", "staged"])
def test_a_read_by_s3(world: World, method: str, name: str) -> None:
    for _ in range(2):
        world.steps.clear()
        assert world.s3.ask(method, f"/{REPOSITORY}/main/{name}").status == 200
    assert world.steps.store <= 1, world.steps.calls
