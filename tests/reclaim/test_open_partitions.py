"""Which partitions a run takes for closed: never one that may still get objects."""

from typing import Final

import pytest

from lakebed.formats.gc_files import GCManifest, GCRun, GCRunID
from lakebed.formats.object_paths import PARTITION_RANDOM_BYTES, new_partition
from lakebed.reclaim.collector.executors.read import _open
from lakebed.reclaim.collector.job import CollectorOptions, _observation_times

BEGAN_US: Final = 10_000_000_000
CUTOFF_US: Final = 9_000_000_000
OPEN_US: Final = 3_000_000_000

MANIFEST: Final = GCManifest(
    run=GCRun(
        run_id=GCRunID("run"),
        installation_id="installation",
        repository="lake",
        unique_id="uid",
        adopted_unique_ids=(),
        storage_namespace="mem://lake/",
        began_us=BEGAN_US,
        cutoff_us=CUTOFF_US,
        gap_us=1,
        partition_open_us=OPEN_US,
        with_uploads=True,
    ),
    ended_us=BEGAN_US + 1,
    files=(),
)


@pytest.mark.parametrize(
    ("options", "closed_before_us"),
    [
        (CollectorOptions(), CUTOFF_US - OPEN_US),
        (CollectorOptions(min_age_seconds=2000), BEGAN_US - 2_000_000_000 - OPEN_US),
        (CollectorOptions(assume_quiet=True), CUTOFF_US - OPEN_US),
    ],
)
def test_a_partition_is_closed_when_all_it_may_get_is_old_enough_to_be_judged(
    options: CollectorOptions, closed_before_us: int
) -> None:
    assert _observation_times(MANIFEST, options).closed_before_us == closed_before_us


def test_partitions_made_from_that_time_on_are_listed() -> None:
    random_bytes = bytes(PARTITION_RANDOM_BYTES)
    names = [new_partition(made_us, random_bytes) for made_us in (1002, 1001, 1000, 999, 998)]
    folders = [names[0], "not a partition", *names[1:]]
    assert list(_open(folders, 1000)) == names[:3]
