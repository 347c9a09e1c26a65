"""Request bodies: complete, or an error, wherever they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.httpd.bodies import BodyCutError, BodyOfLength, ChunkedBody, FramingError, StallError
from tests.kit.bodies import pieces_of

CHUNKED = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
CONTENT = b"abc0123456789"


class Wire:
    """A connection that delivers some pieces, then ends or stalls."""

    stall_seconds = 7.0

    def __init__(self, pieces: list[bytes], *, stops: bool = False) -> None:
        self.pieces = [piece for piece in pieces if piece]
        self._stops = stops
        self.sent: list[bytes] = []

    def receive(self, size: int) -> bytes:
        if not self.pieces:
            if self._stops:
                raise StallError
            return b""
        piece = self.pieces.pop(0)
        if piece[size:]:
            self.pieces.insert(0, piece[size:])
        return piece[:size]

    def send(self, data: bytes) -> None:
        self.sent.append(data)


def read_all(body: ChunkedBody | BodyOfLength, size: int) -> bytes:
    return b"".join(iter(lambda: body.read(size), b""))


@given(st.lists(st.integers(0, len(CHUNKED))), st.integers(1, 20), st.booleans())
def test_chunks_are_the_same_however_they_come_in(
    cuts: list[int], size: int, is_buffered: bool
) -> None:
    pieces = pieces_of(CHUNKED + b"GET /next", cuts)
    buffer = pieces.pop(0) if is_buffered else b""
    wire = Wire(pieces)
    body = ChunkedBody(wire, buffer)
    assert read_all(body, size) == CONTENT
    assert body.is_at_end
    assert b"".join([body.buffer, *wire.pieces]) == b"GET /next"


@pytest.mark.parametrize("cut", range(len(CHUNKED)))
def test_chunks_that_are_cut_anywhere_are_refused(cut: int) -> None:
    for stops in (False, True):
        for size in (1, 100, -1):
            body = ChunkedBody(Wire([CHUNKED[:cut]], stops=stops), b"")
            with pytest.raises(BodyCutError):
                read_all(body, size)
            assert not body.is_at_end


@pytest.mark.parametrize("cut", range(3))
def test_a_body_that_is_shorter_than_announced_is_refused(cut: int) -> None:
    body = BodyOfLength(Wire([b"abc"[:cut]]), b"", 3)
    with pytest.raises(BodyCutError, match=f"after {cut} of 3 bytes"):
        read_all(body, 100)
    assert not body.is_at_end


def test_a_body_ends_at_its_length() -> None:
    body = BodyOfLength(Wire([b"de"]), b"abc", 5)
    assert read_all(body, 2) == b"abcde"
    body = BodyOfLength(Wire([]), b"abcGET /next", 3)
    assert (body.read(), body.is_at_end, body.buffer) == (b"abc", True, b"GET /next")
    assert BodyOfLength(Wire([]), b"GET /next", 0).is_at_end


@pytest.mark.parametrize(
    "wire",
    [
        b"\r\n",
        b"x\r\n",
        b"-1\r\n",
        b"+1\r\na\r\n0\r\n\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b"1_0\r\n",
        b" 1\r\na\r\n0\r\n\r\n",
        b"1\na\n0\n\n\r\n",
        b"1\r\nab\r\n0\r\n\r\n",
        b"1\r\na0\r\n\r\n",
        b"1\r\na\n0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"1;" + b"x" * 300 + b"\r\na\r\n0\r\n\r\n",
        b"1" * 300,
        b"0\r\n" + b"T: x\r\n" * 3000 + b"\r\n",
        b"0\r\nT: " + b"x" * 9000,
    ],
)
def test_chunks_that_are_not_sound_are_refused(wire: bytes) -> None:
    with pytest.raises(FramingError):
        read_all(ChunkedBody(Wire([wire]), b""), 100)


def test_a_client_is_told_to_send_its_body_when_that_is_read_and_not_before() -> None:
    wire = Wire([b"abc"])
    body = BodyOfLength(wire, b"", 3, expects_continue=True)
    assert wire.sent == []
    assert read_all(body, 2) == b"abc"
    assert wire.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    has_begun = Wire([b"c"])
    assert BodyOfLength(has_begun, b"ab", 3, expects_continue=True).read() == b"abc"
    assert has_begun.sent == []


def test_a_client_that_asks_whether_to_send_nothing_gets_a_word_too() -> None:
    wire = Wire([])
    assert BodyOfLength(wire, b"", 0, expects_continue=True).is_at_end
    assert wire.sent == [b"HTTP/1.1 100 Continue\r\n\r\n"]


@pytest.mark.parametrize(
    "wire",
    [
        b"3;\nx\r\nabc\r\n0\r\n\r\n",
        b"3;\rx\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabc\r\n0\r\nA: b\n\nGET / HTTP/1.1\r\n\r\n",
    ],
)
def test_lines_between_chunks_that_others_may_end_elsewhere_are_refused(wire: bytes) -> None:
    with pytest.raises(FramingError):
        read_all(ChunkedBody(Wire([wire]), b""), 100)
