import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.server.http.bodies import (
    CHUNK_BYTES,
    Body,
    BodyCut,
    BodyTooLarge,
    BodyTooSlow,
    LengthRequired,
    MalformedBody,
)
from tests.kit.bodies import Input, pieces_of


def body_of(pieces: list[bytes], length: int | str | None, seconds_max: float = 60.0) -> Body:
    environ = {"wsgi.input": Input(pieces)}
    if length is not None:
        environ["CONTENT_LENGTH"] = str(length)  # type: ignore[assignment]
    return Body(environ, seconds_max=seconds_max)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_a_body_is_the_same_however_it_comes_in(content: bytes, cuts: list[int]) -> None:
    body = body_of(pieces_of(content, cuts), len(content))
    assert b"".join(body.chunks()) == content
    assert body_of(pieces_of(content, cuts), len(content)).read(200) == content


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_body_cut_at_any_byte_is_refused(content: bytes, data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(BodyCut, match=f"after {kept} of {len(content)} bytes"):
        list(body_of([content[:kept]], len(content)).chunks())
    with pytest.raises(BodyCut):
        body_of([content[:kept]], len(content)).read(1000)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_what_follows_the_announced_length_is_not_part_of_the_body(
    content: bytes, more: bytes
) -> None:
    assert b"".join(body_of([content + more], len(content)).chunks()) == content


def chunked(content: bytes, size: int = 100_000) -> Body:
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    environ = {"wsgi.input": Input(pieces), "HTTP_TRANSFER_ENCODING": "chunked"}
    return Body(environ, seconds_max=60)


def test_a_body_in_chunks_needs_no_length() -> None:
    assert b"".join(chunked(b"abc").chunks()) == b"abc"
    assert chunked(b"abc").read(10) == b"abc"
    assert chunked(b"").read(10) == b""
    large = b"x" * 300_000
    assert chunked(large).read(len(large)) == large


def test_a_body_in_chunks_is_read_no_further_than_it_may_be_long() -> None:
    for size in (11, 70_000, 300_000):
        body = chunked(b"x" * 10 * size, size)
        with pytest.raises(BodyTooLarge):
            body.read(size - 1)
        assert body.received == size


def test_an_upload_without_a_length_that_is_not_in_chunks_is_refused() -> None:
    with pytest.raises(LengthRequired):
        body_of([], None).chunks()


def test_a_request_without_a_body_has_an_empty_one() -> None:
    assert body_of([], None).read(10) == b""
    assert body_of([], "").read(10) == b""
    assert list(body_of([], 0).chunks()) == []


def test_a_small_body_is_refused_unread_when_it_is_too_large() -> None:
    pieces = [b"0123456789"]
    with pytest.raises(BodyTooLarge, match="9 bytes"):
        body_of(pieces, 10).read(9)
    assert pieces == [b"0123456789"]


@pytest.mark.parametrize(
    "length", ["-1", "+3", "3, 3", "0x10", "٣", "3.0", "1e3", "9" * 19, "9" * 5000]
)
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    with pytest.raises(MalformedBody) as caught:
        body_of([b"abc"], length)
    assert len(str(caught.value)) < 200


def test_chunks_are_bounded() -> None:
    source = Input([b"x" * (3 * CHUNK_BYTES)])
    body = Body({"wsgi.input": source, "CONTENT_LENGTH": str(3 * CHUNK_BYTES)}, seconds_max=60)
    assert [len(chunk) for chunk in body.chunks()] == [CHUNK_BYTES] * 3
    assert source.largest == CHUNK_BYTES


def test_a_body_that_takes_too_long_is_refused() -> None:
    ticks: Iterator[float] = iter([0.0, 0.0, 5.0, 5.0, 11.0])
    environ = {"wsgi.input": Input([b"a", b"b", b"c"]), "CONTENT_LENGTH": "3"}
    chunks = Body(environ, seconds_max=10.0, clock=ticks.__next__).chunks()
    assert next(chunks) == b"a"
    with pytest.raises(BodyTooSlow, match="10 seconds"):
        next(chunks)


def test_any_file_object_will_do() -> None:
    environ = {"wsgi.input": io.BytesIO(b"abc"), "CONTENT_LENGTH": "3"}
    assert list(Body(environ, seconds_max=1).chunks()) == [b"abc"]


class SlowInput:
    """Hands over pieces, each of which it takes some time to get."""

    def __init__(self, *pieces: tuple[float, int]) -> None:
        self._pieces = list(pieces)
        self.now = 0.0

    def read(self, _size: int) -> bytes:
        seconds, length = self._pieces.pop(0) if self._pieces else (0.0, 0)
        self.now += seconds
        return bytes(length)


def receive(rate_min: float, *pieces: tuple[float, int]) -> int:
    source = SlowInput(*pieces)
    environ = {"wsgi.input": source, "CONTENT_LENGTH": str(sum(length for _, length in pieces))}
    body = Body(environ, seconds_max=1e6, rate_min=rate_min, clock=lambda: source.now)
    return sum(map(len, body.chunks()))


@pytest.mark.parametrize(
    "pieces",
    [
        [(1.0, 1024)] * 1000,  # a bad link, for a long time
        [(59.0, 1), (1.0, 1024), (0.0, 60 << 10), (59.0, 1)],  # long pauses, and work in between
        [(0.5, 1)] * 100,  # a small body, byte by byte
        [(0.001, 1 << 18)] * 100,
    ],
)
def test_a_client_that_is_slow_but_honest_passes(pieces: list[tuple[float, int]]) -> None:
    assert receive(1024, *pieces) == sum(length for _, length in pieces)


@pytest.mark.parametrize(
    "pieces",
    [
        [(1.0, 1)] * 1000,
        [(0.0, 1 << 30), *([(1.0, 1)] * 1000)],  # what came before does not count for ever
        [(61.0, 10)],
    ],
)
def test_a_body_that_trickles_is_refused(pieces: list[tuple[float, int]]) -> None:
    with pytest.raises(BodyTooSlow, match="send at least 1024 bytes/s"):
        receive(1024, *pieces)
    assert receive(0, *pieces) > 0


def test_the_time_that_the_server_takes_does_not_count() -> None:
    source = SlowInput(*[(0.0, 1)] * 100)
    environ = {"wsgi.input": source, "CONTENT_LENGTH": "100"}
    body = Body(environ, seconds_max=1e6, rate_min=1024, clock=lambda: source.now)
    for _ in body.chunks():
        source.now += 100  # a slow storage
    assert body.received == 100
