import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import lakebed
from lakebed.engine.records_pb2 import Branch, Tag
from lakebed.kv import (
    ABSENT,
    CorruptRecord,
    KeyNotFound,
    PredicateFailed,
    StoreUnavailable,
    open_store,
)
from lakebed.kv.records import RecordKind, Records

BRANCHES = RecordKind(b"branches/", Branch)
PARTITION = b"repo-uid"


@pytest.fixture
def branches() -> Records[Branch]:
    store = open_store("memory://")
    tags = Records(store, RecordKind(b"tags/", Tag), PARTITION)
    tags.set(b"v1", Tag(commit_id="tagged"))
    Records(store, RecordKind(b"a/", Tag), PARTITION).set(b"z", Tag())
    return Records(store, BRANCHES, PARTITION)


def test_a_record_comes_back(branches: Records[Branch]) -> None:
    version = branches.set(b"main", Branch(commit_id="c1", sealed_tokens=["t2", "t1"]))
    record = branches.get(b"main")
    assert record.name == b"main"
    assert record.message == Branch(commit_id="c1", sealed_tokens=["t2", "t1"])
    assert record.predicate == version


def test_compare_and_swap(branches: Records[Branch]) -> None:
    branches.set_if(b"main", Branch(commit_id="c1"), ABSENT)
    record = branches.get(b"main")
    record.message.commit_id = "c2"
    branches.set_if(b"main", record.message, record.predicate)
    with pytest.raises(PredicateFailed):
        branches.set_if(b"main", record.message, record.predicate)
    with pytest.raises(PredicateFailed):
        branches.delete_if(b"main", record.predicate)
    current = branches.get(b"main")
    assert current.message.commit_id == "c2"
    branches.delete_if(b"main", current.predicate)
    assert branches.find(b"main") is None
    branches.delete(b"main")
    with pytest.raises(KeyNotFound):
        branches.get(b"main")


def test_a_scan_stays_within_its_kind_and_prefix(branches: Records[Branch]) -> None:
    for name in (b"dev", b"dev-1", b"dev/2", b"main"):
        branches.set(name, Branch(commit_id=name.decode()))
    assert [r.name for r in branches.scan()] == [b"dev", b"dev-1", b"dev/2", b"main"]
    assert [r.name for r in branches.scan(prefix=b"dev-")] == [b"dev-1"]
    assert [r.name for r in branches.scan(start=b"dev/")] == [b"dev/2", b"main"]
    assert [r.name for r in branches.scan(prefix=b"dev", start=b"dev-1")] == [b"dev-1", b"dev/2"]
    assert [r.name for r in branches.scan(prefix=b"dev", start=b"a", limit=2)] == [b"dev", b"dev-1"]
    assert list(branches.scan(prefix=b"dev", start=b"main")) == []


def test_a_damaged_record_is_named() -> None:
    store = open_store("memory://")
    store.set(PARTITION, b"branches/main", b"\xff\xff\xff")
    with pytest.raises(
        CorruptRecord, match=r"'branches/main' in partition .* is not a valid Branch"
    ):
        Records(store, BRANCHES, PARTITION).get(b"main")


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "auth.records",
        "engine.records",
        "lake.records",
        "lake.hooks.records",
        "clients.migrate.lakefs",
    ],
)
def test_the_generated_code_is_that_of_the_proto_file(module: str, tmp_path: Path) -> None:
    generated = Path(import_module(f"lakebed.{module}_pb2").__file__ or "")
    source = generated.with_name(f"{module.rpartition('.')[2]}.proto")
    root = Path(lakebed.__file__).parents[1]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={root}"]
    subprocess.run([*command, f"--python_out={tmp_path}", str(source)], check=True)
    made = tmp_path / generated.relative_to(root)
    assert _described(made) == _described(generated), "run `make proto`"


def _described(generated: Path) -> str:
    """Return the line that holds all messages; the lines around it change with the compiler."""
    (line,) = re.findall(r"^DESCRIPTOR = .*$", generated.read_text(), re.MULTILINE)
    return str(line)


def test_a_change_edits_what_is_stored(branches: Records[Branch]) -> None:
    def seal(branch: Branch) -> None:
        branch.sealed_tokens.append("t")

    assert branches.change(b"main", seal).message == Branch(sealed_tokens=["t"])
    first = branches.change(b"main", seal)
    assert branches.get(b"main") == first
    assert list(first.message.sealed_tokens) == ["t", "t"]
    branches.change(b"main", seal, predicate=first.predicate)
    for old in (first.predicate, ABSENT):
        with pytest.raises(PredicateFailed):
            branches.change(b"main", seal, predicate=old)
    assert branches.change(b"new", seal, predicate=ABSENT).message == Branch(sealed_tokens=["t"])


def test_a_change_meets_others(branches: Records[Branch]) -> None:
    left = 3

    def seal_late(branch: Branch) -> None:
        nonlocal left
        if left:
            left -= 1
            branches.set(b"main", Branch(sealed_tokens=["other"] * (3 - left)))
        branch.sealed_tokens.append("ours")

    changed = branches.change(b"main", seal_late)
    assert list(changed.message.sealed_tokens) == ["other", "other", "other", "ours"]
    left = 1000
    with pytest.raises(
        StoreUnavailable, match="conflicts with other writers of key 'branches/main'"
    ):
        branches.change(b"main", seal_late)
