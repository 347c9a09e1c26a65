"""The engine with one rule of its protocols broken each: simulations and directed tests must bite.

Each function plants its mutant through a `pytest.MonkeyPatch`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Event
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.commit import Committer, _Build
from lakebed.engine.commits.publish import Publisher, _without
from lakebed.engine.commits.requests import LEFTOVERS, CommitProposals, CommitRequest, CommitResult
from lakebed.engine.commits.reset import Resetter
from lakebed.engine.committed.apply import Interval
from lakebed.engine.errors import NotUnique, PreconditionFailed
from lakebed.engine.keys import BRANCHES, CREATING, LIVE, STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Commit, Repository, StagingToken, TagID
from lakebed.engine.reading import Reading
from lakebed.engine.refs.branches import Branches, Tags
from lakebed.engine.refs.creation import CreationReads, _Creation
from lakebed.engine.refs.shared_reads import SharedReads
from lakebed.engine.staging import cells, skip_index
from lakebed.engine.staging.cells import (
    PROPOSAL_PREFIX,
    TOMBSTONE,
    Cells,
    decode,
    encode,
    has_proposal,
    newest,
    parse_proposed,
    path_of,
    value_in,
)
from lakebed.engine.staging.skip_index import SkipIndex, SkipIndexSearch
from lakebed.engine.staging.writer import IsRecent, UndoLog, Writer
from lakebed.formats import Entry
from lakebed.kv import (
    ABSENT,
    Item,
    OutcomeUnknown,
    Pair,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.records import Record
from lakebed.kv.store import Put
from lakebed.testing.faults import FaultyStore

Plant = Callable[[pytest.MonkeyPatch], None]
AnyCreation = _Creation[pb.Branch, pb.Tag]


# Writers


def no_second_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer acknowledges without looking at the branch again."""
    look = Writer._reread

    def reread(self: Writer, known: Reading, *args: Any, **options: Any) -> Reading:
        if options.get("applied", True):
            return known._replace(cells=None)
        return look(self, known, *args, **options)

    def delete(self: Writer, known: Reading, key: bytes) -> None:
        token = known.branch.staging_token
        self._store.set(token.encode(), STAGED_PREFIX + key, TOMBSTONE)

    monkeypatch.setattr(Writer, "_reread", reread)
    monkeypatch.setattr(Writer, "delete", delete)


# Conditional writers, and readers that meet their proposals


def _look_after_proposing(
    monkeypatch: pytest.MonkeyPatch, judge: Callable[[Branch, Branch], Branch]
) -> None:
    look = Writer._reread

    def reread(self: Writer, known: Reading, *args: Any, **options: Any) -> Reading:
        after = look(self, known, *args, **options)
        if options.get("applied", True):
            return after
        return after._replace(found=judge(known.branch, after.branch))

    monkeypatch.setattr(Writer, "_reread", reread)


def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional writer confirms whatever became of the branch since it proposed."""
    _look_after_proposing(monkeypatch, lambda before, _after: before)


def compare_tokens_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditional writers and resets compare the tokens of the branch, and not its head."""
    unchanged = Resetter._unchanged

    def same_tokens(before: Branch, after: Branch) -> bool:
        return before.tokens[:1] == after.tokens[:1]

    def compare(self: Resetter, repository: Repository, before: Branch, keys: list[bytes]) -> bool:
        after = self._branches.get(repository, before.id)
        return same_tokens(before, after) or unchanged(self, repository, before, keys)

    _look_after_proposing(
        monkeypatch, lambda before, after: before if same_tokens(before, after) else after
    )
    monkeypatch.setattr(Resetter, "_unchanged", compare)


def _settle(monkeypatch: pytest.MonkeyPatch, passes_over: Callable[[Cells], bool]) -> None:
    settle = Cells._settled

    def settled(self: Cells, token: StagingToken, item: Item | None) -> Item | None:
        return item if passes_over(self) else settle(self, token, item)

    monkeypatch.setattr(Cells, "_settled", settled)


def scans_pass_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans of sealed tokens leave proposals to their owners."""
    _settle(monkeypatch, lambda cells: cells._version is None)


class _OwnCells(Cells):
    """Those of a writer."""


def _look_into_own_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(self: Writer, known: Reading, key: bytes) -> tuple[Entry | None, Item | None]:
        branch, cells = known.branch, known.cells
        if cells is None:
            name = STAGED_PREFIX + key
            cells = self._store.get_many([(token.encode(), name) for token in branch.tokens])
        found = _OwnCells.of(self._store, branch).settled(cells)
        value = newest(found)
        if value is None:
            return self._reader.committed(known.repository, branch.commit_id, key), found[0]
        return decode(key, value), found[0]

    monkeypatch.setattr(Writer, "_effective_entry", look)


def readers_pass_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers pass over proposals that were made under other versions of the branch."""
    _settle(
        monkeypatch,
        lambda cells: cells._version is not None and not isinstance(cells, _OwnCells),
    )
    _look_into_own_cells(monkeypatch)


def writers_pass_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditional writers pass over proposals that were made under other versions."""
    _settle(monkeypatch, lambda cells: isinstance(cells, _OwnCells))
    _look_into_own_cells(monkeypatch)


def _swap(writer: Writer, branch: Branch, key: bytes, value: bytes, predicate: Predicate) -> bool:
    try:
        writer._store.set(branch.staging_token.encode(), STAGED_PREFIX + key, value, predicate)
    except StoreUnavailable:
        raise
    except (PredicateFailed, OutcomeUnknown):
        return False
    return True


def others_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional writer that meets another's proposal confirms it, if the branch is the same."""
    look = Writer._effective_entry

    def look_and_confirm(
        self: Writer, known: Reading, key: bytes
    ) -> tuple[Entry | None, Item | None]:
        entry, cell = look(self, known, key)
        if cell is None or not has_proposal(cell):
            return entry, cell
        branch = known.branch
        if self._branches.get(known.repository, branch.id).version == branch.version:
            proposed = parse_proposed(cell.key, cell.value)
            _swap(self, branch, key, proposed.proposal.SerializeToString(), cell.predicate)
        return look(self, known._replace(cells=None), key)

    monkeypatch.setattr(Writer, "_effective_entry", look_and_confirm)


def refuse_after_a_lost_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional writer without a reply to its confirmation believes that it was not applied."""

    def confirm(self: Writer, branch: Branch, proposal: Item, value: bytes) -> bool:
        return _swap(self, branch, path_of(proposal.key), value, proposal.predicate)

    monkeypatch.setattr(Writer, "_confirm", confirm)


def _write_before_looking(monkeypatch: pytest.MonkeyPatch, *, own_entry_is_success: bool) -> None:
    """The protocol without proposals: the entry is visible before the branch is read again."""

    def write_if(
        self: Writer,
        known: Reading,
        key: bytes,
        value_for: Callable[[Entry | None], bytes | None],
        _is_recent: IsRecent | None,
    ) -> None:
        repository, value = known.repository, None
        for _ in range(self._tries):
            before = self._branches.get(repository, known.branch.id)
            staged = self._reader.staged(before, key)
            there = [item for item in staged if item is not None]
            others = [item for item in there if item.value != value]
            if own_entry_is_success and len(others) < len(there):
                return
            found = decode(key, others[0].value) if others else None
            if not others:
                found = self._reader.committed(repository, before.commit_id, key)
                if found is not None and encode(found) == value:
                    found = None
            value = value_for(found)
            assert value is not None
            predicate: Predicate = ABSENT if staged[0] is None else staged[0].predicate
            written = _swap(self, before, key, value, predicate)
            if written and self._branches.get(repository, before.id).version == before.version:
                return

    monkeypatch.setattr(Writer, "_write_if", write_if)


def write_before_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional writer makes its entry visible, and then looks whether it may."""
    _write_before_looking(monkeypatch, own_entry_is_success=False)


def acknowledge_own_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and it takes its own entry, wherever it finds it, for success."""
    _write_before_looking(monkeypatch, own_entry_is_success=True)


_CLOSED = (
    PROPOSAL_PREFIX
    + pb.ProposedEntry(proposal=pb.StagedEntry(), branch_version=b"closed").SerializeToString()
)
"""A cell in which nothing can be staged any more."""


def _pass_over_closed_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    settle, look_beside = Cells._settled, Cells._value_in

    def settled(self: Cells, token: StagingToken, item: Item | None) -> Item | None:
        return item if item and item.value == _CLOSED else settle(self, token, item)

    def value_in(self: Cells, token: StagingToken, row: Pair) -> bytes | None:
        return None if row[1] == _CLOSED else look_beside(self, token, row)

    monkeypatch.setattr(Cells, "_settled", settled)
    monkeypatch.setattr(Cells, "_value_in", value_in)


class _ClosingWrite:
    """A conditional write that closes cells of sealed tokens against late writes."""

    def __init__(self, writer: Writer, known: Reading, key: bytes) -> None:
        self._writer, self._known, self._key = writer, known, key
        self._value: bytes | None = None
        self._wrote: dict[StagingToken, Version] = {}

    def attempt(self, value_for: Callable[[Entry | None], bytes | None]) -> bool:
        """Write once; return whether that was acknowledged."""
        branch = self._branch()
        for token, item in zip(branch.tokens, self._read(branch), strict=True):
            if item is None and token != branch.staging_token:
                self._swap(token, _CLOSED, ABSENT)
        cells = self._read(branch)
        committed = self._writer._reader.committed(
            self._known.repository, branch.commit_id, self._key
        )
        if committed is not None and encode(committed) == self._value:
            return True
        if self._value is None or self._value not in {item.value for item in cells if item}:
            shown = newest(cells)
            found = committed if shown is None else decode(self._key, shown)
            self._value = self._judge(branch, lambda: value_for(found))
        predicate: Predicate = ABSENT if cells[0] is None else cells[0].predicate
        version = self._swap(branch.staging_token, self._value, predicate)
        if version is None:
            return False
        self._wrote[branch.staging_token] = version
        return self._branch().version == branch.version

    def _judge(self, branch: Branch, value_for: Callable[[], bytes | None]) -> bytes:
        try:
            value = value_for()
        except PreconditionFailed:
            for token, version in self._wrote.items():
                if token not in branch.tokens or self._swap(token, _CLOSED, version) is None:
                    raise OutcomeUnknown from None
            raise
        assert value is not None
        return value

    def _branch(self) -> Branch:
        return self._writer._branches.get(self._known.repository, self._known.branch.id)

    def _read(self, branch: Branch) -> list[Item | None]:
        name = STAGED_PREFIX + self._key
        return self._writer._store.get_many([(token.encode(), name) for token in branch.tokens])

    def _swap(self, token: StagingToken, value: bytes, predicate: Predicate) -> Version | None:
        name = STAGED_PREFIX + self._key
        try:
            return self._writer._store.set(token.encode(), name, value, predicate)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return None


def close_cells_of_sealed_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, but with empty cells of sealed tokens closed, so that nothing comes late.

    A writer that is to be refused closes the cells with its own entry. If it cannot, it does not
    know the outcome.
    """

    def write_if(
        self: Writer,
        known: Reading,
        key: bytes,
        value_for: Callable[[Entry | None], bytes | None],
        _is_recent: IsRecent | None,
    ) -> None:
        write = _ClosingWrite(self, known, key)
        for _ in range(self._tries):
            if write.attempt(value_for):
                return

    _pass_over_closed_cells(monkeypatch)
    monkeypatch.setattr(Writer, "_write_if", write_if)


def _proposed(key: bytes, cell: bytes) -> pb.StagedEntry | None:
    """Return the proposal of a cell, or None if it has none."""
    found = None if cell < PROPOSAL_PREFIX else parse_proposed(key, cell)
    return found.proposal if found is not None and found.HasField("proposal") else None


def show_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a cell takes the proposal for its value."""
    look_beside = cells.value_in

    def value_in(key: bytes, cell: bytes) -> bytes | None:
        proposed = _proposed(key, cell)
        return look_beside(key, cell) if proposed is None else proposed.SerializeToString()

    monkeypatch.setattr(cells, "value_in", value_in)


def publish_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A committer takes the proposals in sealed tokens for values."""
    look_beside = Cells._value_in

    def value_in(self: Cells, token: StagingToken, row: Pair) -> bytes | None:
        proposed = _proposed(*row)
        if self._version is not None or proposed is None:
            return look_beside(self, token, row)
        return proposed.SerializeToString()

    monkeypatch.setattr(Cells, "_value_in", value_in)


def take_proposals_for_tombstones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell with a proposal alone is taken for a tombstone."""
    look_beside = cells.value_in

    def value_in(key: bytes, cell: bytes) -> bytes | None:
        value = look_beside(key, cell)
        return TOMBSTONE if value is None and _proposed(key, cell) is not None else value

    monkeypatch.setattr(cells, "value_in", value_in)


def note_over_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing notes that a key is empty though a proposal for it waits."""

    class Forgetful(list[bytes]):
        def append(self, _key: bytes) -> None:
            return

    begin = Cells.__init__

    def init(self: Cells, *args: Any) -> None:
        begin(self, *args)
        self.passed_over = Forgetful()

    monkeypatch.setattr(Cells, "__init__", init)


def recognise_cells_by_their_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain writer that takes its write back goes by the version of the whole cell."""
    monkeypatch.setattr(
        UndoLog,
        "_is_own",
        lambda self, found: found is not None and found.predicate in self._versions,
    )


class _Forgetful(FaultyStore):
    """Writes values without the versions that they were written with before."""

    def _set(self, put: Put) -> None:
        beside = value_in(put.key, put.value)
        assert beside is not None
        self._inner.set(put.partition, put.key, beside, put.predicate)


def take_away_under_a_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking a proposal away writes the value beside it as if it were a new one."""
    remove_proposal = cells.remove_proposal

    def forget(store: Store, token: StagingToken, item: Item) -> None:
        remove_proposal(_Forgetful(store, lambda _call, apply: apply()), token, item)

    monkeypatch.setattr(cells, "remove_proposal", forget)


# Reads


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
            result = self._commit_sealed(
                CommitProposals.begin(repository, "commit", LEFTOVERS), current
            )
            if result is not None:
                return result
        return commit(self, repository, branch, request)

    monkeypatch.setattr(Committer, "commit", commit_what_is_sealed)


def infer_success_from_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A committer whose tokens are gone concludes that someone has committed them."""

    def find_consumer(
        self: Publisher,
        repository: Repository,
        branch: Branch,
        _tokens: frozenset[StagingToken],
        *,
        over: Commit,
    ) -> Commit:
        del over
        return self._commits.get(repository, branch.commit_id)

    monkeypatch.setattr(Publisher, "find_consumer", find_consumer)


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
            return self.reread(repository, branch)
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
    monkeypatch.setattr(skip_index, "fill", lambda _store, _token, _keys, _note: None)


def note_without_seeking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing notes what it found empty without having said before what it looks through."""

    begin, add = SkipIndex.seek, SkipIndex.found

    def seek(_self: SkipIndex, key_range: Interval) -> SkipIndexSearch:
        return SkipIndexSearch(key_range, pb.Emptied(), Version(b""))

    def found(self: SkipIndex, search: SkipIndexSearch, end: bytes | None) -> None:
        begun = begin(self, Interval(search.key_range.start, end))
        if begun is not None:
            add(self, begun, end)

    monkeypatch.setattr(SkipIndex, "seek", seek)
    monkeypatch.setattr(SkipIndex, "found", found)


# Names


def look_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator does not look whether the other kind has the name."""
    monkeypatch.setattr(_Creation, "_settle_other", lambda _self, _found: None)


def look_before_announcing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator looks whether the other kind has the name, and then writes a LIVE record."""

    def run(
        self: AnyCreation, message: pb.Branch, look: CreationReads | None, **_options: object
    ) -> Version:
        keys = () if look is None else look.keys
        item, *others = self._store.get_many([self._other.place(self._name), *keys])
        if look is not None:
            message.commit_id = look.judge(others)
        found = None if item is None else self._other.decode(item)
        if found is not None and found.message.state == LIVE:
            raise NotUnique(self._id)
        message.state = LIVE
        try:
            return self._own.set_if(self._name, message, ABSENT)
        except PredicateFailed:
            raise NotUnique(self._id) from None

    monkeypatch.setattr(_Creation, "run", run)


def leave_the_other_creating(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator takes no notice of one of the other kind that is at work."""
    settle = _Creation._settle_other

    def settle_finished(self: AnyCreation, found: Record[pb.Tag]) -> None:
        if found.message.state == LIVE:
            settle(self, found)

    monkeypatch.setattr(_Creation, "_settle_other", settle_finished)


def end_the_other_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator deletes the CREATING record of the other kind, whatever became of it."""
    settle = _Creation._settle_other

    def settle_blindly(self: AnyCreation, found: Record[pb.Tag]) -> None:
        if found.message.state == CREATING:
            self._other.delete(self._name)
        else:
            settle(self, found)

    monkeypatch.setattr(_Creation, "_settle_other", settle_blindly)


def finish_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creator finishes its record though others have ended it."""
    write = _Creation._write

    def write_blindly(self: AnyCreation, message: pb.Branch, *args: Any) -> Any:
        if message.state == LIVE:
            return self._own.set(self._name, message), []
        return write(self, message, *args)

    monkeypatch.setattr(_Creation, "_write", write_blindly)


def write_live_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is LIVE before its creator looks; the look takes it back."""
    write = _Creation._write

    def write_live(self: AnyCreation, message: pb.Branch, *args: Any) -> Any:
        message.state = LIVE
        return write(self, message, *args)

    monkeypatch.setattr(_Creation, "_write", write_live)


def find_tags_being_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag is found while it is being created."""

    def find(self: Tags, repository: Repository, tag: TagID) -> Record[pb.Tag] | None:
        return self._records(repository).find(tag.encode())

    monkeypatch.setattr(Tags, "_find", find)
