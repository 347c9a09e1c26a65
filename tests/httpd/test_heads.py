"""Request heads: their environments, and refused heads."""

from wsgiref.types import WSGIEnvironment

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.httpd.heads import HEADERS_MAX, BadHeadError, Head, HeadReader
from tests.kit.bodies import pieces_of

BYTES_MAX = 8192


def head_of(*pieces: bytes) -> tuple[Head, bytes]:
    reader = HeadReader({}, BYTES_MAX)
    for number, piece in enumerate(pieces):
        rest = reader.feed(piece)
        if rest is not None:
            return reader.finish(), rest + b"".join(pieces[number + 1 :])
    raise AssertionError("the head is not whole")


def get(*headers: bytes, line: bytes = b"GET /a HTTP/1.1") -> bytes:
    return b"\r\n".join([line, b"Host: x", *headers, b"", b""])


def status_of(wire: bytes) -> int:
    with pytest.raises(BadHeadError) as caught:
        head_of(wire)
    return caught.value.status


@given(st.lists(st.integers(0, 60)))
def test_a_head_is_the_same_however_it_comes_in(cuts: list[int]) -> None:
    wire = get(b"A: b c \t", b"Content-Length: 5") + b"bodyGET /next"
    head, rest = head_of(*pieces_of(wire, cuts))
    assert (head.environ["HTTP_A"], head.length, rest) == ("b c", 5, b"bodyGET /next")


def environ_of(*headers: bytes, line: bytes = b"GET /a HTTP/1.1") -> WSGIEnvironment:
    return head_of(get(*headers, line=line))[0].environ


def test_a_target_is_decoded_as_wsgi_wants_it() -> None:
    environ = environ_of(line=b"PUT /a%20b/%C3%BC%2F//../c?q=%20&r HTTP/1.1")
    assert environ["PATH_INFO"] == "/a b/Ã¼///../c"
    assert environ["QUERY_STRING"] == "q=%20&r"
    assert environ["REQUEST_METHOD"] == "PUT"
    assert environ["SERVER_PROTOCOL"] == "HTTP/1.1"


def test_headers_are_bytes_and_come_once() -> None:
    environ = environ_of(
        b"Content-Type: text/plain", b"X-Meta-Y: " + "ü".encode(), b"A: 1", b"a: 2"
    )
    assert environ["CONTENT_TYPE"] == "text/plain"
    assert environ["HTTP_X_META_Y"].encode("latin-1").decode() == "ü"
    assert environ["HTTP_A"] == "1,2"
    assert environ_of(b"Cookie: a=1", b"Cookie: b=2")["HTTP_COOKIE"] == "a=1; b=2"


def test_the_host_of_a_whole_url_counts_instead_of_the_header() -> None:
    environ = environ_of(line=b"GET http://other:80/p?q HTTP/1.1")
    assert (environ["HTTP_HOST"], environ["PATH_INFO"]) == ("other:80", "/p")
    assert environ_of(line=b"GET http://other HTTP/1.1")["PATH_INFO"] == "/"


@pytest.mark.parametrize(
    ("wire", "keeps_alive"),
    [
        (get(), True),
        (get(b"Connection: close"), False),
        (get(b"Connection: Keep-Alive"), True),
        (get(line=b"GET / HTTP/1.0"), False),
        (get(b"Connection: keep-alive", line=b"GET / HTTP/1.0"), True),
        (get(b"Connection: keep-alive, close", line=b"GET / HTTP/1.0"), False),
        (get(b"Connection: Upgrade", b"Upgrade: h2c"), True),
    ],
)
def test_a_connection_is_kept_as_the_client_wants(wire: bytes, keeps_alive: bool) -> None:
    assert head_of(wire)[0].keeps_alive is keeps_alive


def test_how_a_body_comes_is_known_from_the_head() -> None:
    assert head_of(get())[0].length == 0
    assert head_of(get(b"Content-Length: 07"))[0].length == 7
    assert head_of(get(b"Transfer-Encoding: Chunked"))[0].length is None
    assert head_of(get(b"Expect: 100-Continue"))[0].expects_continue
    assert not head_of(get(b"Expect: 100-continue", line=b"GET / HTTP/1.0"))[0].expects_continue


@pytest.mark.parametrize(
    "wire",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        get(line=b"GET  / HTTP/1.1"),
        get(line=b"GET /  HTTP/1.1"),
        get(line=b"GET  /" + b"a" * 99 + b" HTTP/1.1"),
        get(b"Host: y"),
        get(b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        get(b"Transfer-Encoding: chunked", b"Content-Length: 3"),
        get(b"Content-Length: 3", b"Content-Length: 3"),
        get(b"Content_Length: 3"),
        get(b"Transfer_Encoding: chunked"),
        get(b"Content-Length: 3", b"Content_Length: 4"),
        get(b"Content_Length: 3", b"Transfer-Encoding: chunked"),
        get(b"Content-Length: 3,3"),
        get(b"Content-Length: 0x3"),
        get(b"Content-Length:"),
        get(b"Transfer-Encoding: gzip, chunked"),
        get(b"Transfer-Encoding: chunked, chunked"),
        get(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        get(b"Transfer-Encoding: chunked", b"Transfer_Encoding: identity"),
        get(b"Transfer-Encoding: identity"),
        get(b"Transfer-Encoding:"),
        get(b"Transfer-Encoding: chunked", line=b"PUT / HTTP/1.0"),
        get(b"X-Forwarded-For: 1.2.3.4", b"X_Forwarded_For: 5.6.7.8"),
        get(b"A: b", b" c"),
        get(b"A : b"),
        get(b"A: b\x00c"),
        get(b"A: b\rc"),
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        get(line=b"CONNECT x:1 HTTP/1.1"),
        get(line=b"OPTIONS * HTTP/1.1"),
        get(line=b"GET /a#b HTTP/1.1"),
        get(line=b"GET http://user@x/ HTTP/1.1"),
        get(line=b"GET ftp://x/ HTTP/1.1"),
        get(line=b"GET /a b HTTP/1.1"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_a_head_that_could_be_read_in_two_ways_is_refused(wire: bytes) -> None:
    assert status_of(wire) == 400


def test_a_head_that_is_too_large_is_refused() -> None:
    assert status_of(get(b"A: " + b"a" * BYTES_MAX)) == 431
    assert status_of(get(*[b"A: b"] * HEADERS_MAX)) == 431
    assert status_of(b"GET /" + b"a" * BYTES_MAX + b" HTTP/1.1\r\n\r\n") == 414
    assert status_of(b"\r\n" * BYTES_MAX) in {414, 431}


def test_headers_are_counted_as_they_come() -> None:
    reader = HeadReader({}, BYTES_MAX)
    with pytest.raises(BadHeadError) as caught:
        reader.feed(get(*(b"a%d:" % number for number in range(HEADERS_MAX + 1)))[:-2])
    assert caught.value.status == 431


# Repeated headers

ANY_BYTE = st.binary(min_size=1, max_size=3)
LINES = st.tuples(
    st.sampled_from([b"GET", b"HEAD", b"PUT", b"POST", b"DELETE", b"PATCH", b"get", b"CONNECT"]),
    st.one_of(
        st.lists(st.integers(0x20, 0x7F), max_size=6).map(lambda them: b"/" + bytes(them)),
        ANY_BYTE.map(lambda them: b"/" + them),
        st.sampled_from([b"/a%20b?x=%2F", b"/%zz", b"http://h/a", b"*", b"/a#b", b"//a"]),
    ),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.1 "]),
).map(b" ".join)
HEADERS = st.lists(
    st.sampled_from(
        [b"A: b", b"Connection: close", b"Content-Length: 3", b"Expect: 100-continue", b"C: \xfc"]
    ),
    max_size=3,
    unique=True,
)


def try_head(wire: bytes) -> tuple[Head, bytes] | None:
    try:
        return head_of(wire)
    except (BadHeadError, AssertionError):
        return None
