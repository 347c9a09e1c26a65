"""The engine with one rule of its protocols broken each: simulations and directed tests must bite.

Each function plants its mutant through a `pytest.MonkeyPatch`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.commit import HELP, CommitRequest, CommitResult, Committer, _Build
from lakebed.engine.commits.publish import Publisher, _without
from lakebed.engine.commits.reset import Resetter
from lakebed.engine.errors import NotUnique
from lakebed.engine.keys import BRANCHES, STAGED_PREFIX, TAGS
from lakebed.engine.model import Branch, BranchID, Commit, Repository, StagingToken, TagID
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.creation import Look, _Creation
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.engine.refs.tags import Tags
from lakebed.engine.staging import empty_runs
from lakebed.engine.staging.codec import encode
from lakebed.engine.staging.empty_runs import EmptyRunNotes, Search, Stretch
from lakebed.engine.staging.writer import Condition, IsFresh, Target, Writer
from lakebed.errors import LakebedError
from lakebed.formats import Entry
from lakebed.kv import ABSENT, Guard, Item, OutcomeUnknown, PredicateFailed, Version
from lakebed.kv.records import Record
from lakebed.runtime import Event
from lakebed.testing.faults import FaultyStore

Plant = Callable[[pytest.MonkeyPatch], None]
AnyCreation = _Creation[pb.Branch, pb.Tag]


# Writers


def no_second_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer acknowledges without looking at the branch again."""

    def write(
        self: Writer,
        repository: Repository,
        branch: BranchID,
        key: bytes,
        value: bytes,
        _known: Target | None,
    ) -> None:
        token = self._branches.get_cached(repository, branch).staging_token
        self._store.set(token.encode(), STAGED_PREFIX + key, value)

    monkeypatch.setattr(Writer, "_write", write)


def _put_if_until(
    is_done: Callable[[Branch, Branch], bool],
) -> Callable[..., None]:
    def put_if(
        self: Writer,
        repository: Repository,
        branch: BranchID,
        entry: Entry,
        condition: Condition,
        is_fresh: IsFresh | None = None,
        *,
        known: Target | None = None,
    ) -> None:
        for _ in range(self._tries):
            before = self._branches.get(repository, branch)
            seen = self._look(repository, before, entry.key, own=entry)
            if not condition(seen.entry):
                raise LakebedError
            if self._swap(before, entry.key, encode(entry), seen.predicate) and is_done(
                before, self._branches.get(repository, branch)
            ):
                return

    return put_if


def compare_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional writer takes no notice of what became of the branch."""
    monkeypatch.setattr(Writer, "put_if", _put_if_until(lambda _before, _after: True))


def compare_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditional writers and resets compare the tokens of the branch, and not its head."""
    unchanged = Resetter._unchanged

    def same_tokens(before: Branch, after: Branch) -> bool:
        return before.tokens[:1] == after.tokens[:1]

    def compare(self: Resetter, repository: Repository, before: Branch, keys: list[bytes]) -> bool:
        after = self._branches.get(repository, before.id)
        return same_tokens(before, after) or unchanged(self, repository, before, keys)

    monkeypatch.setattr(Writer, "put_if", _put_if_until(same_tokens))
    monkeypatch.setattr(Resetter, "_unchanged", compare)


def acknowledge_own_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional writer that finds its own entry takes that for success."""

    def put_if(
        self: Writer,
        repository: Repository,
        branch: BranchID,
        entry: Entry,
        condition: Condition,
        is_fresh: IsFresh | None = None,
        *,
        known: Target | None = None,
    ) -> None:
        for _ in range(self._tries):
            before = self._branches.get(repository, branch)
            # Somewhere in the tokens, too late perhaps for the committer that scanned them.
            staged = self._reader.staged(before, entry.key)
            if any(record is not None and record.value == encode(entry) for record in staged):
                return
            seen = self._look(repository, before, entry.key, own=entry)
            if not condition(seen.entry):
                raise LakebedError
            if self._swap(before, entry.key, encode(entry), seen.predicate):
                after = self._branches.get(repository, branch)
                if after.version == before.version:
                    return

    monkeypatch.setattr(Writer, "put_if", put_if)


def join_a_read_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers share a read that began before they asked."""

    def get(self: SharedReads[object, object], key: object) -> object:
        under_way: dict[object, tuple[Event, list[object]]] = self.__dict__.setdefault("mutant", {})
        if key in under_way:
            done, answer = under_way[key]
            done.wait()
        else:
            done, answer = under_way[key] = (self._runtime.event(), [])
            try:
                answer.append(self._read(key))
            except LakebedError as error:
                answer.append(error)
            finally:
                del under_way[key]
                done.set()
        if isinstance(answer[0], LakebedError):
            raise answer[0]
        return answer[0]

    monkeypatch.setattr(SharedReads, "get", get)


# Branches


def delete_branch_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch is deleted whatever became of it since it was read."""

    def delete(self: Branches, repository: Repository, branch: BranchID, **_known: object) -> None:
        current = self.get(repository, branch)
        self.announce_drop(repository, branch, current.tokens)
        self._store.delete(repository.partition, BRANCHES.prefix + branch.encode())

    monkeypatch.setattr(Branches, "delete", delete)


# Committers


def drop_before_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of tokens are deleted before the commit that holds them is the head."""
    publish = Publisher.publish

    def drop_then_publish(
        self: Publisher,
        repository: Repository,
        branch: Branch,
        commit: Commit,
        tokens: tuple[StagingToken, ...],
    ) -> Branch | None:
        for token in tokens:
            store = self._branches._store
            for item in store.scan(token.encode()):
                store.delete(token.encode(), item.key)
        return publish(self, repository, branch, commit, tokens)

    monkeypatch.setattr(Publisher, "publish", drop_then_publish)


def publish_a_stale_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built over an old head is published over a new one."""
    monkeypatch.setattr(_Build, "fits", lambda _self, _branch, _tokens: True)


def commit_what_others_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the list of sealed tokens full, a committer publishes those and leaves out its own."""
    commit = Committer.commit

    def commit_what_is_sealed(
        self: Committer,
        repository: Repository,
        branch: BranchID,
        request: CommitRequest,
        *,
        known: Branch | None = None,
    ) -> CommitResult:
        current = known or self._branches.get(repository, branch)
        if len(current.sealed_tokens) >= self._settings.sealed_tokens_max:
            offers = self._desk.begin(repository, HELP.wish("commit"))
            result = self._publish(repository, current, HELP, offers)
            if result is not None:
                return result
        return commit(self, repository, branch, request)

    monkeypatch.setattr(Committer, "commit", commit_what_is_sealed)


def infer_success_from_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A committer whose tokens are gone concludes that someone has committed them."""

    def find_taker(
        self: Committer, repository: Repository, branch: Branch, _first: _Build | None
    ) -> CommitResult:
        head = self._commits.get(repository, branch.commit_id)
        return CommitResult(head, taken_along=True)

    monkeypatch.setattr(Committer, "_find_taker", find_taker)


def take_a_lost_reply_for_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A committer without a reply to the publishing swap believes that it was not applied."""

    def publish(
        self: Publisher,
        repository: Repository,
        branch: Branch,
        commit: Commit,
        tokens: tuple[StagingToken, ...],
    ) -> Branch | None:
        rest = _without(branch, tokens)
        try:
            self._branches.change(repository, branch, commit_id=commit.id, sealed_tokens=rest)
        except (PredicateFailed, OutcomeUnknown):
            return self.look_again(repository, branch)
        return None

    monkeypatch.setattr(Publisher, "publish", publish)


# Resets


def edit_a_sealed_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset of a key deletes it where it is staged, be it in a sealed token."""

    def reset_key(self: Resetter, repository: Repository, branch: BranchID, key: bytes) -> None:
        for token in self._branches.get(repository, branch).tokens:
            self._store.delete(token.encode(), STAGED_PREFIX + key)

    monkeypatch.setattr(Resetter, "reset_key", reset_key)


def reset_to_a_stale_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset of keys takes no notice of a head that moved meanwhile."""
    monkeypatch.setattr(Resetter, "_unchanged", lambda _self, _repository, _before, _keys: True)


# Notes of listings


def leave_notes_when_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer takes no notice of what listings noted about its key."""
    monkeypatch.setattr(empty_runs, "fill", lambda _store, _token, _keys, _note: None)


def note_without_seeking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing notes what it found empty without having said before what it looks through."""

    begin, add = EmptyRunNotes.seek, EmptyRunNotes.found

    def seek(_self: EmptyRunNotes, stretch: Stretch) -> Search:
        return Search(stretch, pb.Emptied(), Version(b""))

    def found(self: EmptyRunNotes, search: Search, end: bytes | None) -> None:
        begun = begin(self, Stretch(search.stretch.start, end))
        if begun is not None:
            add(self, begun, end)

    monkeypatch.setattr(EmptyRunNotes, "seek", seek)
    monkeypatch.setattr(EmptyRunNotes, "found", found)


# Names


def guard_no_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch that is made at once does not prove that there is no tag of its name."""
    write = FaultyStore.set_if_then_get

    def set_if_then_get(
        self: FaultyStore, *args: Any, guards: Sequence[Guard] = (), **kwargs: Any
    ) -> list[Item | None]:
        kept = [guard for guard in guards if not guard.key.startswith(TAGS.prefix)]
        return write(self, *args, guards=kept, **kwargs)

    monkeypatch.setattr(FaultyStore, "set_if_then_get", set_if_then_get)


def look_before_announcing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator looks whether the other kind has the name, and then writes at once."""

    def run(self: AnyCreation, message: pb.Branch, look: Look | None = None) -> Version:
        keys = [] if look is None else look.keys
        item, *others = self._store.get_many([self._other.place(self._name), *keys])
        if look is not None:
            message.commit_id = look.judge(others)
        found = None if item is None else self._other.decode(item)
        if found is not None and not found.message.pending:
            raise NotUnique(self._id)
        try:
            return self._own.set_if(self._name, message, ABSENT)
        except PredicateFailed:
            raise NotUnique(self._id) from None

    monkeypatch.setattr(_Creation, "run", run)


def leave_the_other_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator takes no notice of one of the other kind that is at work."""
    settle = _Creation._settle_other

    def settle_finished(self: AnyCreation, found: Record[pb.Tag] | None, pending: Version) -> None:
        if found is not None and not found.message.pending:
            settle(self, found, pending)

    monkeypatch.setattr(_Creation, "_settle_other", settle_finished)


def end_the_other_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator deletes the pending record of the other kind, whatever became of it."""
    settle = _Creation._settle_other

    def settle_blindly(self: AnyCreation, found: Record[pb.Tag] | None, pending: Version) -> None:
        if found is not None and found.message.pending:
            self._other.delete(self._name)
        else:
            settle(self, found, pending)

    monkeypatch.setattr(_Creation, "_settle_other", settle_blindly)


def finish_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator finishes its record though others have ended it."""

    def finish(self: AnyCreation, message: pb.Branch, _pending: Version) -> Version:
        return self._own.set(self._name, message)

    monkeypatch.setattr(_Creation, "_finish", finish)


def find_pending_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag is found while it is being created."""

    def find(self: Tags, repository: Repository, tag: TagID) -> Record[pb.Tag] | None:
        return self._records(repository).find(tag.encode())

    monkeypatch.setattr(Tags, "_find", find)
