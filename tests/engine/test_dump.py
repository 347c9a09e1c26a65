import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import now_us
from lakebed.block import Address
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import (
    CommitNotFound,
    Invalid,
    MissingFile,
    RefsLeftOut,
    RepositoryNotFound,
)
from lakebed.engine.keys import COMMITS, GRAVELER, REPOSITORIES, TAGS
from lakebed.engine.model import BranchID, Commit, CommitID, Repository, StagingToken, TagID
from lakebed.engine.refs import dump
from lakebed.engine.refs.commits import compute_id
from lakebed.engine.refs.dump import FILE_ROWS, dump_refs
from lakebed.engine.refs.log import History, LogQuery
from lakebed.engine.refs.restore import restore_refs
from lakebed.formats import (
    MANIFEST_NAME,
    REF_SCHEMAS,
    DamagedFile,
    DumpFile,
    DumpID,
    DumpManifest,
    RefKind,
    decode_refs,
    dump_path,
    encode_manifest,
    encode_refs,
    metarange_path,
    refs_id,
)
from lakebed.kv import CorruptRecord, KVError, Store, open_store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.reclaim.retention import RetentionRecords
from lakebed.testing.faults import FaultyStore, StoreCall, lost
from tests.engine.histories import NO_METARANGE, RUNTIME, HistoryKit, Shape, shapes
from tests.kit.rounds import rounds

ResultT = TypeVar("ResultT")
MANY = rounds(5_000, long=100_000)


class Dumps(HistoryKit):
    def dump(self) -> DumpManifest:
        return dump_refs(self.store, self.block, RUNTIME, self.repository)

    def restore(
        self, manifest: DumpManifest, into: Repository, store: Store | None = None
    ) -> DumpManifest:
        return restore_refs(store or self.store, self.block, RUNTIME, into, manifest.dump_id)

    def refusal(self, manifest: DumpManifest, into: Repository) -> str | None:
        """The message of a failed restore, or None if it succeeds."""
        try:
            self.restore(manifest, into)
        except LakebedError as error:
            return str(error)
        return None

    def address(self, manifest: DumpManifest, name: str) -> Address:
        return self.repository.namespace.address(dump_path(manifest.dump_id, name))

    def contents(self, repository: Repository) -> dict[str, Any]:
        """All refs, without new ids and the server's notes."""
        partition = repository.partition
        return {
            "commits": [
                (record.name, _what_the_id_covers(record.message))
                for record in Records(self.store, COMMITS, partition).scan()
            ],
            "tags": [
                (record.name, record.message.commit_id, record.message.created_us)
                for record in Records(self.store, TAGS, partition).scan()
            ],
            "branches": [
                (branch.id, branch.commit_id, branch.hidden, branch.created_us)
                for branch in self.branches.list(repository)
            ],
        }

    def dumped(self, manifest: DumpManifest, kind: RefKind, column: str) -> list[Any]:
        """A column of a dump."""
        values: list[Any] = []
        for file in manifest.of_kind(kind):
            data = self.block.read(self.address(manifest, file.name))
            values += decode_refs(data, file, file=file.name).column(column).to_pylist()
        return values

    def is_untouched(self, repository: Repository) -> bool:
        return not self.store.scan_page(repository.partition, b"", 1)

    def adopted(self, repository: Repository) -> list[str]:
        records = Records(self.store, REPOSITORIES, GRAVELER)
        return list(records.get(repository.id.encode()).message.adopted_unique_ids)


def _what_the_id_covers(commit: pb.Commit) -> bytes:
    covered = pb.Commit()
    covered.CopyFrom(commit)
    for field in ("stored_us", "branch", "sources"):
        covered.ClearField(field)
    return covered.SerializeToString(deterministic=True)


def small() -> Dumps:
    """A repository with a merge, a hidden branch, a tag and an unreferenced commit."""
    world = Dumps()
    metarange_id = world.committed().write([])
    root = world.commit(created_us=-5)
    left = world.commit(root, metarange_id=metarange_id, message="left")
    right = world.commits.add(
        world.repository,
        committer="\N{SNOWMAN}",
        message="right\n",
        metarange_id=NO_METARANGE,
        parents=[root],
        metadata={"z": "1", "a": "", "\N{SNOWMAN}": "b"},
        created_us=2**60,
        consumed_tokens=[StagingToken("t2"), StagingToken("t1")],
    )
    head = world.commit(left, right)
    world.commit(left, message="nothing names this one")
    world.branches.create(world.repository, BranchID("main"), head.id)
    world.branches.create(world.repository, BranchID("secret"), left.id, hidden=True)
    world.tags.create(world.repository, TagID("v1.0"), right.id)
    return world


def test_everything_is_restored_except_what_is_staged() -> None:
    world = small()
    original = {branch.id: branch for branch in world.branches.list(world.repository)}
    main = original[BranchID("main")]
    sealed = StagingToken("repo-main:sealed")
    world.branches.change(world.repository, main, sealed_tokens=[sealed])
    manifest = world.dump()
    bare = world.make_repository("bare")
    assert world.restore(manifest, bare) == manifest
    assert world.contents(bare) == world.contents(world.repository)
    for branch in world.branches.list(bare):
        assert branch.unique_id != original[branch.id].unique_id
        assert branch.staging_token.startswith(f"bare-{branch.id}:")
        assert branch.sealed_tokens == ()


@given(shapes(max_size=20), st.data())
def test_any_history_is_restored(history: list[Shape], data: st.DataObject) -> None:
    world = Dumps()
    commits = world.build(history)
    some = st.lists(st.sampled_from(commits), max_size=4)
    for number, commit in enumerate(data.draw(some)):
        hidden = number == 1
        name = BranchID(f"b{number}")
        world.branches.create(world.repository, name, commit.id, hidden=hidden)
    for number, commit in enumerate(data.draw(some)):
        world.tags.create(world.repository, TagID(f"t/{number}"), commit.id)
    bare = world.make_repository("bare")
    manifest = world.restore(world.dump(), bare)
    assert world.contents(bare) == world.contents(world.repository)
    assert manifest.rows(RefKind.COMMITS) == len(commits)


def test_restored_commits_count_as_stored_by_the_restore() -> None:
    """Retention counts their days from then on, whenever rules were first set."""
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    RetentionRecords(world.store, RUNTIME).counting_since_us(bare)
    began_us = now_us(RUNTIME)
    world.restore(manifest, bare)
    records = Records(world.store, COMMITS, bare.partition).scan()
    stored = [record.message.stored_us for record in records]
    assert len(stored) == 5
    assert all(began_us <= each <= now_us(RUNTIME) for each in stored)


def test_an_empty_repository_is_restored() -> None:
    world = Dumps()
    bare = world.make_repository("bare")
    world.restore(world.dump(), bare)
    assert world.contents(bare) == {"commits": [], "tags": [], "branches": []}


def test_the_unique_ids_are_handed_on() -> None:
    world = small()
    first, second = world.make_repository("first"), world.make_repository("second")
    world.restore(world.dump(), first)
    assert world.adopted(first) == [world.repository.unique_id]
    again = dump_refs(world.store, world.block, RUNTIME, first)
    world.restore(again, second)
    assert world.adopted(second) == [first.unique_id, world.repository.unique_id]


# Bare repositories


def test_only_a_bare_repository_is_restored_into() -> None:
    world = small()
    manifest = world.dump()
    with pytest.raises(Invalid, match="repository repo is not bare, it has branches/main"):
        world.restore(manifest, world.repository)
    tagged, lone = world.make_repository("tagged"), world.make_repository("lone")
    world.tags.create(tagged, TagID("v1"), CommitID("c"))
    with pytest.raises(Invalid, match="not bare, it has tags/v1"):
        world.restore(manifest, tagged)
    world.commits.add(
        lone, committer="", message="", metarange_id=NO_METARANGE, parents=[], metadata={}
    )
    with pytest.raises(Invalid, match="not bare, it has commits/"):
        world.restore(manifest, lone)


def test_a_finished_restore_is_not_done_twice() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    world.restore(manifest, bare)
    world.tags.delete(bare, world.tags.get(bare, TagID("v1.0")))
    main = world.branches.get(bare, BranchID("main"))
    moved = world.branches.change(bare, main, staging_token=StagingToken("other"))
    assert world.restore(manifest, bare) == manifest
    assert list(world.tags.list(bare)) == []
    assert world.branches.get(bare, BranchID("main")) == moved


def test_another_dump_is_not_restored_over_the_first() -> None:
    world = small()
    first, second, bare = world.dump(), world.dump(), world.make_repository("bare")
    world.restore(first, bare)
    before = world.contents(bare)
    with pytest.raises(Invalid, match=f"^dump {first.dump_id} was restored"):
        world.restore(second, bare)
    assert world.contents(bare) == before


def test_a_repository_that_is_gone_is_neither_dumped_nor_restored_into() -> None:
    world = small()
    manifest, gone = world.dump(), world.make_repository("bare")
    world.make_repository("bare")  # again, with another unique id
    with pytest.raises(RepositoryNotFound):
        world.restore(manifest, gone)
    with pytest.raises(RepositoryNotFound):
        dump_refs(world.store, world.block, RUNTIME, gone)
    assert world.is_untouched(gone)


# Damage


def file_names(manifest: DumpManifest) -> list[str]:
    return [MANIFEST_NAME, *(file.name for file in manifest.files)]


def test_a_dump_without_one_of_its_files_is_refused() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    assert len(file_names(manifest)) == 4
    for name in file_names(manifest):
        address = world.address(manifest, name)
        data = world.block.read(address)
        world.block.delete(address)
        with pytest.raises(MissingFile, match=f"{name} is missing"):
            world.restore(manifest, bare)
        assert world.is_untouched(bare)
        world.block.create(address, data)
    world.restore(manifest, bare)


@pytest.mark.slow
def test_a_damaged_dump_is_refused_whole() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    for name in file_names(manifest):
        address = world.address(manifest, name)
        data = world.block.read(address)
        ends = [data[: len(data) // 2], data + b"x", b""]
        flips = [
            data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]
            for place in range(0, len(data), rounds(113, long=3))
        ]
        for broken in ends + flips:
            world.block.put(address, [broken])
            refusal = world.refusal(manifest, bare)
            if refusal is not None:
                assert name in refusal
                assert world.is_untouched(bare)
            else:
                # Bytes that carry nothing: what came back is the whole.
                assert world.contents(bare) == world.contents(world.repository)
                bare = world.make_repository("bare")
        world.block.put(address, [data])


def test_a_dump_whose_metarange_is_missing_is_refused() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    path = metarange_path(world.committed().write([]))
    world.block.delete(world.repository.namespace.address(path))
    with pytest.raises(MissingFile, match=path):
        world.restore(manifest, bare)
    assert world.is_untouched(bare)


def test_the_id_of_a_dump_cannot_be_a_path() -> None:
    world = Dumps()
    for name in ("", "../x", "a/b", "a\n"):
        with pytest.raises(Invalid, match="not a valid dump id"):
            restore_refs(world.store, world.block, RUNTIME, world.repository, DumpID(name))


Rows = list[dict[str, Any]]


def rewritten(world: Dumps, kind: RefKind, edit: Callable[[Rows], Rows]) -> DumpManifest:
    """A wrongly made dump: complete, with valid digests."""
    manifest = world.dump()
    files: list[DumpFile] = []
    for file in manifest.files:
        address = world.address(manifest, file.name)
        table = decode_refs(world.block.read(address), file, file=file.name)
        if file.kind is kind:
            table = pa.Table.from_pylist(edit(table.to_pylist()), schema=REF_SCHEMAS[kind])
        world.block.put(address, [encode_refs(file.kind, table)])
        files.append(DumpFile(file.name, file.kind, table.num_rows, refs_id(file.kind, table)))
    changed = DumpManifest(
        dump_id=manifest.dump_id,
        repository=manifest.repository,
        unique_ids=manifest.unique_ids,
        default_branch=manifest.default_branch,
        created_us=manifest.created_us,
        files=tuple(files),
    )
    world.block.put(world.address(manifest, MANIFEST_NAME), [encode_manifest(changed)])
    return changed


def with_ids(rows: Rows) -> Rows:
    """Give each commit the id of its content."""
    for row in rows:
        fields = {name: row[name] for name in row if name not in {"id", "created", "metadata"}}
        created_us = round(row["created"].timestamp() * 1e6)
        message = pb.Commit(**fields, created_us=created_us, metadata=dict(row["metadata"]))
        row["id"] = compute_id(message)
    return rows


def edited(column: str, value: object) -> Callable[[Rows], Rows]:
    return lambda rows: [rows[0] | {column: value}, *rows[1:]]


def lonely(generation: int, parents: list[str]) -> Callable[[Rows], Rows]:
    """An additional commit with a given generation and parents."""

    def edit(rows: Rows) -> Rows:
        more = rows[0] | {
            "generation": generation,
            "parents": parents,
            "created": rows[0]["created"],
        }
        return rows + with_ids([more])

    return edit


@pytest.mark.parametrize(
    ("kind", "edit", "reason"),
    [
        (RefKind.COMMITS, edited("message", "forged"), "does not match its id"),
        (RefKind.COMMITS, edited("nonce", b""), "does not match its id"),
        (RefKind.COMMITS, lambda rows: [*rows, rows[0]], "occurs twice"),
        (RefKind.COMMITS, lonely(2, ["0" * 64]), "parent 0+ of commit .* is missing"),
        (RefKind.COMMITS, lonely(2, []), "has generation 2 instead of 1"),
        (RefKind.BRANCHES, edited("commit_id", "0" * 64), "commit 0+ of main is missing"),
        (RefKind.BRANCHES, edited("name", "a branch"), "is not a valid branch name"),
        (RefKind.BRANCHES, lambda rows: [*rows, rows[0]], "main occurs twice"),
        (RefKind.TAGS, edited("commit_id", "0" * 64), "commit 0+ of v1.0 is missing"),
        (RefKind.TAGS, edited("name", "a tag"), "is not a valid tag name"),
    ],
)
def test_a_dump_that_does_not_fit_together_is_refused(
    kind: RefKind, edit: Callable[[Rows], Rows], reason: str
) -> None:
    world = Dumps()
    root = world.commit()
    world.branches.create(world.repository, BranchID("main"), root.id)
    world.tags.create(world.repository, TagID("v1.0"), root.id)
    manifest, bare = rewritten(world, kind, edit), world.make_repository("bare")
    with pytest.raises(DamagedFile, match=f"{kind}-00000.parquet is damaged: .*{reason}"):
        world.restore(manifest, bare)
    assert world.is_untouched(bare)


def test_the_dump_of_a_damaged_store_is_refused() -> None:
    world = Dumps()
    head = world.commit(world.commit())
    records = Records(world.store, COMMITS, world.repository.partition)
    records.delete(head.parents[0].encode())
    with pytest.raises(CommitNotFound, match=head.parents[0]):
        world.dump()
    message = records.get(head.id.encode()).message
    message.message = "forged"
    records.set(head.id.encode(), message)
    with pytest.raises(CorruptRecord, match=head.id):
        world.dump()


# Interruptions


class FailAt:
    """Fails the n-th write, before or after its application, and all later calls."""

    def __init__(self, count: int, *, applied: bool) -> None:
        self._left = count
        self._applied = applied
        self._lock = threading.Lock()

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        with self._lock:
            self._left -= call.writes
            left = self._left
        if left > 0:
            return apply()
        if left == 0 and call.writes and self._applied:
            apply()
        raise lost(call, known=False)


@pytest.mark.parametrize("applied", [False, True])
def test_an_interrupted_restore_is_run_again(applied: bool) -> None:
    world = small()
    manifest = world.dump()
    expected = world.contents(world.repository)
    for count in range(1, 100):
        bare = world.make_repository(f"bare-{count}")
        failing = FailAt(count, applied=applied)
        try:
            world.restore(manifest, bare, FaultyStore(world.store, failing))
        except KVError:
            pass
        else:
            break
        found = world.contents(bare)
        if found["tags"] or found["branches"]:
            assert found["commits"] == expected["commits"]
        if found["branches"]:
            assert found["tags"] == expected["tags"]
        if world.adopted(bare):
            assert found == expected
        world.restore(manifest, bare)
        assert world.contents(bare) == expected
        assert world.adopted(bare) == [world.repository.unique_id]
    # A note, commits, a tag and two branches by two writes each, unique ids, the note; all well.
    assert count == 11


def test_work_that_began_before_the_restore_went_on_stays() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    with pytest.raises(KVError):
        # The last of the writes that finish branches.
        world.restore(manifest, bare, FaultyStore(world.store, FailAt(8, applied=False)))
    (branch,) = world.branches.list(bare)
    head = world.commits.get(bare, branch.commit_id)
    later = world.commits.add(
        bare, committer="", message="", metarange_id=NO_METARANGE, parents=[head], metadata={}
    )
    changed = world.branches.change(bare, branch, commit_id=later.id)
    with pytest.raises(RefsLeftOut, match=f"branch {branch.id}: its name was taken"):
        world.restore(manifest, bare)
    assert world.branches.get(bare, branch.id) == changed
    assert len(list(world.branches.list(bare))) == 2


def test_a_tag_that_was_made_before_the_restore_went_on_keeps_its_name() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    with pytest.raises(KVError):  # when commits and tags are there
        world.restore(manifest, bare, FaultyStore(world.store, FailAt(5, applied=False)))
    (restored,) = world.tags.list(bare)
    made = world.tags.create(bare, TagID("secret"), restored.commit_id)
    for _ in range(2):  # also when it is asked for again
        with pytest.raises(RefsLeftOut, match="branch secret: its name was taken"):
            world.restore(manifest, bare)
    assert set(world.tags.list(bare)) == {restored, made}
    assert [branch.id for branch in world.branches.list(bare)] == ["main"]


# Concurrent changes


def check_restored(world: Dumps, manifest: DumpManifest) -> Repository:
    """Restore a dump and walk through the whole history of each branch."""
    bare = world.make_repository(f"bare-{manifest.dump_id[-16:]}")
    world.restore(manifest, bare)
    history = History(world.commits, RUNTIME)
    for branch in world.branches.list(bare):
        walked, original = (
            list(history.log(repository, world.committed(), branch.commit_id, LogQuery()))
            for repository in (bare, world.repository)
        )
        assert walked == original
    return bare


class BusyStore(MemoryStore):
    """During a scan of commits, two more are made between any two pages."""

    interrupt: Callable[[], None] | None = None

    def scan_page(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[Any]:
        if self.interrupt is not None and start.startswith(COMMITS.prefix):
            self.interrupt()
        return super().scan_page(partition, start, limit, end)


def test_a_dump_that_missed_the_parent_of_a_new_commit_fetches_it() -> None:
    store = BusyStore(RUNTIME)
    world = Dumps(store)
    head = world.commit()
    for _ in range(2_000):
        head = world.commit(head)
    branch = world.branches.create(world.repository, BranchID("main"), head.id)
    made: list[Commit] = []

    def commit_some() -> None:
        nonlocal head, branch
        for _ in range(20):
            head = world.commit(head)
            made.append(head)
            branch = world.branches.change(world.repository, branch, commit_id=head.id)

    store.interrupt = commit_some
    manifest = world.dump()
    store.interrupt = None
    bare = check_restored(world, manifest)
    restored = {commit.id for commit in world.commits.list(bare)}
    # Of commits made meanwhile some are restored, with all of their ancestors.
    present = [commit.id in restored for commit in made]
    assert any(present)
    assert present == sorted(present, reverse=True)
    # And some of these the scan had missed: they come behind it.
    names = world.dumped(manifest, RefKind.COMMITS, "id")
    assert names != sorted(names)
    assert world.branches.get(bare, BranchID("main")).commit_id == made[0].parents[0]


@pytest.mark.parametrize("cleaned", ["all", "the first commit"])
def test_a_repository_deleted_while_it_is_dumped_leaves_no_dump(cleaned: str) -> None:
    store = BusyStore(RUNTIME)
    world = Dumps(store)
    first = world.commit()
    world.branches.create(world.repository, BranchID("main"), world.commit(first).id)

    def delete_and_clean_up() -> None:
        store.delete(GRAVELER, REPOSITORIES.prefix + b"repo")
        if cleaned == "all":
            for item in store.scan(world.repository.partition):
                store.delete(world.repository.partition, item.key)
        else:
            store.delete(world.repository.partition, COMMITS.prefix + first.id.encode())

    store.interrupt = delete_and_clean_up
    with pytest.raises(RepositoryNotFound):
        world.dump()
    listing = world.block.list_objects(world.repository.namespace)
    left = [address for batch in listing for address in batch.column("address").to_pylist()]
    assert not [address for address in left if address.endswith(MANIFEST_NAME)]


@pytest.mark.slow
def test_a_dump_taken_while_a_thread_commits_restores() -> None:
    world = Dumps()
    head = world.commit()
    world.branches.create(world.repository, BranchID("main"), head.id)
    stop = threading.Event()
    tips: list[CommitID] = [head.id]
    tips_max = 0

    def work() -> None:
        parent = head
        while not stop.is_set():
            if len(tips) >= tips_max:
                RUNTIME.sleep(0.001)
                continue
            parent = world.commit(parent)
            branch = world.branches.get(world.repository, BranchID("main"))
            world.branches.change(world.repository, branch, commit_id=parent.id)
            world.tags.create(world.repository, TagID(f"t{len(tips)}"), parent.id)
            tips.append(parent.id)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        manifests = []
        for _ in range(5):
            # However slow a dump is beside it, it leaves something for the next one.
            tips_max += 4_000
            while len(tips) < tips_max - 3_900 and worker.is_alive():
                RUNTIME.sleep(0.001)
            manifests.append(world.dump())
    finally:
        stop.set()
        worker.join()
    for manifest in manifests:
        bare = check_restored(world, manifest)
        for tag in world.tags.list(bare):
            assert world.commits.get(bare, tag.commit_id).id == tag.commit_id
    assert manifests[0].rows(RefKind.TAGS) < manifests[-1].rows(RefKind.TAGS)


def test_two_restores_of_one_dump_at_once_agree() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    RUNTIME.map_parallel(lambda _: world.restore(manifest, bare), range(8), limit=8)
    assert world.contents(bare) == world.contents(world.repository)


def test_of_two_dumps_restored_at_once_one_wins() -> None:
    world = small()
    first, second, bare = world.dump(), world.dump(), world.make_repository("bare")

    class Overtaking:
        """Lets the other restore note its dump just before this one."""

        def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
            if call.key == b"settings/restored_refs" and call.operation == "set_if":
                world.restore(second, bare)
            return apply()

    with pytest.raises(Invalid, match=f"^dump {second.dump_id} was restored"):
        world.restore(first, bare, FaultyStore(world.store, Overtaking()))
    assert world.contents(bare) == world.contents(world.repository)


def test_the_repository_record_changes_while_refs_are_restored() -> None:
    world = small()
    manifest, bare = world.dump(), world.make_repository("bare")
    touched: list[StoreCall] = []

    class Touching:
        """Changes the record just before its first conditional write."""

        def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
            if call.key == b"repos/bare" and call.operation == "set_if" and not touched:
                records = Records(world.store, REPOSITORIES, GRAVELER)
                record = records.get(b"bare")
                record.message.metadata["owner"] = "someone"
                records.set_if(b"bare", record.message, record.predicate)
                touched.append(call)
            return apply()

    world.restore(manifest, bare, FaultyStore(world.store, Touching()))
    assert touched
    assert world.adopted(bare) == [world.repository.unique_id]
    message = Records(world.store, REPOSITORIES, GRAVELER).get(b"bare").message
    assert message.metadata["owner"] == "someone"


# Size


@pytest.mark.slow
def test_many_commits_go_through_in_files_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rounds(1_000, long=FILE_ROWS)
    monkeypatch.setattr(dump, "FILE_ROWS", rows)
    world = Dumps(open_store("memory://"))
    head = world.commit()
    for number in range(1, MANY):
        head = world.commit(head, created_us=number)
    world.branches.create(world.repository, BranchID("main"), head.id)
    manifest = world.dump()
    assert [file.rows for file in manifest.of_kind(RefKind.COMMITS)] == [rows] * (MANY // rows)
    bare = world.make_repository("bare")
    world.restore(manifest, bare)
    assert world.contents(bare) == world.contents(world.repository)


def test_large_commits_fill_files_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "FILE_BYTES", 10_000)
    world = Dumps()
    head = world.commit(message="x" * 3_500)
    for _ in range(7):
        head = world.commit(head, message="x" * 3_500)
    manifest = world.dump()
    assert [file.rows for file in manifest.of_kind(RefKind.COMMITS)] == [3, 3, 2]
    bare = world.make_repository("bare")
    world.restore(manifest, bare)
    assert world.contents(bare) == world.contents(world.repository)
