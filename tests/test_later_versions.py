"""What a later version wrote into a record stays when this version changes the record.

Between two steps every record gets a field that no message has. A step that changes a record must
leave it there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from google.protobuf.message import Message

from lakebed.auth import AuthService
from lakebed.auth import records_pb2 as auth_pb
from lakebed.auth.entities import keys as auth_keys
from lakebed.base.leases import Lease
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import MemorySettings, Namespace, open_block
from lakebed.engine import keys as engine_keys
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.leases import LeaseRecords
from lakebed.engine.model import TagID
from lakebed.kv import Item
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import RecordKind, Records
from lakebed.kv.store import Put
from lakebed.lake import keys as catalog_keys
from lakebed.lake.commits import HeadChanges
from lakebed.lake.hooks import keys as hook_keys
from lakebed.lake.hooks import records_pb2 as hook_pb
from lakebed.lake.hooks.runs import Runs
from lakebed.lake.imports.imports import Imports
from lakebed.lake.imports.sources import ImportSource
from lakebed.lake.multipart.records import MultipartID, NamedPart, Target
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.lake.records_pb2 import Purge
from lakebed.reclaim.retention import BranchRule, RetentionRules
from tests.auth.kit import KEYS, Clockwork, allow
from tests.kit import engines
from tests.kit.growth import SleeplessClock
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, TurnableClock, make_lake

COMMIT = CommitRequest(committer="ann", message="m")
MERGE = MergeRequest(committer="ann", message="m")
DAY = 86_400.0
LATER_FIELD = b"\x80\x7d\x2a"
"""Field 2000, an integer, as it is encoded."""

PREFIXES = {
    kind.prefix
    for module in (engine_keys, catalog_keys, hook_keys, auth_keys)
    for kind in vars(module).values()
    if isinstance(kind, RecordKind) and kind.prefix
}

CHANGED = {
    "branches/", "closed_namespaces/", "expired/", "gc/", "groups/", "imports/", "leases/",
    "links/", "multiparts/", "policies/", "pulls/", "purges/", "repos/", "runs/",
    "settings/branch_protection", "settings/restored_refs", "settings/retention", "setup",
    "tags/", "users/",
}  # fmt: skip
"""The records that this version changes. All others are written once, or anew as a whole: commits,
announcements, staged entries, parts of an upload, claims, relations, credentials, the heartbeats
of a task by the process that made it."""


class LaterStore(MemoryStore):
    """A store into which a later version writes as well."""

    def __init__(self) -> None:
        super().__init__(ThreadRuntime())
        self.kept: set[str] = set()
        self.lost: set[str] = set()

    def write_later_fields(self) -> None:
        """Add a field to every record."""
        for partition in list(self.partitions()):
            for key, value, _ in list(self.scan(partition)):
                if kind_of(key) and LATER_FIELD not in value:
                    super().set(partition, key, value + LATER_FIELD)

    def write(
        self, writes: Sequence[Put], reads: Sequence[tuple[bytes, bytes]] = ()
    ) -> list[Item | None]:
        before = [self._find(put.partition, put.key) for put in writes]
        found = super().write(writes, reads)
        for put, item in zip(writes, before, strict=True):
            self._note(put.key, item, put.value)
        return found

    def _note(self, key: bytes, before: Item | None, value: bytes) -> None:
        if before is not None and LATER_FIELD in before.value:
            (self.kept if LATER_FIELD in value else self.lost).add(kind_of(key))


def write_later_fields(lake: Lake) -> None:
    assert isinstance(lake.store, LaterStore)
    lake.store.write_later_fields()


def kind_of(key: bytes) -> str:
    """Return what kind of record has a key; empty if none has."""
    if key.startswith(b"settings/") or key == auth_keys.SETUP_NAME:
        return key.decode()
    return next((each.decode() for each in PREFIXES if key.startswith(each)), "")


def change_branch(lake: Lake) -> None:
    lake.upload(b"branch", "text")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, COMMIT)


def merge(lake: Lake) -> None:
    HeadChanges(lake.engine).merge(REPOSITORY, MAIN, DEV, MERGE)


def move_branch(lake: Lake) -> None:
    HeadChanges(lake.engine).hard_reset(REPOSITORY, DEV, MAIN)


def make_tag(lake: Lake) -> None:
    lake.engine.refs.create_tag(REPOSITORY, "v1", MAIN)


def look_at_deletions(lake: Lake) -> None:
    """A process that was about to delete a branch and a tag may have died."""
    repository, engine = lake.repository, lake.engine
    branch, tag = engine.branches.get(repository, DEV), engine.tags.get(repository, TagID("v1"))
    assert not engine.branches.was_deleted(repository, DEV, branch.unique_id)
    assert not engine.tags.was_deleted(repository, tag.id, tag.unique_id)


def change_settings(lake: Lake) -> None:
    lake.engine.protection.set(lake.repository, ["release-*"], strict=["release-*"])
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2, (BranchRule("dev*", 3),)))


def change_repository(lake: Lake) -> None:
    lake.engine.repositories.set_metadata(REPOSITORY, put={"key": "value"})


def give_out_link(lake: Lake) -> None:
    lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")


def link(lake: Lake) -> None:
    (record,) = Records(lake.store, catalog_keys.LINKS, lake.repository.partition).scan()
    address = lake.repository.namespace.address(record.message.address)
    lake.block.put(address, [b"text"])
    lake.catalog.links.link(REPOSITORY, MAIN, b"linked", address, checksum="abc", size=4)


def begin_multipart(lake: Lake) -> None:
    lake.catalog.multiparts.create(REPOSITORY, MAIN, b"parts", content_type="t/t")


def complete_multipart(lake: Lake) -> None:
    (record,) = Records(lake.store, catalog_keys.MULTIPARTS, lake.repository.partition).scan()
    target = Target(REPOSITORY, MAIN, b"parts", MultipartID(record.name.decode()))
    part = lake.catalog.multiparts.put_part(target, 1, [b"text"], size=4)
    write_later_fields(lake)
    lake.catalog.completions.complete(target, [NamedPart(1, part.md5)])


def ask_for_import(lake: Lake) -> None:
    folder = Namespace.parse(f"{lake.block.scheme}://data/outside")
    lake.block.put(folder.address("object"), [b"text"])
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, COMMIT)
    source = ImportSource.of_prefix(folder, b"imported/")
    parts = lake.engine, lake.store, lake.block, lake.clock, lake.settings
    imports = Imports(*parts, on_start=lambda: None)
    imports.start(REPOSITORY, MAIN, [source], committer="ann", message="m")


def run_import(lake: Lake) -> None:
    lake.catalog.import_runner.run_waiting()


def make_pull(lake: Lake) -> None:
    lake.catalog.pulls.create(REPOSITORY, source=MAIN, destination=DEV, title="a", author="ann")


def change_pull(lake: Lake) -> None:
    (pull,) = lake.catalog.pulls.list(REPOSITORY)
    lake.catalog.pulls.update(REPOSITORY, pull.id, title="b")
    write_later_fields(lake)
    lake.catalog.pulls.merge(REPOSITORY, pull.id, MERGE)


def take_gc_lease(lake: Lake) -> None:
    lake.reclaim.leases.take(REPOSITORY, "ann")


def give_gc_lease_back(lake: Lake) -> None:
    lake.reclaim.leases.end_run(REPOSITORY, "ann", is_good=True, next_us=1)


def prepare_run(lake: Lake) -> None:
    runs(lake).prepare(lake.repository, hook_pb.Run(branch="main"))


def confirm_run(lake: Lake) -> None:
    ((run_id, _),) = runs(lake).prepared(lake.repository)
    runs(lake).confirm(lake.repository, run_id)


def runs(lake: Lake) -> Runs:
    return Runs(lake.engine, lake.store, lake.block, lake.clock, heartbeat_seconds=60)


def expire(lake: Lake) -> None:
    lake.clock.ahead_seconds += 5 * DAY
    lake.reclaim.retention.expire(REPOSITORY, max_share=1.0)


def mark_purged(lake: Lake) -> None:
    PurgeMarks(lake.store).add(lake.repository.namespace.address("data/a"), Purge(purge_id="p"))


def note_purged(lake: Lake) -> None:
    PurgeMarks(lake.store).record_purged(lake.repository.namespace.address("data/a"), 1)


def take_lease(lake: Lake) -> None:
    assert Lease(LeaseRecords(lake.store, lake.clock, b"work", 60), lake.clock).acquire()


def take_lease_over(lake: Lake) -> None:
    lake.clock.ahead_seconds += DAY
    assert Lease(LeaseRecords(lake.store, lake.clock, b"work", 60), lake.clock).acquire()


STEPS: list[Callable[[Lake], None]] = [
    change_branch, merge, move_branch, make_tag, look_at_deletions, change_settings,
    change_settings, change_repository, give_out_link, link,
    begin_multipart, complete_multipart, ask_for_import, run_import, make_pull, change_pull,
    take_gc_lease, give_gc_lease_back, prepare_run, confirm_run, mark_purged, note_purged,
    expire, expire, take_lease, take_lease_over,
]  # fmt: skip


def restore(lake: Lake) -> None:
    """Restore refs into the namespace of a deleted repository, and delete the new one."""
    place, dumped = lake.repository.namespace, engines.dump(lake.engine, REPOSITORY)
    lake.engine.repositories.delete(REPOSITORY)
    bare = lake.engine.repositories.create_bare(REPOSITORY, place)
    notes = Records(lake.store, engine_keys.RESTORED, bare.partition)
    notes.set(engine_keys.RESTORED_NAME, pb.RestoredRefs(dump_id=dumped.dump_id))
    write_later_fields(lake)
    engines.restore(lake.engine, REPOSITORY, dumped.dump_id)
    write_later_fields(lake)
    lake.engine.repositories.delete(REPOSITORY)


def change_users(store: LaterStore) -> None:
    """Set up twice, since the first attempt died; change a policy, and delete all there is."""
    clock = Clockwork()
    auth = AuthService(store, clock, keys=KEYS)
    setup = Records(store, auth_keys.SETUP, auth_keys.AUTH)
    died = auth_pb.Setup(attempt_id="a", user=auth_pb.FirstUser(user="ann", unique_id="u"))
    setup.set(auth_keys.SETUP_NAME, died)
    store.write_later_fields()
    auth.setup("ann")
    auth.policies.create("policy", [allow("fs:*")])
    auth.groups.create("group")
    auth.users.create("bob")
    store.write_later_fields()
    auth.policies.update("policy", [allow("fs:ReadObject")])
    auth.policies.delete("policy")
    auth.groups.delete("group")
    auth.users.delete("bob")


def test_fields_of_a_later_version_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TurnableClock, "sleep", SleeplessClock.sleep)
    store = LaterStore()
    with open_block(MemorySettings()) as block:
        lake = make_lake(store, block)
        for step in STEPS:
            store.write_later_fields()
            step(lake)
        restore(lake)
    change_users(store)
    assert not store.lost
    assert store.kept == CHANGED


def reset_branch(lake: Lake) -> None:
    lake.upload(b"dropped", "text")
    HeadChanges(lake.engine).reset(REPOSITORY, MAIN)


def move_main(lake: Lake) -> None:
    head = lake.engine.branches.get(lake.repository, MAIN).commit_id
    HeadChanges(lake.engine).hard_reset(REPOSITORY, MAIN, head)


def merge_into_main(lake: Lake) -> None:
    HeadChanges(lake.engine).merge(REPOSITORY, DEV, MAIN, replace(MERGE, allow_empty=True))


@pytest.mark.parametrize("change", [change_branch, reset_branch, move_main, merge_into_main])
def test_a_change_of_a_branch_drops_what_holds_until_then(change: Callable[[Lake], None]) -> None:
    """Also the fields of a later version; those of the branch itself stay."""
    with open_block(MemorySettings()) as block:
        lake = make_lake(MemoryStore(ThreadRuntime()), block)
        records = Records(lake.store, engine_keys.BRANCHES, lake.repository.partition)
        message = records.get(b"main").message
        message.transient.MergeFromString(LATER_FIELD)
        message.transient.next_commit_id = message.commit_id
        message.MergeFromString(LATER_FIELD)
        before = records.set(b"main", message)
        change(lake)
        found = records.get(b"main")
    assert found.predicate != before
    assert not found.message.HasField("transient")
    assert found.message.SerializeToString().count(LATER_FIELD) == 1


@pytest.mark.parametrize(
    ("kind", "name", "message", "change"),
    [
        (
            engine_keys.PROTECTION,
            engine_keys.PROTECTION_NAME,
            pb.BranchProtection(rules=[pb.BranchProtectionRule(pattern="release-*")]),
            lambda lake: lake.engine.protection.set(lake.repository, ["a*", "release-*"]),
        ),
        (
            engine_keys.RETENTION,
            engine_keys.RETENTION_NAME,
            pb.Retention(branches=[pb.BranchRetention(pattern="dev*", days=1)]),
            lambda lake: lake.reclaim.retention.set_rules(
                REPOSITORY, RetentionRules(2, (BranchRule("a*", 2), BranchRule("dev*", 3)))
            ),
        ),
    ],
)
def test_fields_of_a_rule_stay(
    kind: RecordKind[Message], name: bytes, message: Message, change: Callable[[Lake], None]
) -> None:
    (field,) = message.ListFields()
    (rule,) = field[1]
    rule.MergeFromString(LATER_FIELD)
    with open_block(MemorySettings()) as block:
        lake = make_lake(MemoryStore(ThreadRuntime()), block)
        records = Records(lake.store, kind, lake.repository.partition)
        records.set(name, message)
        change(lake)
        stored = records.get(name).message
    rules = getattr(stored, field[0].name)
    assert [LATER_FIELD in each.SerializeToString() for each in rules] == [False, True]
