"""Paths of objects: what garbage collection makes of listings and entries."""

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime, UniqueID
from lakebed.block import LIST_SCHEMA, MemorySettings, Namespace
from lakebed.engine.model import BranchID, Repository, RepositoryID
from lakebed.formats import AddressType
from lakebed.formats.object_paths import ObjectPath, partition_made_us
from lakebed.lake.settings import CatalogSettings
from lakebed.lake.uploads import Addresses
from lakebed.reclaim.collector.executors.read import entry_paths, stored_objects
from lakebed.reclaim.collector.rules import canonical_path, stored_object
from lakebed.reclaim.collector.storage import Storage

NAMESPACE = Namespace.parse("s3://bucket/lake")
REPOSITORY = Repository(
    id=RepositoryID("lake"),
    unique_id=UniqueID("ab12"),
    namespace=NAMESPACE,
    default_branch=BranchID("main"),
    created_us=0,
    read_only=False,
    metadata={},
)
STORAGE = Storage(MemorySettings(), NAMESPACE, "ab12")
GOOD = "repos/ab/branches/dev/fff9bf1e0bd6d4ff-00112233aabb/000640e1f4292b0000112233445566778899"

hexadecimal = st.text("0123456789abcdef", min_size=13, max_size=13)
good_paths = st.builds(
    lambda branch, made, issued: (
        f"repos/ab/branches/{branch}/fff{made}-00112233aabb/000{issued}{made}0123456"
    ),
    st.text("ab-_9", min_size=1, max_size=5),
    hexadecimal,
    hexadecimal,
)
paths = good_paths | st.sampled_from(
    [
        GOOD,
        GOOD + "\n",
        GOOD + "0",
        GOOD.upper(),
        GOOD.replace("/dev/", "/a/b/"),
        GOOD.replace("/fff9", "/0009"),
        GOOD.replace("repos/ab", "repos/ag"),
        GOOD.replace("branches", "branch"),
        f"x/{GOOD}",
        f"_lakebed/{GOOD}",
    ]
)


def listing(rows: list[tuple[str, int, int]]) -> pa.RecordBatch:
    columns = [
        pa.array([f"{NAMESPACE}{path}" for path, _, _ in rows], pa.string()),
        pa.array([size for _, size, _ in rows], pa.int64()),
        pa.array([mtime for _, _, mtime in rows], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        pa.array([""] * len(rows), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LIST_SCHEMA)


class SteppingClock(ThreadRuntime):
    """A clock that a test sets."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return self.seconds


@given(st.lists(st.tuples(paths, st.integers(0, 9), st.integers(0, 2 * 10**15)), max_size=8))
@example([(GOOD, 1, 5)])
def test_listings_are_read_as_the_rules_say(rows: list[tuple[str, int, int]]) -> None:
    expected = [stored_object(path, size=size, mtime_us=mtime) for path, size, mtime in rows]
    found = stored_objects(listing(rows), NAMESPACE).to_pylist()
    assert found == [
        {"path": one.path, "size": one.size, "born_us": one.born_us, "made_us": one.made_us}
        for one in expected
        if one is not None
    ]


@given(st.floats(0, 4e9), st.floats(0, 1e6), st.integers(1, 4), st.text("ab-_9Z", min_size=1))
def test_issued_paths_are_recognized(start: float, step: float, count: int, branch: str) -> None:
    """With the same times, whatever the clock says, and by all three ways to read a path."""
    clock = SteppingClock(start)
    addresses = Addresses(clock, CatalogSettings())
    issued = []
    for _ in range(count):
        issued.append(addresses.issue(REPOSITORY, BranchID(branch)).path)
        clock.seconds += step
    rows = [(str(path), 1, 0) for path in issued]
    assert stored_objects(listing(rows), NAMESPACE).to_pylist() == [
        {"path": str(path), "size": 1, "born_us": path.issued_us, "made_us": path.made_us}
        for path in issued
    ]
    for number, path in enumerate(issued):
        assert ObjectPath.parse(str(path)) == path
        assert path.issued_us == pytest.approx((start + number * step) * 1e6, abs=2)
        assert path.made_us <= path.issued_us
        assert partition_made_us(path.partition) == path.made_us


def test_one_object_has_one_path() -> None:
    assert canonical_path("repos/x", AddressType.RELATIVE, NAMESPACE) == "repos/x"
    assert canonical_path("s3://bucket/lake/repos/x", AddressType.FULL, NAMESPACE) == "repos/x"
    assert canonical_path("s3://bucket/lake-2/repos/x", AddressType.FULL, NAMESPACE) is None


def test_an_unreadable_address_keeps_the_object_whose_path_it_ends_with(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert canonical_path("local:///mnt/x", AddressType.FULL, NAMESPACE) is None
    assert (
        "an entry has an unreadable address (see `lakebed fsck`): 'local:///mnt/x'" in caplog.text
    )
    path = GOOD
    for text in (f"S4://bucket/lake/{path}", path, f"local:///mnt/lake/{path}"):
        assert canonical_path(text, AddressType.FULL, NAMESPACE) == path
    for text in (f"nonsense/{path}/more", f"nonsense/{path}\n", f"nonsense/x{path[1:]}"):
        assert canonical_path(text, AddressType.FULL, NAMESPACE) is None


def test_entries_of_both_kinds() -> None:
    entries = pa.table(
        {
            "address": [
                "repos/a",
                "s3://bucket/lake/repos/b",
                "S3://bucket/lake/repos/c",
                "s3://x/y",
            ],
            "address_type": pa.array([0, 1, 1, 1], pa.int8()),
        }
    )
    assert entry_paths(entries, STORAGE).to_pylist() == ["repos/a", "repos/b", "repos/c"]
