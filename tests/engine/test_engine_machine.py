"""The whole engine, one operation after another, against plain dicts."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import CommonPrefix, DiffEntry, EntryQuery
from lakebed.engine.errors import (
    DefaultBranch,
    DirtyBranch,
    EntryNotFound,
    MergeConflict,
    NoChanges,
    NotFound,
    NotUnique,
    PreconditionFailed,
    RepositoryNotFound,
)
from lakebed.engine.model import BranchID, CommitID, RepositoryID
from lakebed.engine.staging.writer import if_absent
from lakebed.formats import Entry
from lakebed.kv import open_store
from lakebed.lake.commits import HeadChanges
from lakebed.lake.diff import Difference, Differences
from lakebed.reclaim.cleaner import Cleaner
from tests.kit import staging
from tests.kit.engines import cherry_pick, dump, new_engine, restore
from tests.simulation.world import entry

REPOSITORY = RepositoryID("lake")
NAMESPACE = Namespace.parse("mem://bucket/lake")
MAIN = BranchID("main")
KEYS = [b"a", b"b", b"d/x", b"d/y", b"e/z"]
REQUEST = CommitRequest(committer="ann", message="m")

# Contents of a branch or commit: the identity of each object by its key.
Contents = dict[bytes, bytes]


class EngineMachine(RuleBasedStateMachine):
    """Drives the engine and the model side by side."""

    branches: Bundle[BranchID] = Bundle("branches")
    commits: Bundle[CommitID] = Bundle("commits")

    url = "memory://"
    """For a shared database, with a namespace ``{unique}``."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.store = open_store(self.url.format(folder=self.folder.name, unique=uuid4().hex))
        self.lake = new_engine(self.store)
        self.cleaner = Cleaner(self.store, ThreadRuntime(), grace_seconds=0)
        self.heads: dict[BranchID, CommitID] = {}
        self.shown: dict[BranchID, Contents] = {}
        self.held: dict[CommitID, Contents] = {}
        self.parents: dict[CommitID, tuple[CommitID, ...]] = {}
        self.written = 0

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @initialize(target=branches)
    def create(self) -> BranchID:
        """Begin with an empty repository."""
        self.begin()
        return MAIN

    def begin(self) -> None:
        self.lake.repositories.create(REPOSITORY, NAMESPACE, committer="ann")
        first = self.head(MAIN)
        self.heads, self.shown = {MAIN: first}, {MAIN: {}}
        self.held, self.parents = {first: {}}, {first: ()}

    def there(self, branch: BranchID) -> BranchID:
        """The drawn branch, or an existing one if it was deleted."""
        return branch if branch in self.heads else MAIN

    def known(self, commit: CommitID) -> CommitID:
        """The drawn commit, or an existing one if its repository was deleted."""
        return commit if commit in self.held else self.heads[MAIN]

    def head(self, branch: BranchID) -> CommitID:
        repository = self.lake.repositories.get(REPOSITORY)
        return self.lake.branches.get(repository, branch).commit_id

    def note_branch(self, branch: BranchID, commit_id: CommitID) -> None:
        self.heads[branch] = commit_id
        self.shown[branch] = dict(self.held.get(commit_id, {}))

    def note_commit(self, branch: BranchID, commit_id: CommitID, contents: Contents) -> CommitID:
        repository = self.lake.repositories.get(REPOSITORY)
        commit = self.lake.commits.get(repository, commit_id)
        self.held[commit_id] = contents
        self.parents[commit_id] = commit.parents
        self.heads[branch] = commit_id
        self.shown[branch] = dict(contents)
        return commit_id

    def is_clean(self, branch: BranchID) -> bool:
        return self.shown[branch] == self.held[self.heads[branch]]

    # Writes

    @rule(branch=branches, key=st.sampled_from(KEYS), content=st.sampled_from("xyz"))
    def put(self, branch: BranchID, key: bytes, content: str) -> None:
        """Stage an object; equal contents have equal identities."""
        branch = self.there(branch)
        self.written += 1
        staging.put(self.lake, REPOSITORY, branch, entry(key, f"w{self.written}", content))
        self.shown[branch][key] = content.encode()

    @rule(branch=branches, key=st.sampled_from(KEYS))
    def put_if_absent(self, branch: BranchID, key: bytes) -> None:
        branch = self.there(branch)
        self.written += 1
        new = entry(key, f"w{self.written}")
        if key in self.shown[branch]:
            with pytest.raises(PreconditionFailed):
                staging.put(self.lake, REPOSITORY, branch, new, condition=if_absent)
        else:
            staging.put(self.lake, REPOSITORY, branch, new, condition=if_absent)
            self.shown[branch][key] = new.identity

    @rule(branch=branches, key=st.sampled_from(KEYS))
    def delete(self, branch: BranchID, key: bytes) -> None:
        """Stage a removal."""
        branch = self.there(branch)
        staging.delete(self.lake, REPOSITORY, branch, key)
        self.shown[branch].pop(key, None)

    @rule(branch=branches)
    def reset(self, branch: BranchID) -> None:
        """Discard everything staged."""
        branch = self.there(branch)
        HeadChanges(self.lake).reset(REPOSITORY, branch)
        self.shown[branch] = dict(self.held[self.heads[branch]])

    @rule(branch=branches, prefix=st.sampled_from([b"d/", b"", b"a", b"q"]))
    def reset_prefix(self, branch: BranchID, prefix: bytes) -> None:
        branch = self.there(branch)
        HeadChanges(self.lake).reset_prefix(REPOSITORY, branch, prefix)
        for key in KEYS:
            if key.startswith(prefix):
                self.restore(branch, key)

    @rule(branch=branches, key=st.sampled_from(KEYS))
    def reset_key(self, branch: BranchID, key: bytes) -> None:
        branch = self.there(branch)
        HeadChanges(self.lake).reset_object(REPOSITORY, branch, key)
        self.restore(branch, key)

    def restore(self, branch: BranchID, key: bytes) -> None:
        self.shown[branch].pop(key, None)
        committed = self.held[self.heads[branch]]
        if key in committed:
            self.shown[branch][key] = committed[key]

    # Commits

    @rule(target=commits, branch=branches)
    def commit(self, branch: BranchID) -> MultipleResults[CommitID] | CommitID:
        branch = self.there(branch)
        if self.is_clean(branch):
            with pytest.raises(NoChanges):
                HeadChanges(self.lake).commit(REPOSITORY, branch, REQUEST)
            return multiple()
        result = HeadChanges(self.lake).commit(REPOSITORY, branch, REQUEST)
        assert not result.taken_along
        assert result.commit.parents == (self.heads[branch],)
        return self.note_commit(branch, result.commit.id, dict(self.shown[branch]))

    @rule(target=branches, number=st.integers(1, 3), source=branches)
    def create_branch(self, number: int, source: BranchID) -> MultipleResults[BranchID] | BranchID:
        """Make a branch."""
        source = self.there(source)
        name = BranchID(f"dev{number}")
        if name in self.heads:
            with pytest.raises(NotUnique):
                self.lake.refs.create_branch(REPOSITORY, name, source)
            return multiple()
        self.lake.refs.create_branch(REPOSITORY, name, source)
        self.note_branch(name, self.heads[source])
        return name

    @rule(target=commits, source=branches, branch=branches)
    def merge(self, source: BranchID, branch: BranchID) -> MultipleResults[CommitID] | CommitID:
        branch = self.there(branch)
        source = self.there(source)
        base = self.merge_base(self.heads[source], self.heads[branch])
        wanted = three_way(
            self.held[base], self.held[self.heads[source]], self.held[self.heads[branch]]
        )
        request = MergeRequest(committer="ann", message="m")

        def act() -> CommitID:
            return HeadChanges(self.lake).merge(REPOSITORY, source, branch, request).id

        if not self.is_clean(branch):
            with pytest.raises(DirtyBranch):
                act()
        elif self.held[base] == self.held[self.heads[source]]:
            with pytest.raises(NoChanges):
                act()
        elif isinstance(wanted, list):
            with pytest.raises(MergeConflict) as caught:
                act()
            assert caught.value.conflicts.column("key").to_pylist() == wanted
        else:
            return self.note_commit(branch, act(), wanted)
        return multiple()

    @rule(target=commits, branch=branches, commit=commits, undo=st.booleans())
    def replay(
        self, branch: BranchID, commit: CommitID, undo: bool
    ) -> MultipleResults[CommitID] | CommitID:
        """Revert or cherry-pick a commit against its first parent."""
        branch = self.there(branch)
        commit = self.known(commit)
        if not self.parents[commit]:
            return multiple()
        parent = self.parents[commit][0]
        before, after = (commit, parent) if undo else (parent, commit)
        now = self.held[self.heads[branch]]
        wanted = three_way(self.held[before], self.held[after], now)
        operation = HeadChanges(self.lake).revert if undo else partial(cherry_pick, self.lake)

        def act() -> CommitID:
            return operation(REPOSITORY, branch, commit, REQUEST, parent_number=1).id

        if not self.is_clean(branch):
            with pytest.raises(DirtyBranch):
                act()
        elif isinstance(wanted, list):
            with pytest.raises(MergeConflict):
                act()
        elif wanted == now:
            with pytest.raises(NoChanges):
                act()
        else:
            return self.note_commit(branch, act(), wanted)
        return multiple()

    @rule(branch=branches, commit=commits)
    def hard_reset(self, branch: BranchID, commit: CommitID) -> None:
        """Point a branch to another commit."""
        branch = self.there(branch)
        commit = self.known(commit)
        if self.is_clean(branch):
            HeadChanges(self.lake).hard_reset(REPOSITORY, branch, commit)
            self.note_branch(branch, commit)
        else:
            with pytest.raises(DirtyBranch):
                HeadChanges(self.lake).hard_reset(REPOSITORY, branch, commit)

    # Branches, repositories, dumps, the Cleaner

    @rule(branch=branches)
    def delete_branch(self, branch: BranchID) -> None:
        """Delete a branch with its staged changes, unless it is the default branch."""
        branch = self.there(branch)
        if branch == MAIN:
            with pytest.raises(DefaultBranch):
                self.lake.refs.delete_branch(REPOSITORY, branch)
            return
        self.lake.refs.delete_branch(REPOSITORY, branch)
        with pytest.raises(NotFound):
            staging.list_entries(self.lake, REPOSITORY, branch, EntryQuery())
        del self.heads[branch], self.shown[branch]

    @precondition(lambda self: len(self.held) > 4)  # otherwise the history would stay short
    @rule()
    def recreate_repository(self) -> None:
        """Delete the repository, and create it again in the same place."""
        self.lake.repositories.delete(REPOSITORY)
        with pytest.raises(RepositoryNotFound):
            staging.get(self.lake, REPOSITORY, MAIN, KEYS[0])
        self.begin()

    @rule()
    def restore_from_a_dump(self) -> None:
        """Lose the repository, and restore it from a dump, without staged changes."""
        dump_id = dump(self.lake, REPOSITORY).dump_id
        self.lake.repositories.delete(REPOSITORY)
        self.lake.repositories.create_bare(REPOSITORY, NAMESPACE)
        restore(self.lake, REPOSITORY, dump_id)
        self.shown = {branch: dict(self.held[head]) for branch, head in self.heads.items()}

    @rule()
    def clean(self) -> None:
        """Remove unreferenced records; no request is running, so there is no wait."""
        counts = [self.cleaner.run_once() for _ in range(3)]
        assert all(each.ran for each in counts)
        assert counts[-1].keys_deleted == 0

    @rule(commit=commits, number=st.integers(1, 2))
    def tag(self, commit: CommitID, number: int) -> None:
        """Tag a commit, read through the tag, and take the tag away."""
        commit = self.known(commit)
        with suppress(NotUnique):
            tag = self.lake.refs.create_tag(REPOSITORY, f"v{number}", commit)
            page = staging.list_entries(self.lake, REPOSITORY, tag.id, EntryQuery())
            assert contents(page.items) == self.held[commit]
            self.lake.refs.delete_tag(REPOSITORY, tag.id)

    # Reads

    @rule(branch=branches, key=st.sampled_from(KEYS))
    def get(self, branch: BranchID, key: bytes) -> None:
        branch = self.there(branch)
        try:
            found = staging.get(self.lake, REPOSITORY, branch, key).identity
        except EntryNotFound:
            assert key not in self.shown[branch]
        else:
            assert found == self.shown[branch][key]

    @rule(branch=branches)
    def list_folders(self, branch: BranchID) -> None:
        """List with a delimiter."""
        branch = self.there(branch)
        page = staging.list_entries(self.lake, REPOSITORY, branch, EntryQuery(delimiter=b"/"))
        names = {key if b"/" not in key else key[:2] for key in self.shown[branch]}
        assert [item.key for item in page.items] == sorted(names)

    @rule(left=branches, right=branches)
    def diff(self, left: BranchID, right: BranchID) -> None:
        """Compare the heads of two branches, with two dots and with three."""
        left = self.there(left)
        right = self.there(right)
        before, after = self.held[self.heads[left]], self.held[self.heads[right]]
        page = Differences(self.lake).list_between(REPOSITORY, left, right, EntryQuery())
        assert changed(page.items) == differing(before, after)
        base = self.held[self.merge_base(self.heads[left], self.heads[right])]
        page = Differences(self.lake).list_between(
            REPOSITORY, left, right, EntryQuery(), since_merge_base=True
        )
        assert changed(page.items) == differing(base, after) & differing(before, after)
        marked = {
            item.path for item in page.items if isinstance(item, Difference) and item.conflict
        }
        merged = three_way(base, after, before)
        assert marked == (set(merged) if isinstance(merged, list) else set())

    @invariant()
    def everything_is_shown(self) -> None:
        """Every branch shows exactly the model's entries, and its changes."""
        for branch, expected in self.shown.items():
            page = staging.list_entries(self.lake, REPOSITORY, branch, EntryQuery())
            assert contents(page.items) == expected
            page_of_changes = self.lake.reader.list_changes(REPOSITORY, branch, EntryQuery())
            committed = self.held[self.heads[branch]]
            assert changed(page_of_changes.items) == differing(committed, expected)
            assert self.head(branch) == self.heads[branch]

    def merge_base(self, left: CommitID, right: CommitID) -> CommitID:
        common = self.ancestors(left) & self.ancestors(right)
        repository = self.lake.repositories.get(REPOSITORY)
        found = self.lake.merge_bases.get(repository, left, right).id
        # With several best ancestors, the engine's choice must be one of them.
        assert found in common
        assert not any(found in self.ancestors(other) - {other} for other in common)
        return found

    def ancestors(self, commit: CommitID) -> set[CommitID]:
        found = {commit}
        for parent in self.parents[commit]:
            found |= self.ancestors(parent)
        return found


def three_way(base: Contents, source: Contents, destination: Contents) -> Contents | list[bytes]:
    """The merge of plain dicts, or the keys in conflict."""
    merged, conflicts = dict(destination), []
    for key in sorted(base.keys() | source.keys() | destination.keys()):
        was, theirs, ours = base.get(key), source.get(key), destination.get(key)
        if theirs in (was, ours):
            continue
        if ours != was:
            conflicts.append(key)
        elif theirs is None:
            merged.pop(key, None)
        else:
            merged[key] = theirs
    return conflicts or merged


def differing(before: Contents, after: Contents) -> set[bytes]:
    return {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)}


def contents(items: list[Entry | CommonPrefix]) -> Contents:
    return {item.key: item.identity for item in items if isinstance(item, Entry)}


def changed(items: Sequence[DiffEntry | Difference | CommonPrefix]) -> set[bytes]:
    return {
        item.entry.key if isinstance(item, DiffEntry) else item.path
        for item in items
        if not isinstance(item, CommonPrefix)
    }


@pytest.mark.parametrize(("url", "share"), [("memory://", 2), ("sqlite:///{folder}/lake.db", 10)])
def test_the_engine_agrees_with_plain_dicts(
    url: str, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EngineMachine, "url", url)
    # Runs are long: use a fraction of the usual number of examples.
    examples = settings.default.max_examples // share if settings.default else 1
    run_state_machine_as_test(EngineMachine, settings=settings(max_examples=examples))


def test_a_refused_operation_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/lake.db") as store:
        lake = new_engine(store)
        lake.repositories.create(REPOSITORY, NAMESPACE, committer="")
        staging.put(lake, REPOSITORY, MAIN, entry(b"a", "w1"))
        with pytest.raises(DirtyBranch, match="commit or reset them first"):
            HeadChanges(lake).hard_reset(REPOSITORY, MAIN, "main")
        assert staging.get(lake, REPOSITORY, MAIN, b"a").address == "w1"
        HeadChanges(lake).commit(REPOSITORY, MAIN, REQUEST)
        assert staging.get(lake, REPOSITORY, "main~0", b"a").address == "w1"
        with pytest.raises(EntryNotFound):
            staging.get(lake, REPOSITORY, "main~1", b"a")
