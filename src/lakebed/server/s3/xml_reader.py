"""Parser for the XML of clients: small, plain documents, with a limit on everything.

Documents other than plain elements and text are refused as `MalformedXML`, also document types, so
no entities can be expanded, and encodings other than UTF-8, which the parser would look up among
all of Python's codecs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from lakebed.lake.checksums import ALGORITHMS, Checksum
from lakebed.lake.multipart.records import NamedPart
from lakebed.lake.versions import UNCOMMITTED
from lakebed.server.s3.environ import parse_number
from lakebed.server.s3.errors import ErrorCode, S3Error

XML_BYTES_MAX: Final = 4 << 20
"""More than a list of 1,000 keys or 10,000 parts takes."""

_DEPTH_MAX: Final = 8
_ELEMENTS_MAX: Final = 100_000
_KEYS_MAX: Final = 1000
_PARTS_MAX: Final = 10_000
_CHECKSUMS: Final = {f"Checksum{name.upper()}": name for name in ALGORITHMS}
_CONDITIONS: Final = ("LastModifiedTime", "Size")
"""Elements that make a delete conditional, in directory buckets of S3."""


@dataclass(slots=True)
class Element:
    """An element: its name without namespace, its text, its children."""

    name: str
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def all(self, name: str) -> Iterator["Element"]:
        return (child for child in self.children if child.name == name)

    def get(self, name: str) -> str | None:
        """Return the text of the first child of this name, or None."""
        return next((child.text for child in self.all(name)), None)


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """The content of a DeleteObjects body."""

    keys: list[str]
    etags: dict[str, str]
    """The ETags that objects must have, by key."""
    quiet: bool


def read_delete(body: bytes) -> DeleteRequest:
    """Return the keys to delete.

    Raises:
        S3Error: `NO_VERSION_DELETES`: versions; `NOT_IMPLEMENTED`: conditions other than ETags;
            `MALFORMED_XML` as in `parse`.
    """
    root = parse(body, "Delete")
    items = list(root.all("Object"))
    keys = [_key(item) for item in items]
    if not 1 <= len(keys) <= _KEYS_MAX:
        _refuse(f"list 1 to {_KEYS_MAX} objects to delete, not {len(keys)}")
    etags: dict[str, str] = {}
    for key, item in zip(keys, items, strict=True):
        etag = (item.get("ETag") or "").strip()
        if etag and etags.setdefault(key, etag) != etag:
            _refuse(f'the key "{key[:100]}" is listed with different ETags')
    return DeleteRequest(keys, etags, quiet=(root.get("Quiet") or "").strip().lower() == "true")


def read_tags(body: bytes) -> list[tuple[str, str]]:
    """Return the keys and values of tags, in order."""
    tags = [tag for found in parse(body, "Tagging").all("TagSet") for tag in found.all("Tag")]
    return [(tag.get("Key") or "", tag.get("Value") or "") for tag in tags]


def read_grantees(body: bytes) -> list[str]:
    """Return the users and groups to which an ACL grants access, each as its id or URI."""
    lists = parse(body, "AccessControlPolicy").all("AccessControlList")
    grantees = [
        grantee
        for found in lists
        for grant in found.all("Grant")
        for grantee in grant.all("Grantee")
    ]
    return [
        grantee.get("ID") or grantee.get("URI") or grantee.get("EmailAddress") or ""
        for grantee in grantees
    ]


def read_complete(body: bytes) -> list[NamedPart]:
    """Return the parts to complete an upload with."""
    parts = [_part(item) for item in parse(body, "CompleteMultipartUpload").all("Part")]
    if not 1 <= len(parts) <= _PARTS_MAX:
        _refuse(f"list 1 to {_PARTS_MAX} parts, not {len(parts)}")
    return parts


def read_create_bucket(body: bytes) -> str | None:
    """Return the region requested for a new bucket, or None."""
    if not body:
        return None
    return parse(body, "CreateBucketConfiguration").get("LocationConstraint")


def parse(body: bytes, root: str) -> Element:
    """Return the root element, whose name must be `root`.

    Raises:
        S3Error: `MALFORMED_XML`.
    """
    if len(body) > XML_BYTES_MAX:
        _refuse(f"the document has {len(body)} bytes; at most {XML_BYTES_MAX} are allowed")
    builder = _Builder()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.document_type
    parser.XmlDeclHandler = builder.declaration
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise S3Error(ErrorCode.MALFORMED_XML, f"the body is not XML: {error}") from error
    if builder.root is None or builder.root.name != root:
        _refuse(f"the root element must be {root}")
    return builder.root


class _Builder:
    """Handlers of the parser that build the document."""

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

    def declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() != "utf-8":
            _refuse(f'the encoding must be UTF-8, not "{encoding[:20]}"')

    def document_type(self, *_declaration: object) -> None:
        _refuse("the document must not have a document type")


def _key(item: Element) -> str:
    key = item.get("Key")
    if not key:
        _refuse("an Object has no Key")
    if item.get("VersionId") not in {None, "", UNCOMMITTED}:
        raise S3Error(ErrorCode.NO_VERSION_DELETES)
    if any(item.get(name) is not None for name in _CONDITIONS):
        raise S3Error(
            ErrorCode.NOT_IMPLEMENTED,
            "deletes on a condition of time or size are not supported; use the ETag",
        )
    return key


def _part(item: Element) -> NamedPart:
    text = (item.get("PartNumber") or "").strip()
    etag = (item.get("ETag") or "").strip().strip('"')
    number = parse_number(text, digits_max=len(str(_PARTS_MAX)))
    if number is None:
        _refuse(f'PartNumber must be a number from 1 to {_PARTS_MAX}, not "{text[:20]}"')
    if not etag:
        _refuse(f"part {number} has no ETag")
    return NamedPart(number, etag, _checksum(item, number))


def _checksum(item: Element, number: int) -> Checksum | None:
    """Return the checksum given for a part, or None."""
    values = {child.name: child.text.strip() for child in item.children if child.name in _CHECKSUMS}
    given = [f"{_CHECKSUMS[name]}:{value}" for name, value in values.items() if value]
    if not given:
        return None
    checksum = Checksum.parse(given[0])
    if len(given) > 1:
        _refuse(f"part {number} has {len(given)} checksums; send at most one")
    if checksum is None:
        _refuse(
            f"the checksum of part {number} must be in base 64 and have the length of its algorithm"
        )
    return checksum


def _refuse(reason: str) -> NoReturn:
    raise S3Error(ErrorCode.MALFORMED_XML, reason)
