"""The Cleaner skips records that cannot be read, and processes the rest."""

import logging
from collections.abc import Iterator

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.keys import (
    BRANCHES,
    CLAIMS,
    DELETED,
    DELETED_PARTITION,
    DROPPED,
    DROPPED_PARTITION,
    GRAVELER,
    REPOSITORIES,
)
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.kv import Store, open_store
from lakebed.kv.records import RecordKind
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.cleaner import Cleaner
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.kit.hand_clock import WakefulRuntime
from tests.simulation.world import entry

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DAMAGED = b"\xff\xff\xff"


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://") as opened:
        yield opened


@pytest.fixture
def engine(store: Store) -> Engine:
    block = MemoryBlockStore(ThreadRuntime())
    engine = new_engine(store, block, runtime=ThreadRuntime())
    for name in ("lake", "other"):
        place = Namespace.parse(f"mem://bucket/{name}")
        engine.repositories.create(RepositoryID(name), place, committer="ann")
    return engine


def new_cleaner(store: Store) -> Cleaner:
    return Cleaner(store, WakefulRuntime(), grace_seconds=0)


PLACES: list[tuple[bytes, RecordKind]] = [  # type: ignore[type-arg]
    (GRAVELER, REPOSITORIES),
    (GRAVELER, CLAIMS),
    (DELETED_PARTITION, DELETED),
    (DROPPED_PARTITION, DROPPED),
]


@pytest.mark.parametrize("name", [b"!", b"!\xff", b"!/a0"])
@pytest.mark.parametrize("value", [DAMAGED, b""])
@pytest.mark.parametrize(("partition", "kind"), PLACES, ids=lambda each: str(each)[:20])
def test_a_damaged_record_does_not_stop_the_rest(
    store: Store,
    engine: Engine,
    partition: bytes,
    kind: RecordKind,  # type: ignore[type-arg]
    value: bytes,
    name: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Records that cannot be decoded, or decode to invalid names."""
    # Sorts before all others of its kind.
    store.set(partition, kind.prefix + name, value)
    staging.put(engine, LAKE, MAIN, entry(b"a", "a"))
    HeadChanges(engine).reset(LAKE, MAIN)
    engine.repositories.delete(RepositoryID("other"))
    cleaner = new_cleaner(store)
    counts = [cleaner.run_once() for _ in range(4)]
    assert sum(each.tokens_done for each in counts) >= 1
    assert sum(each.repositories_done for each in counts) == 1
    assert all(each.unreadable for each in counts)
    assert "is not a valid" in caplog.text
    assert repr(kind.prefix + name)[2:-1] in caplog.text
    assert store.get(partition, kind.prefix + name).value == value


@pytest.mark.parametrize("value", [DAMAGED, b""])
def test_the_claim_of_a_repository_that_cannot_be_read_is_kept(
    store: Store, engine: Engine, value: bytes
) -> None:
    store.set(GRAVELER, REPOSITORIES.prefix + b"lake", value)
    cleaner = new_cleaner(store)
    counts = [cleaner.run_once() for _ in range(3)]
    assert sum(each.claims_removed for each in counts) == 0
    assert all(each.unreadable for each in counts)


def test_the_claim_that_names_no_repository_is_kept(store: Store, engine: Engine) -> None:
    key = CLAIMS.prefix + b"mem://bucket/lake/"
    assert store.get(GRAVELER, key)
    store.set(GRAVELER, key, b"")
    cleaner = new_cleaner(store)
    assert [cleaner.run_once().unreadable for _ in range(3)] == [1, 1, 1]
    assert store.get(GRAVELER, key).value == b""


def test_a_token_whose_announcement_names_no_branch_is_kept(store: Store, engine: Engine) -> None:
    """A branch may reference the token."""
    staging.put(engine, LAKE, MAIN, entry(b"kept", "k"))
    (token, *_) = engine.branches.get(engine.repositories.get(LAKE), MAIN).tokens
    store.set(DROPPED_PARTITION, token.encode(), b"")
    cleaner = new_cleaner(store)
    for _ in range(4):
        cleaner.run_once()
    assert list(store.scan(token.encode()))


@pytest.mark.parametrize("value", [DAMAGED, b""])
def test_the_tokens_of_a_branch_that_cannot_be_read_are_kept(
    store: Store, engine: Engine, value: bytes
) -> None:
    """The damaged branch may reference the tokens."""
    staging.put(engine, LAKE, MAIN, entry(b"kept", "k"))
    HeadChanges(engine).reset(LAKE, MAIN)
    repository = engine.repositories.get(LAKE)
    store.set(repository.partition, BRANCHES.prefix + b"main", value)
    (dropped,) = [item.key for item in store.scan(DROPPED_PARTITION, DROPPED.prefix)]
    cleaner = new_cleaner(store)
    for _ in range(4):
        counts = cleaner.run_once()
    assert (counts.tokens_named, counts.tokens_done) == (1, 0)
    assert list(store.scan(dropped.removeprefix(DROPPED.prefix)))


@pytest.mark.parametrize("value", [DAMAGED, b""])
def test_a_deleted_repository_with_a_damaged_branch_stays_announced(
    store: Store, engine: Engine, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    repository = engine.repositories.get(LAKE)
    engine.refs.create_branch(LAKE, BranchID("second"), MAIN)
    store.set(repository.partition, BRANCHES.prefix + b"main", value)
    engine.repositories.delete(LAKE)
    cleaner = new_cleaner(store)
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            counts = cleaner.run_once()
    assert counts.repositories_waiting == 1
    left = [item.key for item in store.scan(repository.partition)]
    assert left == [BRANCHES.prefix + b"main"]
    assert "damaged" in caplog.text
