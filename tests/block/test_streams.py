from itertools import count

import pytest

from lakebed.block import InvalidArgument
from lakebed.block.streams import exactly


@pytest.mark.parametrize("chunks", [[b"abc"], [b"", b"a", b"bc", b""]])
def test_a_stream_of_the_size_announced_goes_through(chunks: list[bytes]) -> None:
    assert list(exactly(3, chunks)) == chunks


def test_a_stream_that_goes_on_is_cut_at_once() -> None:
    numbers = count()
    with pytest.raises(InvalidArgument, match="more than the 5 bytes"):
        list(exactly(5, (b"%02d" % number for number in numbers)))
    assert next(numbers) == 3


def test_a_stream_that_ends_early_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="ended 2 bytes before"):
        list(exactly(5, [b"abc"]))
