"""Reading the XML that clients send: small documents, without entities, bounded in every way.

A body may say what it likes; whatever is not a plain document of elements and text is
`MalformedXML`. There is no document type, so there are no entities to expand, and no more depth
than these documents have.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from lakebed.catalog.checksums import ALGORITHMS, Checksum
from lakebed.server.s3.errors import ErrorCode, S3Error

XML_BYTES_MAX: Final = 4 << 20
"""More than a list of 1,000 keys or 10,000 parts takes."""

_DEPTH_MAX: Final = 8
_ELEMENTS_MAX: Final = 100_000
_KEYS_MAX: Final = 1000
_PARTS_MAX: Final = 10_000
_CHECKSUMS: Final = {f"Checksum{name.upper()}": name for name in ALGORITHMS}
_CONDITIONS: Final = ("ETag", "LastModifiedTime", "Size")
"""What an object to delete must be, where a client says so."""


@dataclass(slots=True)
class Element:
    """An element: its name without namespace, its text, the elements inside."""

    name: str
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def all(self, name: str) -> Iterator["Element"]:
        """Iterate over the elements inside of this name."""
        return (child for child in self.children if child.name == name)

    def get(self, name: str) -> str | None:
        """Return the text of the first element inside of this name, or None if there is none."""
        return next((child.text for child in self.all(name)), None)


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """What a DeleteObjects body asks for."""

    keys: list[str]
    quiet: bool
    """Whether only failures are to be reported."""


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A part as the body of a CompleteMultipartUpload names it."""

    number: int
    etag: str
    """Without quotes."""
    checksum: Checksum | None = None
    """None: it names none."""


def read_delete(body: bytes) -> DeleteRequest:
    """Return the keys to delete.

    Raises:
        S3Error: `MALFORMED_XML`: the body is not such a document, or names no key or too many;
            `NOT_IMPLEMENTED`: it names versions or conditions.
    """
    root = parse(body, "Delete")
    keys = [_key(item) for item in root.all("Object")]
    if not 1 <= len(keys) <= _KEYS_MAX:
        _refuse(f"1 to {_KEYS_MAX} objects are deleted at a time, not {len(keys)}")
    return DeleteRequest(keys, quiet=(root.get("Quiet") or "").strip().lower() == "true")


def read_complete(body: bytes) -> list[NamedPart]:
    """Return the parts that an upload is completed with.

    Raises:
        S3Error: `MALFORMED_XML`: the body is not such a document, or names no part or too many.
    """
    parts = [_part(item) for item in parse(body, "CompleteMultipartUpload").all("Part")]
    if not 1 <= len(parts) <= _PARTS_MAX:
        _refuse(f"an upload has 1 to {_PARTS_MAX} parts, not {len(parts)}")
    return parts


def read_create_bucket(body: bytes) -> str | None:
    """Return the region that a new bucket is asked to be in; an empty body asks for none.

    Raises:
        S3Error: `MALFORMED_XML`: the body is not such a document.
    """
    if not body:
        return None
    return parse(body, "CreateBucketConfiguration").get("LocationConstraint")


def parse(body: bytes, root: str) -> Element:
    """Return the document, whose root must have the name given.

    Raises:
        S3Error: `MALFORMED_XML`.
    """
    if len(body) > XML_BYTES_MAX:
        _refuse(f"the document is larger than {XML_BYTES_MAX} bytes")
    builder = _Builder()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.document_type
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: of its encoding
        raise S3Error(ErrorCode.MALFORMED_XML, f"the body is not XML: {error}") from error
    if builder.root is None or builder.root.name != root:
        _refuse(f"the document is not a {root}")
    return builder.root


class _Builder:
    """Puts elements together as the parser meets them."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        if len(self._open) >= _DEPTH_MAX:
            _refuse(f"elements are nested deeper than {_DEPTH_MAX}")
        self._count += 1
        if self._count > _ELEMENTS_MAX:
            _refuse(f"the document has more than {_ELEMENTS_MAX} elements")
        element = Element(name.rpartition(" ")[2])
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def end(self, _name: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def text(self, data: str) -> None:
        self._texts[-1].append(data)

    def document_type(self, *_declaration: object) -> None:
        _refuse("documents with a document type are refused")


def _key(item: Element) -> str:
    key = item.get("Key")
    if not key:
        _refuse("an Object has no Key")
    if item.get("VersionId") not in {None, "", "null"}:
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "objects have no version ids; name a commit")
    if any(item.get(name) is not None for name in _CONDITIONS):
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "objects are deleted without conditions")
    return key


def _part(item: Element) -> NamedPart:
    number = (item.get("PartNumber") or "").strip()
    etag = (item.get("ETag") or "").strip().strip('"')
    if not (number.isascii() and number.isdecimal() and len(number) <= len(str(_PARTS_MAX))):
        _refuse(f"{number[:20]!r} is not the number of a part")
    if not etag:
        _refuse(f"part {number} has no ETag")
    return NamedPart(int(number), etag, _checksum(item, number))


def _checksum(item: Element, number: str) -> Checksum | None:
    """The checksum that a part is named with."""
    values = {child.name: child.text.strip() for child in item.children if child.name in _CHECKSUMS}
    given = [f"{_CHECKSUMS[name]}:{value}" for name, value in values.items() if value]
    if not given:
        return None
    checksum = Checksum.parse(given[0])
    if checksum is None or len(given) > 1:
        _refuse(f"part {number} has several checksums, or one that is none")
    return checksum


def _refuse(reason: str) -> NoReturn:
    raise S3Error(ErrorCode.MALFORMED_XML, reason)
