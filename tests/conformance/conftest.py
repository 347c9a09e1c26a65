"""Which tests of the drivers `make test` runs: all of the first ones, a few of the others.

Memory, SQLite, PostgreSQL, local disks and S3 (SeaweedFS) run the whole suite. Of each other driver
`make test` shows that it opens its database or storage and keeps the main promises.
"""

from pathlib import Path
from typing import Final

import pytest

from lakebed.testing.conformance.block import BlockConformance
from lakebed.testing.conformance.kv import StoreConformance

FIRST: Final = {
    f"test_{driver}"
    for driver in (
        *("kv_memory", "kv_sqlite", "kv_postgresql"),
        *("block_memory", "block_local", "block_s3_seaweedfs"),
    )
}
MAIN_TESTS: Final = {
    *("test_get_returns_the_value_set", "test_set_if_absent", "test_set_if_unchanged"),
    *("test_delete_if_unchanged", "test_scan_is_in_byte_order", "test_one_of_many_creates_wins"),
    *(
        "test_reading_returns_the_bytes_written",
        "test_create_only_if_absent",
        "test_parts_are_joined_by_number",
    ),
    *("test_byte_ranges_agree_with_slices", "test_listings_tell_size_time_and_etag"),
}
_HERE: Final = Path(__file__).parent

_missing = [
    name
    for name in MAIN_TESTS
    if not hasattr(StoreConformance, name) and not hasattr(BlockConformance, name)
]
assert not _missing, f"no conformance suite has {_missing}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_of_driver = item.path.parent == _HERE and item.path.stem not in FIRST
        if is_of_driver and getattr(item, "originalname", "") not in MAIN_TESTS:
            item.add_marker(pytest.mark.extended)
