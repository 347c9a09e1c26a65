"""Commits as proposed to hooks and as published; mutants break one rule each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.commit import Committer
from lakebed.engine.commits.requests import CommitProposals, CommitRequest, MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import NoChanges, Refused
from lakebed.engine.expiry_marks import EXPIRED, ExpiryMarks
from lakebed.engine.hooks import Hooks, Preparation, Proposal
from lakebed.engine.keys import DROPPED_PARTITION
from lakebed.engine.model import Branch, Commit, CommitID, Repository, StagingToken
from lakebed.testing.faults import FaultyStore, ResultT, StoreCall
from tests.engine.commit_kit import CommitKit, commit, head, put
from tests.engine.histories import REPOSITORY
from tests.kit import staging
from tests.simulation.engine_mutants import Plant
from tests.simulation.world import DEV, MAIN, entry

MERGE = MergeRequest(committer="ann", message="m")


class Expired(Exception):
    """A source is marked."""


class Listening(Hooks):
    """Records calls in order, and runs actions at the first of each kind."""

    def __init__(self, engine: Callable[[], Engine], *things: Callable[[], object]) -> None:
        self.heard: list[tuple[str, Proposal]] = []
        self._engine = engine
        self._things = list(things)

    def proposals(self, name: str) -> list[Proposal]:
        return [proposal for kind, proposal in self.heard if kind == name]

    def before_commit(self, proposal: Proposal) -> None:
        self._engine().commits.get(REPOSITORY, proposal.commit.id)  # another process can read it
        assert proposal.head.id == proposal.commit.parents[0]  # which the swap replaces
        self.heard.append(("before", proposal))
        if self._things:
            self._things.pop(0)()

    def before_publish(self, proposal: Proposal) -> None:
        self.heard.append(("publish", proposal))

    def after_commit(self, proposal: Proposal) -> None:
        assert head(self._engine()).id == proposal.commit.id
        self.heard.append(("after", proposal))


def new_lake() -> CommitKit:
    """Return a lake with something new on the other branch."""
    lake = CommitKit()
    engine = lake.engine()
    staging.put(engine, REPOSITORY.id, DEV, entry(b"dev", "d1"))
    engine.committer.commit(REPOSITORY, DEV, CommitRequest(committer="", message=""))
    return lake


@pytest.fixture
def lake() -> CommitKit:
    return new_lake()


def merge(lake: CommitKit, hooks: Hooks) -> Commit:
    engine = lake.engine(hooks)
    source = engine.commits.get(REPOSITORY, engine.branches.get(REPOSITORY, DEV).commit_id)
    return engine.merger.merge(REPOSITORY, MAIN, source, MERGE, source_ref="dev")


def commit_of_one(lake: CommitKit, hooks: Hooks) -> Commit:
    ours = lake.engine(hooks)
    put(ours, b"a", "w1")
    return commit(ours).commit


DOINGS = [commit_of_one, merge]


@pytest.mark.parametrize("do", DOINGS)
def test_the_commit_approved_by_hooks_is_published(
    lake: CommitKit, do: Callable[[CommitKit, Hooks], Commit]
) -> None:
    """The branch record changes during the hook, but not the commit to publish."""

    def seal() -> None:
        other = lake.engine()
        other.publisher.seal(REPOSITORY, other.branches.get(REPOSITORY, MAIN))

    hooks = Listening(lake.engine, seal)
    made = do(lake, hooks)
    assert [kind for kind, _ in hooks.heard] == ["before", "publish", "publish", "after"]
    assert (
        {proposal.commit.id for _, proposal in hooks.heard} == {made.id} == {head(lake.engine()).id}
    )
    assert made.branch == MAIN
    assert made.stored_us > 0


def test_a_token_that_only_the_repeated_offer_drops_is_announced(lake: CommitKit) -> None:
    """Else its keys would stay in the store for ever."""
    before = lake.engine().branches.get(REPOSITORY, MAIN)

    def seal() -> None:
        other = lake.engine()
        other.publisher.seal(REPOSITORY, other.branches.get(REPOSITORY, MAIN))

    hooks = Listening(lake.engine, seal)
    merge(lake, hooks)
    assert len(hooks.proposals("before")) == 1
    assert len(hooks.proposals("publish")) == 2
    dropped = set(before.tokens) - set(lake.engine().branches.get(REPOSITORY, MAIN).tokens)
    announced = {item.key.decode() for item in lake.store.scan(DROPPED_PARTITION)}
    assert dropped == set(before.tokens) <= announced


@pytest.mark.parametrize("do", DOINGS)
def test_another_content_is_offered_again(
    lake: CommitKit, do: Callable[[CommitKit, Hooks], Commit]
) -> None:
    other = lake.engine()

    def move_the_head() -> None:
        # Staged changes stay: the branch is moved, as by a merge.
        now = other.branches.get(REPOSITORY, MAIN)
        before = other.commits.get(REPOSITORY, now.commit_id)
        moved = other.commits.add(
            REPOSITORY,
            committer="",
            message="",
            metarange_id=lake.committed.save({b"merged": entry(b"merged", "m")}),
            parents=[before],
            metadata={},
        )
        other.branches.change(REPOSITORY, now, commit_id=moved.id)

    hooks = Listening(lake.engine, move_the_head)
    made = do(lake, hooks)
    first, second = hooks.proposals("before")
    assert (first.number, second.number) == (1, 2)
    assert first.commit.metarange_id != second.commit.metarange_id
    assert second.commit.id == made.id == hooks.proposals("after")[0].commit.id
    assert b"merged" in lake.contents(made)


@pytest.mark.parametrize("do", DOINGS)
def test_the_sources_of_a_commit_are_checked_before_its_id_is_returned(
    lake: CommitKit,
    do: Callable[[CommitKit, Hooks], Commit],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check comes when the record is stored, and before any hook."""
    hooks = Listening(lake.engine)
    before = {each.id for each in lake.engine().commits.list(REPOSITORY)}

    def refuse(_marks: ExpiryMarks, repository: Repository, ids: Sequence[CommitID]) -> None:
        (made,) = [e for e in lake.engine().commits.list(repository) if e.id not in before]
        assert set(made.parents) <= set(ids)
        raise Expired

    monkeypatch.setattr(ExpiryMarks, "find_all", refuse)
    with pytest.raises(Expired):
        do(lake, hooks)
    assert not hooks.heard


def mark_expired(engine: Engine, commit_id: CommitID) -> None:
    message = pb.Expiry(state=EXPIRED, expired_us=1)
    engine.marks.records(REPOSITORY).set(commit_id.encode(), message)


@pytest.mark.parametrize("do", DOINGS)
def test_a_record_that_has_expired_meanwhile_is_not_tried_again(
    lake: CommitKit, do: Callable[[CommitKit, Hooks], Commit]
) -> None:
    other = lake.engine()

    def seal_and_expire() -> None:
        other.publisher.seal(REPOSITORY, other.branches.get(REPOSITORY, MAIN))
        mark_expired(other, hooks.proposals("before")[0].commit.id)

    hooks = Listening(lake.engine, seal_and_expire)
    made = do(lake, hooks)
    first, second = hooks.proposals("before")
    assert first.commit.id != second.commit.id == made.id == head(lake.engine()).id


@pytest.mark.parametrize("do", DOINGS)
def test_no_commit_is_published_over_an_expired_head(
    lake: CommitKit,
    do: Callable[[CommitKit, Hooks], Commit],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The branch has moved on since, so the commit could not be published."""
    other, hooks = lake.engine(), Listening(lake.engine)
    before = head(other)
    check = Committer._check_sources

    def move_and_check(self: Committer, repository: Repository, made: Commit) -> bool:
        monkeypatch.setattr(Committer, "_check_sources", check)
        now = other.branches.get(REPOSITORY, MAIN)
        moved = other.commits.add(
            REPOSITORY,
            committer="",
            message="",
            metarange_id=before.metarange_id,
            parents=[before],
            metadata={},
        )
        other.branches.change(REPOSITORY, now, commit_id=moved.id)
        mark_expired(other, before.id)
        return check(self, repository, made)

    monkeypatch.setattr(Committer, "_check_sources", move_and_check)
    made = do(lake, hooks)
    assert [proposal.commit.id for proposal in hooks.proposals("before")] == [made.id]
    assert made.parents[0] != before.id


def test_a_merge_is_judged_by_its_source_and_names_it(lake: CommitKit) -> None:
    hooks = Listening(lake.engine)
    made = merge(lake, hooks)
    (proposal,) = hooks.proposals("before")
    assert proposal.merge_source == "dev"
    assert proposal.judge.id == made.parents[1]
    assert made.sources == (proposal.judge.id,)


def test_a_refused_commit_stays_readable_and_changes_nothing(lake: CommitKit) -> None:
    def refuse() -> None:
        raise Refused("no")

    hooks = Listening(lake.engine, refuse)
    before = head(lake.engine())
    with pytest.raises(Refused):
        commit_of_one(lake, hooks)
    ((_, proposal),) = hooks.heard
    assert lake.contents(lake.engine().commits.get(REPOSITORY, proposal.commit.id)) == {b"a": "w1"}
    assert head(lake.engine()) == before


# Hooks that write to the branch before sealing


class Preparing(Hooks):
    def __init__(self, lake: CommitKit, name: str) -> None:
        self.asked: list[Preparation] = []
        self._lake = lake
        self._name = name

    def prepare_commit(self, preparation: Preparation) -> bool:
        self.asked.append(preparation)
        if self._name:
            put(self._lake.engine(), b"manifest", self._name)
        return bool(self._name)


def test_writes_by_a_prepare_commit_hook_are_in_the_commit(lake: CommitKit) -> None:
    hooks = Preparing(lake, "p1")
    made = commit_of_one(lake, hooks)
    assert lake.contents(made) == {b"a": "w1", b"manifest": "p1"}
    (asked,) = hooks.asked
    assert lake.committed.contents(asked.metarange_id).keys() == {b"a"}


def test_a_hook_may_prepare_a_commit_of_what_nobody_staged(lake: CommitKit) -> None:
    ours = lake.engine(Preparing(lake, "p1"))
    assert lake.contents(commit(ours).commit) == {b"manifest": "p1"}
    with pytest.raises(NoChanges):
        commit(lake.engine(Preparing(lake, "")))


def test_a_commit_that_nobody_prepares_is_built_once(lake: CommitKit) -> None:
    scans: list[str] = []

    def count(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        scans.append(call.operation)
        return apply()

    counted = lake.engine(Preparing(lake, ""), store=FaultyStore(lake.store, count))
    put(counted, b"a", "w1")
    scans.clear()
    commit(counted)
    with_hooks = list(scans)
    plain = lake.engine(store=FaultyStore(lake.store, count))
    put(plain, b"a", "w2")
    scans.clear()
    commit(plain)
    assert sorted(with_hooks) == sorted(scans)  # two of the writes are made side by side


# Mutants


def publish_another_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook approves one commit, and another with the same content is published."""
    propose = Committer.propose

    def propose_again(
        self: Committer,
        proposals: CommitProposals,
        branch: Branch,
        tokens: Sequence[StagingToken],
        *content: Any,
        **options: Any,
    ) -> Proposal | None:
        was_proposed = bool(proposals.made)
        proposal = propose(self, proposals, branch, tokens, *content, **options)
        if proposal is None or not was_proposed:
            return proposal
        made, repository = proposal.commit, proposals.repository
        another = self._commits.add(
            repository,
            committer=made.committer,
            message=made.message,
            metarange_id=made.metarange_id,
            parents=self._commits.get_all(repository, made.parents),
            metadata=made.metadata,
            created_us=proposals.request.created_us,
            consumed_tokens=tokens,
            branch=made.branch,
            sources=made.sources,
        )
        return replace(proposal, commit=another)

    monkeypatch.setattr(Committer, "propose", propose_again)


def skip_hooks_on_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks are asked for the first content of a request, and for no other."""
    propose = Committer.propose

    def propose_quietly(
        self: Committer, proposals: CommitProposals, *content: Any, **options: Any
    ) -> Proposal | None:
        hooks = self._hooks
        if proposals.made:
            self._hooks = Hooks()
        try:
            return propose(self, proposals, *content, **options)
        finally:
            self._hooks = hooks

    monkeypatch.setattr(Committer, "propose", propose_quietly)


def tell_the_id_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks are told of a commit before its sources were checked."""
    check = Committer._check_sources

    def tell_and_check(self: Committer, repository: Repository, made: Commit) -> bool:
        told = Proposal(
            operation="commit",
            repository=repository,
            branch=made.branch,
            branch_unique_id=self._branches.get(repository, made.branch).unique_id,
            commit=made,
            head=self._commits.get(repository, made.parents[0]),
            judge=made,
        )
        self._hooks.before_commit(told)
        return check(self, repository, made)

    monkeypatch.setattr(Committer, "_check_sources", tell_and_check)


@pytest.mark.parametrize("do", DOINGS)
@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (publish_another_record, test_the_commit_approved_by_hooks_is_published),
        (skip_hooks_on_a_rebuild, test_another_content_is_offered_again),
    ],
)
def test_a_broken_rule_is_found_out(
    do: Callable[[CommitKit, Hooks], Commit],
    plant: Plant,
    test: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    test(new_lake(), do)
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        test(new_lake(), do)


@pytest.mark.parametrize("do", DOINGS)
def test_an_id_told_early_is_found_out(
    do: Callable[[CommitKit, Hooks], Commit], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_the_id_early(monkeypatch)
    with pytest.raises(AssertionError):
        test_the_sources_of_a_commit_are_checked_before_its_id_is_returned(
            new_lake(), do, monkeypatch
        )
