import pytest

from lakebed.block import Between, ByteRange, FromOffset, RangeNotSatisfiable, Suffix
from lakebed.block.ranges import resolve


@pytest.mark.parametrize(
    ("byte_range", "size", "message"),
    [
        (FromOffset(99), 5, "an object of 5 bytes does not have bytes from 99 on"),
        (Between(5, 7), 5, "an object of 5 bytes does not have bytes 5 to 6"),
        (Suffix(3), 0, "an object of 0 bytes does not have the last 3 bytes"),
    ],
)
def test_a_range_outside_is_explained_in_words(
    byte_range: ByteRange, size: int, message: str
) -> None:
    with pytest.raises(RangeNotSatisfiable) as caught:
        resolve(byte_range, size)
    assert str(caught.value) == message
