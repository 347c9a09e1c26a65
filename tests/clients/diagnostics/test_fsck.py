"""The deep check finds every damage, and says which commits it touches."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import Address, BlockStore, StorageUnavailable
from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.clients.diagnostics.fsck import Damage, FsckReport, RepositoryCheck
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed.files import Cache, Files
from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import CommitID
from lakebed.engine.refs.commits import LAKEFS_SWAPPED_VERSION, LAKEFS_VERSION, compute_id
from lakebed.engine.staging.cells import encode, propose
from lakebed.formats import AddressType
from lakebed.kv import Item
from lakebed.lake.commits import HeadChanges
from lakebed.lake.model import new_entry
from lakebed.reclaim.references import PurgeQuery
from tests.kit import staging
from tests.kit.lake import MAIN, REPOSITORY, Lake, open_lake

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("disk", tmp_path) as lake:
        yield lake


@pytest.fixture
def commits(lake: Lake) -> list[str]:
    """Two commits with files of their own; the first one's range is also in the second one."""
    made = []
    for number in range(2):
        lake.upload(b"object-%d" % number, f"text {number}")
        request = CommitRequest(committer="ann", message=f"number {number}")
        made.append(str(HeadChanges(lake.engine).commit(REPOSITORY, MAIN, request).commit.id))
    lake.engine.refs.create_tag(REPOSITORY, "v1", made[0])
    return made


def checked(lake: Lake, sample: int | None = None) -> FsckReport:
    return RepositoryCheck(lake.store, lake.block, lake.clock, REPOSITORY, sample=sample).run()


def files(tmp_path: Path, kind: str) -> list[Path]:
    return sorted((tmp_path / "objects").rglob(f"_lakebed/{kind}/*.parquet"))


def holders(lake: Lake, path: Path) -> list[str]:
    """The commits that a file belongs to, found the slow way."""
    found = []
    stored = Files(lake.block, lake.repository.files_root, lake.clock, Cache(lake.clock))
    for commit in lake.engine.commits.list(lake.repository):
        refs = stored.load_metarange(commit.metarange_id).refs
        if path.stem in {commit.metarange_id, *(ref.range_id for ref in refs)}:
            found.append(str(commit.id))
    return sorted(found)


@pytest.mark.usefixtures("commits")
def test_a_whole_repository_is_whole(lake: Lake) -> None:
    report = checked(lake)
    assert report.damages == []
    assert (report.commits, report.metaranges, report.ranges, report.entries) == (3, 3, 2, 3)


@pytest.mark.usefixtures("commits")
@pytest.mark.parametrize("kind", ["ranges", "metaranges"])
def test_a_file_that_holds_something_else_is_found_with_its_commits(
    lake: Lake, tmp_path: Path, kind: str
) -> None:
    """Even if it is a perfect file, only not the one that its id says."""
    other, *rest = files(tmp_path, kind)
    for path in rest:
        touched = holders(lake, path)
        assert touched
        whole = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(other.read_bytes())
        (damage,) = checked(lake).damages
        assert (damage.what, damage.name) == (kind.removesuffix("s"), path.stem)
        assert damage.commits == touched
        assert damage.commits_touched == len(touched)
        path.write_bytes(whole)
    assert checked(lake).damages == []


@pytest.mark.usefixtures("commits")
@pytest.mark.parametrize("kind", ["ranges", "metaranges"])
def test_a_missing_file_is_found(lake: Lake, tmp_path: Path, kind: str) -> None:
    path = files(tmp_path, kind)[-1]
    touched = holders(lake, path)
    path.unlink()
    (damage,) = checked(lake).damages
    assert (damage.name, damage.commits) == (path.stem, touched)


def test_damaged_and_missing_records_are_found(lake: Lake, commits: list[str]) -> None:
    partition = lake.repository.partition
    first = lake.store.get(partition, b"commits/" + commits[0].encode())
    changed = first.value.replace(b"number 0", b"number 9")
    lake.store.set(partition, b"commits/" + commits[0].encode(), changed)
    assert checked(lake).damages == [
        Damage("commit", commits[0], "the id does not match the record", [commits[0]], 1)
    ]
    lake.store.delete(partition, first.key)
    assert checked(lake).damages == [
        Damage("commit", commits[0], "missing parent commit", [commits[1]], 1),
        Damage("tag", "v1", f"its commit {commits[0]} is missing"),
    ]
    lake.store.set(partition, first.key, b"\xff")
    lake.store.set(partition, b"branches/dev", b"\xff")
    damages = checked(lake).damages
    assert [(each.what, each.name.partition(" ")[2]) for each in damages] == [
        ("record", f"commits/{commits[0]}"),
        ("commit", ""),
        ("record", "branches/dev"),
        ("tag", ""),
    ]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_forged_commit_of_lakefs_is_found(lake: Lake, *, swapped: bool) -> None:
    head = lake.engine.branches.get(lake.repository, MAIN).commit_id
    base = lake.engine.commits.get(lake.repository, head)
    parents = [base, base] if swapped else [base]
    record = pb.Commit(
        version=LAKEFS_SWAPPED_VERSION if swapped else LAKEFS_VERSION,
        committer="ann",
        message="from lakeFS",
        parents=[each.id for each in parents],
        nonce=b"the metarange over there",
    )

    def adopt(commit_id: str) -> bool:
        return lake.engine.commits.adopt(
            lake.repository,
            CommitID(commit_id),
            committer="ann",
            message="from lakeFS",
            metarange_id=base.metarange_id,
            parents=parents,
            metadata={},
            created_us=0,
            source_metarange_id="the metarange over there",
            swapped=swapped,
        )

    moved, odd = compute_id(record), CommitID("0" * 64)
    assert adopt(moved)
    assert not adopt(odd)
    report = checked(lake)
    assert (report.damages, report.unproved) == ([], 1)
    partition, key = lake.repository.partition, b"commits/" + moved.encode()
    stored = lake.store.get(partition, key)
    for field, forged in (
        (b"from lakeFS", b"FROM lakeFS"),
        (b"ann", b"bob"),
        (b"the metarange", b"\xff\xff\xff metarange"),
    ):
        lake.store.set(partition, key, stored.value.replace(field, forged))
        assert checked(lake).damages == [
            Damage("commit", moved, "the id does not match the record", [moved], 1)
        ]


def test_a_damaged_staged_record_is_found(lake: Lake) -> None:
    token = lake.engine.branches.get(lake.repository, MAIN).staging_token
    lake.store.set(token.encode(), b"key/broken", b"\xff")
    (damage,) = checked(lake).damages
    assert (damage.what, damage.name) == ("record", f"{token} key/broken")


def test_addresses_that_the_storage_cannot_read_are_found(lake: Lake) -> None:
    """In commits and in what is staged; as they were moved in from lakeFS once."""

    def stage(path: bytes, address: str) -> None:
        entry = new_entry(
            path, address, address_type=AddressType.FULL, size=1, checksum="", modified=0,
            content_type="", metadata={},
        )  # fmt: skip
        staging.put(lake.engine, REPOSITORY, MAIN, entry)

    lake.upload(b"good", "text")
    stage(b"bad", "local:///var/lakefs/x")
    stage(b"dots", "local://old/../x")
    stage(b"elsewhere", "s3://bucket/x")
    stage(b"fine", "local://old/x")
    token = lake.engine.branches.get(lake.repository, MAIN).staging_token
    problems = [each.problem for each in checked(lake).damages]
    assert [each.partition(": ")[0] for each in problems] == [
        "invalid address 'local:///var/lakefs/x'",
        "invalid address 'local://old/../x'",
        "invalid address 's3://bucket/x'",
    ]
    assert checked(lake).damages[0].name == f"{token} key/bad"
    request = CommitRequest(committer="ann", message="bad")
    commit = HeadChanges(lake.engine).commit(REPOSITORY, MAIN, request).commit
    (damage,) = checked(lake).damages
    assert (damage.what, damage.commits) == ("range", [commit.id])
    assert "entry 'bad' has the invalid address 'local:///var/lakefs/x': " in damage.problem
    assert damage.problem.endswith(", and 2 more such entries")


def test_addresses_that_conditional_writes_proposed_are_checked(lake: Lake) -> None:
    """The proposal of a writer that died, and the value beside it."""

    def value(address: str) -> bytes:
        return encode(
            new_entry(
                b"a", address, address_type=AddressType.FULL, size=1, checksum="", modified=0,
                content_type="", metadata={},
            )
        )  # fmt: skip

    branch = lake.engine.branches.get(lake.repository, MAIN)
    token, key = branch.staging_token.encode(), STAGED_PREFIX + b"a"
    beside = Item(key, value("s3://bucket/value"), branch.version)
    lake.store.set(token, key, propose(beside, value("s3://bucket/proposal"), branch.version))
    problems = [each.problem.partition(": ")[0] for each in checked(lake).damages]
    assert problems == [
        "invalid address 's3://bucket/value'",
        "invalid address 's3://bucket/proposal'",
    ]


@pytest.mark.usefixtures("commits")
def test_a_sample_reads_less(lake: Lake) -> None:
    report = checked(lake, sample=1)
    assert (report.sampled, report.metaranges) == (True, 1)
    assert report.ranges <= 1


@pytest.mark.usefixtures("commits")
@pytest.mark.parametrize("kind", ["ranges", "metaranges"])
def test_no_file_is_called_damaged_while_the_storage_does_not_answer(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    read = type(lake.block).read

    def fail(self: BlockStore, address: Address) -> bytes:
        if f"_lakebed/{kind}/" in str(address):
            raise StorageUnavailable("the network is cut")
        return read(self, address)

    monkeypatch.setattr(type(lake.block), "read", fail)
    with pytest.raises(StorageUnavailable, match="the network is cut"):
        checked(lake)


def test_a_repository_that_is_not_there_is_refused(lake: Lake) -> None:
    with pytest.raises(RepositoryNotFound):
        RepositoryCheck(lake.store, lake.block, lake.clock, "elsewhere")


@pytest.mark.usefixtures("commits")
def test_the_command_says_what_is_damaged_by_its_exit_code(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEBED_SERVER__BLOCKSTORE__LOCAL__ROOT", str(tmp_path / "objects"))
    command = ["fsck", "lakefs://lake", "--database", f"sqlite:///{tmp_path}/lake.db"]
    assert running.run(cli.app, command) == 0
    assert "3 commits, 3 metaranges, 2 ranges, 3 entries read; 0 damaged" in capsys.readouterr().out
    path = files(tmp_path, "ranges")[0]
    touched = holders(lake, path)
    path.unlink()
    assert running.run(cli.app, command) == 1
    printed = capsys.readouterr()
    assert f"range {path.stem}: " in printed.out
    assert [line for line in printed.out.splitlines() if line.startswith("  commit ")] == [
        f"  commit {commit}" for commit in touched
    ]
    assert printed.err == "lakebed: 1 damaged, see above\n"
    assert running.run(cli.app, [*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["damages"][0]["commits"] == touched


@pytest.mark.usefixtures("commits")
def test_heads_whose_data_is_gone_are_named(lake: Lake) -> None:
    """As after the restore of a database that is older than the last garbage collection."""
    gone = lake.catalog.objects.stat(REPOSITORY, "main", b"object-1").address
    lake.block.delete(gone)
    (damage,) = checked(lake).damages
    assert (damage.what, damage.name) == ("branch", "main")
    assert damage.problem == (
        f"the data of 1 of its objects is missing in the storage, such as 'object-1' at {gone}"
    )
    lake.block.delete(lake.catalog.objects.stat(REPOSITORY, "main", b"object-0").address)
    assert {(each.what, each.name) for each in checked(lake).damages} == {
        ("branch", "main"),
        ("tag", "v1"),
    }
    assert checked(lake, sample=10).damages == []


@pytest.mark.usefixtures("commits")
def test_purged_objects_are_missing_on_purpose(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake.clock, "sleep", lambda _seconds: None)
    query = PurgeQuery("path", b"object-0")
    lake.reclaim.purges.purge(REPOSITORY, query, reason="asked for", username="ada")
    assert checked(lake).damages == []
