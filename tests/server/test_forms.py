import io
from typing import Final

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.server.http.bodies import Body, BodyCut, BodyError, MalformedBody
from lakebed.server.http.forms import FIELDS_MAX, FormFile, form_file
from tests.kit.bodies import Input, pieces_of

TYPE: Final = "multipart/form-data; boundary=b"
# Bytes that are made of parts of the boundary, so that near misses come up often.
tricky = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"-", b"--", b"b", b"--b", b"\r\n--", b"x"]),
    max_size=12,
).map(b"".join)


def form(content: bytes, *, head: bytes = b'name="content"', before: bytes = b"") -> bytes:
    return (
        before
        + b"--b\r\nContent-Disposition: form-data; "
        + head
        + b"\r\nContent-Type: text/csv\r\n\r\n"
        + content
        + b"\r\n--b--\r\n"
    )


def parse(pieces: list[bytes], *, length: int | None = None, of_type: str = TYPE) -> FormFile:
    environ: dict[str, object] = {
        "wsgi.input": Input(pieces),
        "HTTP_TRANSFER_ENCODING": "chunked",
    }
    if length is not None:
        environ["CONTENT_LENGTH"] = str(length)
    return form_file(Body(environ, seconds_max=60.0), of_type, field="content")


def content_of(pieces: list[bytes], *, length: int | None = None) -> bytes:
    return b"".join(parse(pieces, length=length).chunks)


def is_plain(content: bytes) -> bool:
    return b"\r\n--b" not in b"\r\n" + content


@given(tricky.filter(is_plain), st.lists(st.integers(0, 200)))
def test_a_file_is_the_same_however_the_form_comes_in(content: bytes, cuts: list[int]) -> None:
    whole = form(content)
    assert content_of(pieces_of(whole, cuts)) == content
    assert content_of([bytes([byte]) for byte in whole]) == content


@given(tricky.filter(is_plain), st.data())
def test_a_form_cut_at_any_byte_is_refused(content: bytes, data: st.DataObject) -> None:
    whole = form(content)
    kept = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BodyCut):
        content_of([whole[:kept]], length=len(whole))
    closed = len(whole) - len(b"\r\n")
    if kept < closed:
        with pytest.raises(BodyCut):
            content_of([whole[:kept]])
    else:
        assert content_of([whole[:kept]]) == content


def test_every_cut_of_one_form_is_refused() -> None:
    whole = form(b"a,b\r\n1,2\r\n")
    for kept in range(len(whole)):
        with pytest.raises(BodyCut):
            content_of([whole[:kept]], length=len(whole))


@given(st.binary(max_size=300) | tricky)
@example(b"--b--")
@example(b"--b\r\n\r\n\r\n--b--")
def test_garbage_is_refused_or_read_but_never_breaks_the_reader(garbage: bytes) -> None:
    try:
        content_of([garbage])
    except BodyError:
        return
    assert b"--b--" in garbage


def test_what_clients_send_is_understood() -> None:
    request = httpx.Request(
        "POST",
        "http://127.0.0.1/",
        data={"note": "first"},
        files={"content": ('Ä "1".csv', io.BytesIO(b"1,2"), "text/csv")},
    )
    file = parse([request.read()], of_type=request.headers["Content-Type"])
    assert b"".join(file.chunks) == b"1,2"
    assert file.content_type == "text/csv"
    assert file.filename == "Ä %221%22.csv"


def test_a_file_needs_neither_name_nor_type() -> None:
    whole = b'--b\r\nContent-Disposition: form-data; name="content"\r\n\r\nx\r\n--b--'
    file = parse([whole])
    assert (file.filename, file.content_type) == (None, None)
    assert b"".join(file.chunks) == b"x"


def test_an_empty_file_is_a_file() -> None:
    assert content_of([form(b"")]) == b""


def test_fields_before_and_after_the_file_are_passed_over() -> None:
    other = b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\n%d\r\n'
    whole = form(b"x", before=other % 1).replace(b"--b--", other % 2 + b"--b--")
    assert content_of([whole]) == b"x"
    with pytest.raises(BodyCut):
        content_of([whole[:-6]])


def test_fields_before_the_file_are_kept_within_a_limit() -> None:
    other = b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    body = form(b"x", before=other % (b"one", "ü".encode()) + other % (b"two", b"222"))

    def read(limit: int, pieces: list[bytes]) -> FormFile:
        environ = {"wsgi.input": Input([*pieces]), "HTTP_TRANSFER_ENCODING": "chunked"}
        sent = Body(environ, seconds_max=60.0)
        return form_file(sent, TYPE, field="content", fields_bytes_max=limit)

    for pieces in ([body], [bytes([byte]) for byte in body]):
        file = read(5, pieces)
        assert file.fields == [("one", "ü"), ("two", "222")]
        assert b"".join(file.chunks) == b"x"
        with pytest.raises(MalformedBody, match="larger than 4 bytes"):
            read(4, pieces)
    with pytest.raises(MalformedBody, match="UTF-8"):
        read(5, [body.replace("ü".encode(), b"\xff")])
    assert parse([body]).fields == []


def test_a_text_before_the_form_is_passed_over() -> None:
    assert content_of([form(b"x", before=b"hello\r\n")]) == b"x"
    with pytest.raises(MalformedBody):
        content_of([form(b"x", before=b"hello\r\n" * 5000)])


def test_blanks_after_a_boundary_are_allowed_and_nothing_else() -> None:
    assert content_of([form(b"x").replace(b"--b\r\n", b"--b \t\r\n")]) == b"x"
    with pytest.raises(MalformedBody, match="text after a boundary"):
        content_of([form(b"x").replace(b"--b\r\n", b"--bc\r\n", 1)])


@pytest.mark.parametrize(
    "whole",
    [
        form(b"x", head=b'name="other"'),
        form(b"x", head=b"name"),
        form(b"x").replace(b"form-data;", b"attachment;"),
        form(b"x").replace(b"Content-Disposition:", b"Content-Disposition"),
        form(b"x").replace(b"Content-Type:", b" Content-Type:"),
        form(b"x", head=b'name="content"; filename="\xff"'),
        form(b"x", head=b'name="content"; filename="' + b"a" * 20_000 + b'"'),
        form(b"x", head=b'name="content"; filename="' + b";" * 5000 + b'"'),
        form(b"x").replace(b"--b--\r\n", form(b"y")),
        form(b"x") + b"y" * 20_000,
        b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" * (FIELDS_MAX + 1) + b"--b--",
    ],
    ids=lambda whole: repr(whole[:60]),
)
def test_a_malformed_form_is_refused(whole: bytes) -> None:
    with pytest.raises(MalformedBody):
        content_of([whole])


@pytest.mark.parametrize(
    "of_type",
    [
        "",
        "text/plain",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "b" * 71,
        "multipart/form-data; boundary=bä",
        "multipart/mixed; boundary=b",
        'multipart/form-data; a="' + ";" * 60_000 + '"; boundary=b',
    ],
)
def test_a_content_type_that_is_no_form_is_refused(of_type: str) -> None:
    with pytest.raises(MalformedBody):
        parse([form(b"x")], of_type=of_type)


def test_a_large_file_goes_through_in_bounded_pieces() -> None:
    pieces = [form(b"")[: -len(b"\r\n--b--\r\n")], *[b"\r" * 65536] * 64, b"\r\n--b--"]
    sizes = [len(chunk) for chunk in parse(pieces).chunks]
    assert sum(sizes) == 64 * 65536
    assert max(sizes) <= 2 * 65536
