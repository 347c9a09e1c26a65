from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakebed.base import tracing
from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.commits import HeadChanges
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation.world import entry

LAKE = RepositoryID("lake")
MAIN = BranchID("main")


@pytest.fixture
def spans() -> Iterator[list[str]]:
    """The names of all spans begun."""
    begun: list[str] = []

    @contextmanager
    def start(name: str) -> Iterator[None]:
        begun.append(name)
        yield

    tracing.turn_on(start)
    try:
        yield begun
    finally:
        tracing.turn_off()


def test_calls_are_spans(spans: list[str]) -> None:
    engine = new_engine()
    engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="")
    spans.clear()
    staging.put(engine, LAKE, MAIN, entry(b"a", "a"))
    HeadChanges(engine).commit(LAKE, MAIN, CommitRequest(committer="", message=""))
    staging.get(engine, LAKE, "main@", b"a")
    assert [name for name in spans if name.startswith(("engine.", "catalog."))] == [
        "engine.read_to_write",
        "engine.put",
        "catalog.commit",
        "engine.read_to_write",
        "engine.find",
    ]
