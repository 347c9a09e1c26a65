"""Streaming uploads of a file in a ``multipart/form-data`` body.

The closing boundary marks the end of a form, so its length need not be known. The iterator of the
file's chunks ends well only after that boundary, past any fields behind the file.

Falcon's parser (``falcon.media.multipart``, 4.4) does not fit, for two reasons. The stream of a
part ends without an error where the body was cut: only the step to the next part raises, after the
storage has published half a file. And it requires a Content-Length, while clients send chunked
forms.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from falcon import parse_header

from lakebed.server.http.bodies import Body, BodyCut, MalformedBody

HEADERS_BYTES_MAX: Final = 16 << 10
"""The maximum size of a field's headers, of the preamble and of the epilogue."""
FIELDS_MAX: Final = 32
_PARAMETERS_LENGTH_MAX: Final = 4 << 10
"""The maximum length of a header with parameters: parsing takes quadratic time."""
_BOUNDARY_LENGTH_MAX: Final = 70
_CRLF: Final = b"\r\n"
_BLANK_LINE: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class FormFile:
    """The file in a form."""

    chunks: Iterator[bytes]
    """Raises `BodyCut` or `MalformedBody` if the form is incomplete; must be read to the end."""
    filename: str | None
    content_type: str | None
    fields: list[tuple[str, str]]
    """Names and values of the fields before the file, unless skipped."""


def form_file(
    body: Body, content_type: str, *, field: str, fields_bytes_max: int | None = None
) -> FormFile:
    """Return the file in the named field of a form.

    The fields before the file are returned if `fields_bytes_max` limits their total size, else
    skipped. Fields behind the file are skipped.

    Raises:
        MalformedBody: The body is not a form, the form has no such field, or the fields before it
            are too large or not UTF-8.
        BodyCut: The body ended before the file.
        BodyTooSlow: The time limit or the minimum rate was violated.
    """
    form = _Form(body.chunks(), _boundary(content_type))
    fields: list[tuple[str, str]] = []
    room = fields_bytes_max or 0
    while headers := form.next_field():
        name = headers.name or ""
        if name == field:
            chunks = _to_the_end(form, field)
            return FormFile(chunks, headers.filename, headers.content_type, fields)
        value = bytearray()
        for piece in form.content():
            if fields_bytes_max is not None:
                value += piece
                room -= len(piece)
                if room < 0:
                    raise MalformedBody(
                        f"the fields before the file are larger than {fields_bytes_max} bytes"
                    )
        if fields_bytes_max is not None:
            fields.append((name, _decoded(value, name)))
    raise MalformedBody(f"the form has no field {field!r}")


def _decoded(value: bytearray, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedBody(f"the field {name[:50]!r} of the form is not UTF-8") from None


def _to_the_end(form: "_Form", field: str) -> Iterator[bytes]:
    yield from form.content()
    while headers := form.next_field():
        if headers.name == field:
            raise MalformedBody(f"the form has more than one field {field!r}")
        for _ in form.content():
            pass


def _boundary(content_type: str) -> bytes:
    media_type, parameters = _parse_parameters(content_type)
    boundary = parameters.get("boundary", "").rstrip()
    if media_type.strip().lower() != "multipart/form-data":
        raise MalformedBody("the Content-Type is not multipart/form-data")
    if not 1 <= len(boundary) <= _BOUNDARY_LENGTH_MAX or not boundary.isascii():
        raise MalformedBody("the boundary in the Content-Type of the form is missing or invalid")
    return boundary.encode()


@dataclass(frozen=True, slots=True)
class _Headers:
    name: str | None
    filename: str | None
    content_type: str | None


class _Form:
    """A form; its fields are read in order."""

    def __init__(self, chunks: Iterator[bytes], boundary: bytes) -> None:
        self._chunks = chunks
        self._delimiter = _CRLF + b"--" + boundary
        # A boundary begins a line; the first boundary begins the body.
        self._buffer = _CRLF
        self._fields = 0

    def next_field(self) -> _Headers | None:
        """Return the headers of the next field, or None after the last one.

        The content of the previous field must have been read.
        """
        if self._fields == 0:
            self._skip_preamble()
        self._fields += 1
        if self._fields > FIELDS_MAX:
            raise MalformedBody(f"the form has more than {FIELDS_MAX} fields")
        self._fill(len(b"--"))
        if self._buffer.startswith(b"--"):
            self._skip_rest()
            return None
        padding = self._take_until(_CRLF)
        if padding.strip(b" \t"):
            raise MalformedBody("the form has text after a boundary on the same line")
        # The end of the line stays: a field without headers begins with an empty line.
        self._buffer = _CRLF + self._buffer
        return _parse_headers(self._take_until(_BLANK_LINE))

    def content(self) -> Iterator[bytes]:
        """Yield the content of the field, and consume the boundary behind it."""
        while (end := self._buffer.find(self._delimiter)) < 0:
            ready = len(self._buffer) - self._length_of_beginning()
            if ready:
                yield self._buffer[:ready]
                self._buffer = self._buffer[ready:]
            self._read_more()
        if end:
            yield self._buffer[:end]
        self._buffer = self._buffer[end + len(self._delimiter) :]

    def _length_of_beginning(self) -> int:
        """Return the number of bytes at the end of the buffer that may begin a boundary."""
        start = self._buffer.find(b"\r", max(0, len(self._buffer) - len(self._delimiter) + 1))
        while start >= 0:
            if self._delimiter.startswith(self._buffer[start:]):
                return len(self._buffer) - start
            start = self._buffer.find(b"\r", start + 1)
        return 0

    def _skip_preamble(self) -> None:
        self._take_until(self._delimiter)

    def _skip_rest(self) -> None:
        rest = len(self._buffer)
        while rest <= HEADERS_BYTES_MAX:
            chunk = next(self._chunks, b"")
            if not chunk:
                return
            rest += len(chunk)
        raise MalformedBody("the form continues after its closing boundary")

    def _take_until(self, delimiter: bytes) -> bytes:
        while (end := self._buffer.find(delimiter)) < 0:
            if len(self._buffer) > HEADERS_BYTES_MAX:
                raise MalformedBody("the form has no boundary, or its headers are too long")
            self._read_more()
        if end > HEADERS_BYTES_MAX:
            raise MalformedBody("the headers of the form are too long")
        taken, self._buffer = self._buffer[:end], self._buffer[end + len(delimiter) :]
        return taken

    def _fill(self, length: int) -> None:
        while len(self._buffer) < length:
            self._read_more()

    def _read_more(self) -> None:
        chunk = next(self._chunks, b"")
        if not chunk:
            raise BodyCut("the form ended before its closing boundary")
        self._buffer += chunk


def _parse_parameters(header: str) -> tuple[str, dict[str, str]]:
    if len(header) > _PARAMETERS_LENGTH_MAX:
        raise MalformedBody(
            f"a header of the form has {len(header)} characters; at most {_PARAMETERS_LENGTH_MAX}"
            " are allowed"
        )
    return parse_header(header)


def _parse_headers(block: bytes) -> _Headers:
    headers: dict[str, str] = {}
    try:
        lines = block.decode().split("\r\n")
    except UnicodeDecodeError:
        raise MalformedBody("the headers of a field of the form are not UTF-8") from None
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise MalformedBody(f"the form has a header without a name or a colon: {line[:80]!r}")
        headers[name.lower()] = value.strip()
    disposition, parameters = _parse_parameters(headers.get("content-disposition", ""))
    if disposition.strip().lower() != "form-data":
        raise MalformedBody("a field of the form has no Content-Disposition: form-data")
    return _Headers(parameters.get("name"), parameters.get("filename"), headers.get("content-type"))
