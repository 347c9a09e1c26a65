"""The commit protocol at its critical points: each test stops a commit at the worst moment.

A hook runs between the scan of the tokens and the publishing swap; an action of another process
there happens in the middle of the commit.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pytest

from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.requests import (
    CommitProposals,
    CommitRequest,
    CommitResult,
    MergeRequest,
)
from lakebed.engine.engine import Engine
from lakebed.engine.errors import (
    BranchNotFound,
    DirtyBranch,
    EntryNotFound,
    NoChanges,
    PreconditionFailed,
    Refused,
    Stale,
)
from lakebed.engine.hooks import Hooks, Proposal
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, Commit
from lakebed.engine.staging.cells import encode
from lakebed.engine.staging.writer import if_absent
from lakebed.kv import OutcomeUnknown
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.engine.commit_kit import CommitKit, Interrupting, commit, head, publish, put, shown
from tests.engine.histories import REPOSITORY
from tests.engine.samples import sample
from tests.kit import staging
from tests.simulation import engine_mutants as mutants
from tests.simulation.world import DEV, MAIN, SETTINGS, entry

ResultT = TypeVar("ResultT")


@pytest.fixture
def lake() -> CommitKit:
    return CommitKit()


def rebuilds() -> float:
    return sample("lakebed_engine_rebuilds_total")


def test_a_later_committer_takes_our_changes_along(lake: CommitKit) -> None:
    other = lake.engine()
    taken: list[CommitResult] = []
    ours = lake.engine(Interrupting(lambda: taken.append(commit(other))))
    put(ours, b"a", "w1")
    result = commit(ours)
    assert result.taken_along
    assert result.commit == taken[0].commit
    assert lake.contents(result.commit) == {b"a": "w1"}
    assert head(ours) == result.commit


def test_changes_discarded_in_the_middle_are_not_reported_as_committed(lake: CommitKit) -> None:
    other = lake.engine()
    ours = lake.engine(Interrupting(partial(other.resetter.reset, REPOSITORY, MAIN)))
    put(ours, b"a", "w1")
    with pytest.raises(NoChanges):
        commit(ours)
    assert shown(ours, b"a") is None


def test_after_a_reset_in_the_middle_what_is_staged_now_is_committed(lake: CommitKit) -> None:
    other = lake.engine()

    def reset_and_write() -> None:
        other.resetter.reset(REPOSITORY, MAIN)
        put(other, b"b", "w2")

    ours = lake.engine(Interrupting(reset_and_write))
    put(ours, b"a", "w1")
    result = commit(ours)
    assert not result.taken_along
    assert lake.contents(result.commit) == {b"b": "w2"}


def test_a_reset_of_a_key_in_the_middle_outlives_the_commit(lake: CommitKit) -> None:
    other = lake.engine()
    ours = lake.engine(Interrupting(partial(other.resetter.reset_key, REPOSITORY, MAIN, b"a")))
    put(ours, b"a", "w1")
    result = commit(ours)
    # The commit had scanned the key before; the later reset is staged over it.
    assert lake.contents(result.commit) == {b"a": "w1"}
    assert shown(ours, b"a") is None


def test_a_reset_of_a_prefix_in_the_middle_outlives_the_commit(lake: CommitKit) -> None:
    other = lake.engine()
    ours = lake.engine(Interrupting(partial(other.resetter.reset_prefix, REPOSITORY, MAIN, b"d/")))
    put(ours, b"d/a", "w1")
    put(ours, b"e", "w2")
    commit(ours)
    assert shown(ours, b"d/a") is None
    assert shown(ours, b"e") == "w2"


def test_a_reset_of_a_key_is_evaluated_against_the_head_of_its_end(lake: CommitKit) -> None:
    ours = lake.engine()
    put(ours, b"a", "w1")
    commit(ours)
    put(ours, b"a", "w2")
    moved: list[bool] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        # Just before the reset writes the committed value it found, the staged value is committed.
        if call.operation == "set_if" and call.key == b"key/a" and not moved:
            moved.append(True)
            commit(ours)
        return apply()

    lake.engine(store=FaultyStore(lake.store, intercept)).resetter.reset_key(REPOSITORY, MAIN, b"a")
    assert moved
    assert shown(ours, b"a") == "w2"


def test_a_reset_of_a_key_follows_a_head_that_moves_under_the_same_token(lake: CommitKit) -> None:
    ours = lake.engine()
    put(ours, b"a", "w1")
    commit(ours)
    refused = lake.engine(Interrupting(_refuse))
    put(refused, b"a", "w2")
    with pytest.raises(Refused):
        commit(refused)  # w2 stays behind in a sealed token
    put(lake.engine(), b"a", "w3")  # by a process that does not take that token for the current one
    sealed = ours.branches.get(REPOSITORY, MAIN)
    moved: list[bool] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        # The reset found w1 committed. Before its write, the sealed token is published.
        if call.operation == "set_if" and call.key == b"key/a" and not moved:
            moved.append(True)
            assert publish(ours, sealed)
        return apply()

    resetting = lake.engine(store=FaultyStore(lake.store, intercept))
    resetting.resetter.reset_key(REPOSITORY, MAIN, b"a")
    assert moved
    after = ours.branches.get(REPOSITORY, MAIN)
    assert after.staging_token == sealed.staging_token
    assert shown(ours, b"a") == "w2"


def test_a_reset_of_a_key_outlives_a_put_of_the_same_content_that_is_taken_back(
    lake: CommitKit,
) -> None:
    ours, other = lake.engine(), lake.engine()
    put(ours, b"a", "old")
    commit(ours)
    staging.delete(ours, REPOSITORY.id, MAIN, b"a")
    looks = iter([True, False])

    def is_recent() -> bool:
        fresh = next(looks)
        if not fresh:
            other.resetter.reset_key(REPOSITORY, MAIN, b"a")
        return fresh

    with pytest.raises(Stale):
        staging.put(ours, REPOSITORY.id, MAIN, entry(b"a", "old"), is_recent=is_recent)
    assert shown(ours, b"a") == "old"


def test_a_read_that_got_its_record_too_long_ago_begins_again(
    lake: CommitKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Cleaner may have removed tokens of the branch since."""
    engine = lake.engine()
    put(engine, b"a", "old")
    of_ref = engine.readings.of_ref
    found = of_ref(REPOSITORY.id, MAIN)
    engine.resetter.reset(REPOSITORY, MAIN)
    late = found._replace(read_at=found.read_at - SETTINGS.grace_seconds)
    first = [found, late]
    monkeypatch.setattr(
        engine.readings, "of_ref", lambda *args: first.pop(0) if first else of_ref(*args)
    )
    assert staging.get(engine, REPOSITORY.id, MAIN, b"a").address == "old"
    with pytest.raises(EntryNotFound):
        staging.get(engine, REPOSITORY.id, MAIN, b"a")
    assert not first


def test_a_conditional_create_sees_a_merge_under_the_same_token(lake: CommitKit) -> None:
    other = lake.engine()
    merged: list[Commit] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        # Without staged changes, the merge takes no new token: only the head tells.
        if call.operation == "set_if" and call.key == b"key/dev" and not merged:
            merged.append(_merge(other))
        return apply()

    before = other.branches.get(REPOSITORY, MAIN)
    ours = lake.engine(store=FaultyStore(lake.store, intercept))
    with pytest.raises(PreconditionFailed):
        staging.put(ours, REPOSITORY.id, MAIN, entry(b"dev", "w1"), condition=if_absent)
    assert merged
    assert other.branches.get(REPOSITORY, MAIN).staging_token == before.staging_token


def test_a_moved_head_is_built_upon(lake: CommitKit) -> None:
    other = lake.engine()

    def commit_more() -> None:
        put(other, b"b", "w2")
        commit(other)
        put(other, b"c", "w3")

    hooks = Interrupting(commit_more)
    ours = lake.engine(hooks)
    put(ours, b"a", "w1")
    result = commit(ours)
    assert result.taken_along
    assert lake.contents(head(ours)) == {b"a": "w1", b"b": "w2"}
    assert shown(ours, b"c") == "w3"


def test_tokens_sealed_by_others_meanwhile_do_not_cost_a_build(lake: CommitKit) -> None:
    other = lake.engine(Interrupting(_refuse))

    def seal_more() -> None:
        put(other, b"b", "w2")
        with pytest.raises(Refused):
            commit(other)

    hooks = Interrupting(seal_more)
    ours = lake.engine(hooks)
    put(ours, b"a", "w1")
    before = rebuilds()
    result = commit(ours)
    assert lake.contents(result.commit) == {b"a": "w1"}
    assert rebuilds() == before
    assert len(hooks.proposals) == 1
    assert shown(ours, b"b") == "w2"


@pytest.mark.parametrize("late", [False, True])
def test_a_hook_sees_every_content_that_is_offered(lake: CommitKit, *, late: bool) -> None:
    sealing = lake.engine(Interrupting(_refuse))
    put(sealing, b"a", "w1")
    with pytest.raises(Refused):
        commit(sealing)  # leaves a sealed token behind
    sealed = sealing.branches.get(REPOSITORY, MAIN)
    helper = lake.engine()

    def publish_the_oldest() -> None:
        # Another process commits only the oldest sealed token, perhaps with a write that arrived
        # after our scan.
        if late:
            token = sealed.sealed_tokens[0].encode()
            lake.store.set(token, b"key/late", encode(entry(b"late", "w4")))
        assert publish(helper, sealed)

    hooks = Interrupting(publish_the_oldest)
    ours = lake.engine(hooks)
    put(ours, b"b", "w2")
    put(ours, b"a", "w3")
    before = rebuilds()
    result = commit(ours)
    expected = {b"a": "w3", b"b": "w2"} | ({b"late": "w4"} if late else {})
    assert lake.contents(result.commit) == expected
    assert rebuilds() == before + 1
    # The content may be the same; parent and commit differ.
    assert len(hooks.proposals) == 2
    assert hooks.proposals[-1].commit == result.commit


def test_a_branch_made_again_in_the_middle_is_not_ours(lake: CommitKit) -> None:
    other = lake.engine()

    def recreate() -> None:
        first = head(other)
        other.branches.delete(REPOSITORY, MAIN)
        other.branches.create(REPOSITORY, MAIN, first.id)

    ours = lake.engine(Interrupting(recreate))
    put(ours, b"a", "w1")
    with pytest.raises(BranchNotFound):
        commit(ours)
    assert shown(ours, b"a") is None


class LosesTheReplyToThePublishingSwap:
    """The first swap of a branch seals, the second publishes: lose the second's reply."""

    def __init__(self) -> None:
        self.swaps = 0

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        result = apply()
        if call.operation == "set_if" and call.key == b"branches/main":
            self.swaps += 1
            if self.swaps == 2:
                raise OutcomeUnknown("lost")
        return result


def test_a_lost_reply_to_the_publishing_swap_is_a_success(lake: CommitKit) -> None:
    network = LosesTheReplyToThePublishingSwap()
    ours = lake.engine(store=FaultyStore(lake.store, network))
    put(ours, b"a", "w1")
    result = commit(ours)
    assert network.swaps == 2
    assert not result.taken_along
    assert head(ours) == result.commit
    assert len(list(ours.commits.list(REPOSITORY))) == 2


def test_a_lost_reply_to_an_empty_commit_does_not_make_two(lake: CommitKit) -> None:
    network = LosesTheReplyToThePublishingSwap()
    ours = lake.engine(store=FaultyStore(lake.store, network))
    result = commit(ours, allow_empty=True)
    assert network.swaps == 2
    assert head(ours) == result.commit
    assert head(ours).generation == 2


# Progress


def _refuse() -> None:
    raise Refused("no")


def test_commits_refused_by_a_hook_leave_a_branch_that_works(lake: CommitKit) -> None:
    refusing = lake.engine(_AlwaysRefusing())
    names = [f"w{number}" for number in range(16)]
    for number, name in enumerate(names):
        put(refusing, b"%02d" % number, name)
        with pytest.raises(Refused):
            commit(refusing)
    ours = lake.engine()
    with pytest.raises(DirtyBranch):
        _merge(ours)
    put(ours, b"last", "w")
    commit(ours)
    assert [shown(ours, b"%02d" % number) for number in range(16)] == names
    assert lake.contents(head(ours)).keys() == {b"last", *(b"%02d" % n for n in range(16))}
    assert ours.branches.get(REPOSITORY, MAIN).sealed_tokens == ()
    _merge(ours)


class _AlwaysRefusing(Hooks):
    def before_commit(self, proposal: Proposal) -> None:
        _refuse()


@pytest.mark.parametrize("what", ["uploads of the same", "put and delete"])
def test_tokens_without_effect_do_not_accumulate(lake: CommitKit, what: str) -> None:
    ours = lake.engine()
    put(ours, b"a", "w0")
    commit(ours)
    for number in range(20):
        if what == "put and delete":
            put(ours, b"b", f"w{number}")
            staging.delete(ours, REPOSITORY.id, MAIN, b"b")
        else:
            again = entry(b"a", f"again{number}", content="w0")
            staging.put(ours, REPOSITORY.id, MAIN, again)
        with pytest.raises(NoChanges):
            commit(ours)
        assert len(ours.branches.get(REPOSITORY, MAIN).sealed_tokens) <= 1
    _merge(ours)
    assert head(ours).parents
    assert lake.contents(head(ours))[b"a"] == "w0"  # the committed address stays


def _merge(engine: Engine) -> Commit:
    """Merge something new from the other branch."""
    staging.put(engine, REPOSITORY.id, DEV, entry(b"dev", "d1"))
    with suppress(NoChanges):
        engine.committer.commit(REPOSITORY, DEV, CommitRequest(committer="", message=""))
    branch = engine.branches.get(REPOSITORY, DEV)
    source = engine.commits.get(REPOSITORY, branch.commit_id)
    request = MergeRequest(committer="", message="")
    return engine.merger.merge(REPOSITORY, MAIN, source, request)


def test_a_conditional_create_written_too_late_is_written_again(lake: CommitKit) -> None:
    other = lake.engine()
    moments: list[str] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        # The token is sealed and scanned by a commit just before the entry arrives in it.
        if call.operation == "set_if" and call.key == b"key/a" and not moments:
            moments.append("late")
            put(other, b"b", "w2")
            commit(other)
        return apply()

    ours = lake.engine(store=FaultyStore(lake.store, intercept))
    staging.put(ours, REPOSITORY.id, MAIN, entry(b"a", "w1"), condition=if_absent)
    assert moments
    assert shown(other, b"a") == "w1"


def test_a_conditional_create_that_a_commit_under_way_missed_is_written_again(
    lake: CommitKit,
) -> None:
    other = lake.engine()
    put(other, b"b", "w2")
    under_way: list[tuple[Branch, Commit]] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        # The token is sealed and scanned just before the entry arrives, and still referenced when
        # the writer reads again.
        if call.operation == "set_if" and call.key == b"key/a" and not under_way:
            sealed = other.committer._publisher.seal(
                REPOSITORY, other.branches.get(REPOSITORY, MAIN)
            )
            build = other.committer._build(REPOSITORY, sealed, sealed.sealed_tokens)
            request = CommitRequest(committer="", message="")
            proposals = CommitProposals.begin(REPOSITORY, "commit", request)
            tokens, metarange_id = sealed.sealed_tokens, build.made.metarange_id
            proposal = other.committer.propose(
                proposals, sealed, tokens, metarange_id, [build.head]
            )
            assert proposal is not None
            under_way.append((sealed, proposal.commit))
        return apply()

    ours = lake.engine(store=FaultyStore(lake.store, intercept))
    staging.put(ours, REPOSITORY.id, MAIN, entry(b"a", "w1"), condition=if_absent)
    ((sealed, made),) = under_way
    assert not other.committer._publisher.publish(REPOSITORY, sealed, made, sealed.sealed_tokens)
    assert lake.contents(made) == {b"b": "w2"}
    assert shown(other, b"a") == "w1"


def test_publishing_takes_only_the_oldest_tokens(lake: CommitKit) -> None:
    ours = lake.engine()
    branch: Branch = ours.branches.get(REPOSITORY, MAIN)
    publisher = Publisher(ours.branches, ours.commits, lake.runtime, SETTINGS)
    sealed = publisher.seal(REPOSITORY, publisher.seal(REPOSITORY, branch))
    with pytest.raises(AssertionError, match="oldest"):
        publisher.trim(REPOSITORY, sealed, sealed.sealed_tokens[:1])


@pytest.mark.parametrize("when", ["while it is stored", "while a hook runs"])
def test_a_scan_that_is_too_old_when_its_record_is_stored_is_made_again(
    lake: CommitKit, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Garbage collection scanned meanwhile, and only the old scan references its objects."""
    ahead = [0.0]
    real = lake.runtime.monotonic
    monkeypatch.setattr(lake.runtime, "monotonic", lambda: real() + ahead[0])

    def sleep() -> None:
        (sealed,) = lake.engine().branches.get(REPOSITORY, MAIN).sealed_tokens
        stray = encode(entry(b"a", "stray"))
        lake.store.set(sealed.encode(), STAGED_PREFIX + b"a", stray)
        ahead[0] = SETTINGS.scan_limit_seconds + 1

    hooks = Interrupting(sleep) if "hook" in when else Interrupting()
    ours = lake.engine(hooks)
    if not hooks.things:
        add = ours.commits.add

        def add_slowly(*arguments: Any, **options: Any) -> Commit:
            added = add(*arguments, **options)
            if not ahead[0]:
                sleep()
            return added

        monkeypatch.setattr(ours.commits, "add", add_slowly)
    put(ours, b"a", "old")
    before = rebuilds()
    made = commit(ours).commit
    if "hook" in when:  # the record was stored before: it protects the commit shown to the hook
        assert hooks.proposals[0].commit == made
        assert lake.contents(made) == {b"a": "old"}
        assert rebuilds() == before
    else:
        assert lake.contents(made) == {b"a": "stray"}
        assert rebuilds() == before + 1


# Mutants: each test fails with its rule broken


CAUGHT: list[tuple[mutants.Plant, Callable[[CommitKit], None]]] = [
    (
        mutants.infer_success_from_absence,
        test_changes_discarded_in_the_middle_are_not_reported_as_committed,
    ),
    (
        mutants.edit_a_sealed_token,
        test_a_reset_of_a_key_in_the_middle_outlives_the_commit,
    ),
    (
        mutants.take_a_lost_reply_for_failure,
        test_a_lost_reply_to_the_publishing_swap_is_a_success,
    ),
    (
        mutants.take_a_lost_reply_for_failure,
        test_a_lost_reply_to_an_empty_commit_does_not_make_two,
    ),
    (
        mutants.reset_to_a_stale_head,
        test_a_reset_of_a_key_follows_a_head_that_moves_under_the_same_token,
    ),
    (
        mutants.compare_tokens_only,
        test_a_reset_of_a_key_follows_a_head_that_moves_under_the_same_token,
    ),
    (
        mutants.compare_tokens_only,
        test_a_conditional_create_sees_a_merge_under_the_same_token,
    ),
    (
        mutants.no_second_look,
        test_a_conditional_create_sees_a_merge_under_the_same_token,
    ),
    (
        mutants.no_second_look,
        test_a_conditional_create_that_a_commit_under_way_missed_is_written_again,
    ),
    (
        mutants.acknowledge_own_entry,
        test_a_conditional_create_that_a_commit_under_way_missed_is_written_again,
    ),
    (
        mutants.publish_a_stale_build,
        partial(test_a_hook_sees_every_content_that_is_offered, late=True),
    ),
    (
        mutants.commit_what_others_sealed,
        test_commits_refused_by_a_hook_leave_a_branch_that_works,
    ),
]


@pytest.mark.parametrize(("plant", "scenario"), CAUGHT)
def test_a_broken_rule_is_found_out(
    plant: mutants.Plant, scenario: Callable[[CommitKit], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario(CommitKit())  # passes without a mutant
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        scenario(CommitKit())
