"""The skip index of listings, and writers that fill its ranges."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed import EntryQuery
from lakebed.engine.committed.apply import Interval
from lakebed.engine.engine import Engine
from lakebed.engine.keys import EMPTIED, STAGED_PREFIX
from lakebed.engine.model import StagingToken
from lakebed.engine.staging import listing
from lakebed.engine.staging.skip_index import SkipIndex, fill
from lakebed.engine.staging.writer import if_absent
from lakebed.formats import MetaRangeID
from lakebed.kv import Item, OutcomeUnknown, Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.engine.commit_kit import CommitKit, commit, put
from tests.engine.histories import REPOSITORY
from tests.kit import staging
from tests.simulation import engine_mutants as mutants
from tests.simulation.world import MAIN, entry

ResultT = TypeVar("ResultT")

KEYS = [b"a/%d" % number for number in range(8)]
SHORT = EntryQuery(amount=1)  # read in steps of two

FILLERS: dict[str, Callable[[Engine], None]] = {
    "put": lambda engine: put(engine, KEYS[5], "new"),
    "conditional put": lambda engine: staging.put(
        engine, REPOSITORY.id, MAIN, entry(KEYS[5], "new"), condition=if_absent
    ),
    "fresh put": lambda engine: staging.put(
        engine, REPOSITORY.id, MAIN, entry(KEYS[5], "new"), is_recent=lambda: True
    ),
    "reset of a key": lambda engine: engine.resetter.reset_key(REPOSITORY, MAIN, KEYS[5]),
    "reset of a prefix": lambda engine: engine.resetter.reset_prefix(REPOSITORY, MAIN, KEYS[5]),
}


class Emptying(CommitKit):
    """A branch whose entries are all deleted, without a commit."""

    def __init__(self) -> None:
        super().__init__()
        engine = self.engine()
        for key in KEYS:
            put(engine, key, "old")
        commit(engine)
        for key in KEYS:
            staging.delete(engine, REPOSITORY.id, MAIN, key)

    @property
    def token(self) -> bytes:
        return self.engine().branches.get(REPOSITORY, MAIN).staging_token.encode()

    def note(self) -> bytes | None:
        found = note_at(self.store, StagingToken(self.token.decode()))
        return None if found is None else found.value


def note_at(store: Store, token: StagingToken) -> Item | None:
    return store.get_many([(token.encode(), EMPTIED)])[0]


def listed(engine: Engine, query: EntryQuery = SHORT) -> list[bytes]:
    return [item.key for item in staging.list_entries(engine, REPOSITORY.id, MAIN, query).items]


class Before:
    """Does something, once, before the store is asked for something in particular."""

    def __init__(self, store: Store, wanted: Callable[[StoreCall], bool]) -> None:
        self.wanted = wanted
        self.thing: Callable[[], object] | None = None
        self.calls = 0
        self.is_done = False
        self.store = FaultyStore(store, self._intercept)

    def _intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if self.wanted(call):
            self.calls += 1
            if self.thing is not None:
                thing, self.thing = self.thing, None
                thing()
                self.is_done = True
        return apply()


def test_a_listing_jumps_over_what_another_found_empty() -> None:
    lake = Emptying()
    scans = Before(lake.store, lambda call: call.operation == "scan_page")
    engine = lake.engine(store=scans.store)
    assert listed(engine) == []
    before = scans.calls
    assert listed(engine) == []
    assert scans.calls - before < before, (before, scans.calls)


@pytest.mark.parametrize("filler", FILLERS)
def test_a_put_into_a_skipped_range_is_listed(filler: str) -> None:
    lake = Emptying()
    engine = lake.engine()
    assert listed(engine) == []
    assert lake.note()
    FILLERS[filler](lake.engine())
    assert listed(engine) == [KEYS[5]]


@pytest.mark.parametrize("filler", FILLERS)
def test_a_put_behind_a_running_listing_is_in_the_next(filler: str) -> None:
    """The listing has passed the key, and is about to record it as empty."""
    lake = Emptying()

    def is_note_of_what_was_found(call: StoreCall) -> bool:
        return call.operation == "set_if" and call.key == EMPTIED and bool(lake.note())

    before = Before(lake.store, is_note_of_what_was_found)
    before.thing = lambda: FILLERS[filler](lake.engine())
    assert listed(lake.engine(store=before.store)) == []
    assert before.is_done
    assert listed(lake.engine()) == [KEYS[5]]


def list_before_a_confirmation(lake: Emptying) -> None:
    """A listing passes the key when its writer has read the note, and has not confirmed yet."""
    cell = STAGED_PREFIX + KEYS[5]
    writes = iter(["proposal", "confirmation"])
    before = Before(
        lake.store, lambda call: call.key == cell and call.writes and next(writes) != "proposal"
    )
    shown: list[list[bytes]] = []
    before.thing = lambda: shown.append(listed(lake.engine()))
    FILLERS["conditional put"](lake.engine(store=before.store))
    assert before.is_done
    assert shown == [[]]
    assert lake.note() is not None
    assert listed(lake.engine()) == [KEYS[5]]


def test_a_run_ends_where_a_proposal_waits() -> None:
    list_before_a_confirmation(Emptying())


def test_a_run_that_goes_on_over_a_proposal_hides_what_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutants.note_over_proposals(monkeypatch)
    with pytest.raises(AssertionError):
        list_before_a_confirmation(Emptying())


def test_a_put_before_the_search_is_found_by_it() -> None:
    """The listing has read ahead; it must read its recorded range again."""
    lake = Emptying()
    before = Before(lake.store, lambda call: call.operation == "set_if")
    before.thing = lambda: put(lake.engine(), b"b", "new")
    listed(lake.engine(store=before.store), EntryQuery())
    assert before.is_done
    assert listed(lake.engine(), EntryQuery()) == [b"b"]


def test_no_more_is_noted_than_was_sought() -> None:
    """A search through one directory, the last one, ends with the directory."""
    lake = CommitKit()
    engine = lake.engine()
    keys = [b"a/%03d" % number for number in range(150)]  # more than the first window
    for key in [b"0/live", *keys]:
        put(engine, key, "old")
    commit(engine)
    for key in keys:
        staging.delete(engine, REPOSITORY.id, MAIN, key)
    folded = EntryQuery(delimiter=b"/")
    swaps = Before(lake.store, lambda call: call.operation == "set_if")
    swaps.thing = lambda: setattr(swaps, "thing", lambda: put(lake.engine(), b"b/new", "new"))
    assert listed(lake.engine(store=swaps.store), folded) == [b"0/"]
    assert swaps.calls == 2
    assert listed(lake.engine(), folded) == [b"0/", b"b/"]


def test_writers_behind_a_deleted_directory_do_not_disturb_the_search() -> None:
    lake = Emptying()
    put(lake.engine(), b"z/0", "new")
    swaps = Before(lake.store, lambda call: call.operation == "set_if")
    engine = lake.engine(store=swaps.store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "_FIRST_WINDOW", 2)
        for number in range(1, 4):
            swaps.thing = partial(put, lake.engine(), b"z/%d" % number, "new")
            assert listed(engine, EntryQuery(delimiter=b"/")) == [b"z/"]
    notes = pb.Emptied.FromString(lake.note() or b"")
    assert [(each.start, each.end) for each in notes.stretches] == [(b"a/1\x00", b"a/7\x00")]


def test_a_note_that_cannot_be_read_is_ignored() -> None:
    lake = Emptying()
    lake.store.set(lake.token, EMPTIED, b"\xff")
    engine = lake.engine()
    assert listed(engine) == []
    lake.store.set(lake.token, EMPTIED, b"\xff")
    put(engine, KEYS[5], "new")
    assert listed(engine) == [KEYS[5]]


def test_a_note_that_others_always_change_is_deleted() -> None:
    store = MemoryStore(ThreadRuntime())
    tokens = [StagingToken("new")]
    notes = SkipIndex(store, tokens, MetaRangeID("m"), now_us=0)

    def seek_before(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation in {"set_if", "delete_if"}:
            assert notes.seek(Interval(b"a", None)) is not None
        return apply()

    assert notes.seek(Interval(b"a", None)) is not None
    fill(FaultyStore(store, seek_before), tokens[0], [b"b"], note_at(store, tokens[0]))
    assert note_at(store, tokens[0]) is None


def test_a_tombstone_leaves_the_note_as_it_is() -> None:
    lake = Emptying()
    engine = lake.engine()
    listed(engine)
    note = lake.note()
    staging.delete(engine, REPOSITORY.id, MAIN, KEYS[5])
    assert note is not None
    assert lake.note() == note


def test_a_note_is_about_one_state_of_a_branch() -> None:
    store = MemoryStore(ThreadRuntime())
    tokens = [StagingToken("new"), StagingToken("old")]
    notes = SkipIndex(store, tokens, MetaRangeID("m"), now_us=0)
    search = notes.seek(Interval(b"a", None))
    assert search is not None
    assert notes.key_ranges() == []
    notes.found(search, b"c")
    assert notes.key_ranges() == [Interval(b"a", b"c")]
    assert SkipIndex(store, tokens[:1], MetaRangeID("m"), now_us=0).key_ranges() == []
    assert SkipIndex(store, tokens, MetaRangeID("n"), now_us=0).key_ranges() == []
    for other_us in (600_000_000, -600_000_000):  # by a clock that is far ahead, too
        assert SkipIndex(store, tokens, MetaRangeID("m"), now_us=other_us).key_ranges() == []


def test_filling_cuts_stretches_off_before_the_key() -> None:
    store = MemoryStore(ThreadRuntime())
    tokens = [StagingToken("new")]
    notes = SkipIndex(store, tokens, MetaRangeID("m"), now_us=0)
    for start in (b"a", b"c", b"e"):
        search = notes.seek(Interval(start, None))
        assert search is not None
        notes.found(search, start + b"z")
    fill(store, tokens[0], [b"cd", b"cc", b"e", b"x"], note_at(store, tokens[0]))
    left = [Interval(b"a", b"az"), Interval(b"c", b"cc")]
    assert notes.key_ranges() == left
    search = notes.seek(Interval(b"m", None))
    assert search is not None
    fill(store, tokens[0], [b"n"], note_at(store, tokens[0]))
    notes.found(search, b"z")
    assert notes.key_ranges() == left


def test_a_lost_reply_to_a_filling_is_looked_into() -> None:
    store = MemoryStore(ThreadRuntime())
    tokens = [StagingToken("new")]
    notes = SkipIndex(store, tokens, MetaRangeID("m"), now_us=0)
    search = notes.seek(Interval(b"a", None))
    assert search is not None
    notes.found(search, None)
    lost = iter([OutcomeUnknown("lost")])

    def refuse(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation == "set_if" and (error := next(lost, None)):
            raise error
        return apply()

    fill(FaultyStore(store, refuse), tokens[0], [b"b"], note_at(store, tokens[0]))
    assert notes.key_ranges() == [Interval(b"a", b"b")]
