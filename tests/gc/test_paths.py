"""Paths of objects: the same as the server makes them, and nothing else."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.block import LIST_SCHEMA, InvalidAddress, Namespace
from lakebed.catalog.addresses import ObjectAddress, partition_made
from lakebed.formats import AddressType
from lakebed.gc.executors.list import stored_objects
from lakebed.gc.executors.read import entry_paths
from lakebed.gc.paths import ObjectPath, canonical
from lakebed.gc.rules import stored_object

NAMESPACE = Namespace.parse("s3://bucket/lake")
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


@given(st.lists(st.tuples(paths, st.integers(0, 9), st.integers(0, 2 * 10**15)), max_size=8))
@example([(GOOD, 1, 5)])
def test_listings_are_read_as_the_rules_say(rows: list[tuple[str, int, int]]) -> None:
    columns = [
        pa.array([f"{NAMESPACE}{path}" for path, _, _ in rows], pa.string()),
        pa.array([size for _, size, _ in rows], pa.int64()),
        pa.array([mtime for _, _, mtime in rows], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
    ]
    listed = pa.RecordBatch.from_arrays(columns, schema=LIST_SCHEMA)
    expected = [stored_object(path, size=size, mtime_us=mtime) for path, size, mtime in rows]
    found = stored_objects(listed, NAMESPACE).to_pylist()
    assert found == [
        {"path": one.path, "size": one.size, "born_us": one.born_us, "made_us": one.made_us}
        for one in expected
        if one is not None
    ]


@given(good_paths)
@example(GOOD)
def test_paths_are_what_the_server_issues(path: str) -> None:
    mine, theirs = ObjectPath.parse(path), ObjectAddress.parse(path)
    assert mine is not None
    assert theirs is not None
    assert (mine.repository_uid, mine.branch) == (theirs.repository_uid, theirs.branch)
    assert mine.issued_us == pytest.approx(theirs.issued * 1e6, abs=1)
    made = partition_made(theirs.partition)
    assert made is not None
    assert mine.made_us == pytest.approx(made * 1e6, rel=1e-9, abs=1)


def test_one_object_has_one_path() -> None:
    assert canonical("repos/x", AddressType.RELATIVE, NAMESPACE) == "repos/x"
    assert canonical("s3://bucket/lake/repos/x", AddressType.FULL, NAMESPACE) == "repos/x"
    assert canonical("s3://bucket/lake-2/repos/x", AddressType.FULL, NAMESPACE) is None
    with pytest.raises(InvalidAddress, match="an entry names"):
        canonical("nonsense", AddressType.FULL, NAMESPACE)


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
    assert entry_paths(entries, NAMESPACE).to_pylist() == ["repos/a", "repos/b", "repos/c"]


def test_an_issue_time_is_the_server_s() -> None:
    parts = ObjectPath.parse(GOOD)
    assert parts is not None
    assert datetime.fromtimestamp(parts.issued_us / 1e6, UTC).year == 2025
