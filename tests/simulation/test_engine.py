"""The engine under simulation, and proof that the checker bites: rules broken one at a time."""

import os
from collections.abc import Callable

import pytest

from lakebed.errors import LakebedError
from lakebed.formats import Entry
from lakebed.graveler.commit import HELP, CommitRequest, CommitResult, Committer, _Build
from lakebed.graveler.keys import BRANCHES, STAGED_PREFIX
from lakebed.graveler.model import Branch, BranchID, Commit, Repository, StagingToken
from lakebed.graveler.publish import Publisher
from lakebed.graveler.refs.branches import Branches
from lakebed.graveler.refs.shared_reads import SharedReads
from lakebed.graveler.staging.values import encode
from lakebed.graveler.staging.writer import Condition, Writer
from lakebed.testing.explore import first_failure
from tests.simulation.engine import SCENARIOS

SEEDS = 3_000 if os.environ.get("LAKEBED_TEST_LONG") else 250


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_seed_passes(name: str) -> None:
    assert first_failure(f"tests.simulation.engine:{name}", range(SEEDS)) is None


def fails(scenario: str, *, seeds: int = 400) -> bool:
    return first_failure(f"tests.simulation.engine:{scenario}", range(seeds)) is not None


def test_a_writer_that_does_not_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(
        self: Writer, repository: Repository, branch: BranchID, key: bytes, value: bytes
    ) -> None:
        token = self._branches.get_cached(repository, branch).staging_token
        self._store.set(token.encode(), STAGED_PREFIX + key, value)

    monkeypatch.setattr(Writer, "_write", write)
    assert fails("writes")


def put_if_until(
    is_done: Callable[[Branch, Branch], bool],
) -> Callable[[Writer, Repository, BranchID, Entry, Condition], None]:
    def put_if(
        self: Writer, repository: Repository, branch: BranchID, entry: Entry, condition: Condition
    ) -> None:
        for _ in range(self._tries):
            before = self._branches.get(repository, branch)
            seen = self._look(repository, before, entry)
            if not condition(seen.entry):
                raise LakebedError
            if self._swap(before, entry.key, encode(entry), seen.predicate) and is_done(
                before, self._branches.get(repository, branch)
            ):
                return

    return put_if


def test_a_conditional_writer_that_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "put_if", put_if_until(lambda _before, _after: True))
    assert fails("conditional")


def test_a_conditional_writer_that_acknowledges_its_own_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def put_if(
        self: Writer, repository: Repository, branch: BranchID, entry: Entry, condition: Condition
    ) -> None:
        for _ in range(self._tries):
            before = self._branches.get(repository, branch)
            try:
                if self._reader.get(repository, branch, entry.key).address == entry.address:
                    return
            except LakebedError:
                pass
            seen = self._look(repository, before, entry)
            if not condition(seen.entry):
                raise LakebedError
            if self._swap(before, entry.key, encode(entry), seen.predicate):
                after = self._branches.get(repository, branch)
                if after.version == before.version:
                    return

    monkeypatch.setattr(Writer, "put_if", put_if)
    assert fails("creates_only") or fails("conditional")


def test_readers_that_join_a_read_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(self: SharedReads[object, object], key: object) -> object:
        under_way: dict[object, list[object]] = self.__dict__.setdefault("mutant", {})
        if key in under_way:
            shared = under_way[key]
            while len(shared) == 0:
                self._runtime.sleep(0.001)
            return shared[0]
        shared = under_way[key] = []
        try:
            shared.append(self._read(key))
        except LakebedError as error:
            shared.append(error)
        finally:
            del under_way[key]
        if isinstance(shared[0], LakebedError):
            raise shared[0]
        return shared[0]

    monkeypatch.setattr(SharedReads, "get", get)
    assert fails("shared_reads")


def test_a_branch_deleted_unconditionally(monkeypatch: pytest.MonkeyPatch) -> None:
    def delete(self: Branches, repository: Repository, branch: BranchID) -> None:
        current = self.get(repository, branch)
        self.announce_drop(repository, branch, current.tokens)
        self._store.delete(repository.partition, BRANCHES.prefix + branch.encode())

    monkeypatch.setattr(Branches, "delete", delete)
    assert fails("recreated")


def test_tokens_dropped_before_the_commit_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Publisher.publish

    def drop_then_publish(
        self: Publisher,
        repository: Repository,
        branch: Branch,
        commit: Commit,
        tokens: tuple[StagingToken, ...],
    ) -> Branch | None:
        for token in tokens:
            self._branches._store.drop_partition(token.encode())
        return publish(self, repository, branch, commit, tokens)

    monkeypatch.setattr(Publisher, "publish", drop_then_publish)
    assert fails("writes")


def test_a_stale_build_published_over_a_moved_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Build, "fits", lambda _self, _branch, _tokens: True)
    assert fails("writes")


def test_a_commit_of_only_what_others_had_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Committer.commit

    def commit_what_is_sealed(
        self: Committer, repository: Repository, branch: BranchID, request: CommitRequest
    ) -> CommitResult:
        current = self._branches.get(repository, branch)
        if len(current.sealed_tokens) >= self._settings.sealed_tokens_max:
            result = self._publish(repository, current, HELP)
            if result is not None:
                return result
        return commit(self, repository, branch, request)

    monkeypatch.setattr(Committer, "commit", commit_what_is_sealed)
    assert fails("writes")
