"""Table files of lakeFS: what was written is read, and damage is said, wherever it is."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.clients.migrate.errors import DamagedTable
from lakebed.clients.migrate.tables import Table
from tests.kit.lakefs_tables import table

ROWS = [(b"data/%06d" % number, b"value %d" % number * 9) for number in range(3000)]

# By hand, from the description of the format: one row "k" -> "v" in one block that is not
# compressed, the properties without any, the metaindex, the index, the footer.
BY_HAND = bytes.fromhex(
    "00 09 01 6b 01 00 00 00 00 00 00 00 76 00 00 00 00 01 00 00 00 00".replace(" ", "")
)


def read(data: bytes) -> list[tuple[bytes, bytes]]:
    return [row for keys, values in Table(data, "t").rows() for row in zip(keys, values)]  # noqa: B905


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("blocks_per_index", [None, 1, 7])
def test_what_was_written_is_read(blocks_per_index: int | None, *, compressed: bool) -> None:
    data = table(ROWS, blocks_per_index=blocks_per_index, compressed=compressed)
    assert read(data) == ROWS


@given(
    rows=st.dictionaries(st.binary(max_size=300), st.binary(max_size=300), max_size=60),
    per_block=st.integers(1, 20),
    restarts=st.integers(1, 20),
)
def test_any_rows_are_read(rows: dict[bytes, bytes], per_block: int, restarts: int) -> None:
    listed = sorted(rows.items())
    assert read(table(listed, rows_per_block=per_block, restart_interval=restarts)) == listed


def test_the_first_block_is_as_the_format_says() -> None:
    data = table([(b"k", b"v")], compressed=False)
    assert data.startswith(BY_HAND)
    assert read(data) == [(b"k", b"v")]


@given(at=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_out_or_does_no_harm(at: int, bit: int) -> None:
    data = bytearray(table(ROWS[:200], blocks_per_index=2))
    at %= len(data)
    data[at] ^= 1 << bit
    with suppress(DamagedTable):
        assert read(bytes(data)) == ROWS[:200]


@pytest.mark.parametrize("length", [0, 1, 52, 53, 1000])
def test_a_table_that_was_cut_is_damaged(length: int) -> None:
    with pytest.raises(DamagedTable):
        read(table(ROWS[:100])[:length])
    with pytest.raises(DamagedTable):
        read(table(ROWS[:100])[-length:] if length else b"")
