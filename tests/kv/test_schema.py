from collections.abc import Sequence

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import Item, OutcomeUnknown, Put, SchemaTooOld, StoreFull, StoreUnavailable
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.schema import METADATA_PARTITION, SCHEMA_KEY, check_schema


class FailingToMark(MemoryStore):
    """Fails the write that marks a new store; perhaps after applying it."""

    def __init__(self, error: OutcomeUnknown, *, applied: bool) -> None:
        super().__init__(ThreadRuntime())
        self.error = error
        self.applied = applied

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        if self.applied:
            super().write(writes, reads)
        raise self.error


@pytest.mark.parametrize("error", [StoreFull("full"), StoreUnavailable("down")])
def test_a_store_that_cannot_be_marked_says_why(error: OutcomeUnknown) -> None:
    with pytest.raises(type(error), match=str(error)):
        check_schema(FailingToMark(error, applied=False))


def test_a_lost_reply_to_the_mark_is_a_mark() -> None:
    store = FailingToMark(OutcomeUnknown("lost"), applied=True)
    check_schema(store)
    assert store.get(METADATA_PARTITION, SCHEMA_KEY).value == b"2"


def test_a_store_of_an_older_version_is_refused_and_left_as_it_is() -> None:
    store = MemoryStore(ThreadRuntime())
    store.set(METADATA_PARTITION, SCHEMA_KEY, b"1")
    with pytest.raises(SchemaTooOld, match=r"has schema version 1, .* refs-dump\), and restore"):
        check_schema(store)
    assert store.get(METADATA_PARTITION, SCHEMA_KEY).value == b"1"
