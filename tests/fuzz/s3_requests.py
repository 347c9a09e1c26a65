"""What S3 requests hold beside their signatures: XML, routes, headers, tokens."""

from base64 import b64encode
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import quote
from xml.sax.saxutils import escape

from hypothesis import strategies as st

from lakebed.lake import entry_metadata
from lakebed.lake.checksums import Checksum
from lakebed.server.s3 import xml_reader
from lakebed.server.s3.checksum_fields import requested_checksum, requested_scheme, requested_type
from lakebed.server.s3.copy_source import copy_source
from lakebed.server.s3.environ import Environ
from lakebed.server.s3.errors import S3Error, error_body
from lakebed.server.s3.listings import key_of, read_listing_query, token_of
from lakebed.server.s3.metadata import metadata_headers, metadata_of
from lakebed.server.s3.operations.upload_part_copy import _range
from lakebed.server.s3.posted import Policy
from lakebed.server.s3.request import S3Request
from lakebed.server.s3.router import is_s3_request, route
from lakebed.server.s3.tagging import requested_tags, tags_in
from tests.fuzz.inputs import any_text, mostly, texts, wire_text
from tests.fuzz.signatures import DOMAIN, METHODS, QUERY_WORDS, hosts, paths
from tests.fuzz.target import Targets, attempt
from tests.server.s3.kit import NOW

targets: Final = Targets()

XML_WORDS: Final = [
    b"<Delete>", b"</Delete>", b"<Object>", b"</Object>", b"<Key>", b"</Key>", b"a/b", b"<Quiet>",
    b"</Quiet>", b"true", b"<CompleteMultipartUpload>", b"</CompleteMultipartUpload>", b"<Part>",
    b"</Part>", b"<PartNumber>", b"1", b"</PartNumber>", b"<ETag>", b"</ETag>", b'"e"',
    b"<ChecksumCRC32>AAAAAA==</ChecksumCRC32>", b"<VersionId/>", b"<!--", b"-->", b"<![CDATA[",
    b"]]>", b"&amp;", b"&#0;", b"&#55296;", b"&#x10FFFF;", b"&x;", b"<?xml version='1.0'?>",
    b"<!DOCTYPE a [<!ENTITY x 'y'>]>", b" xmlns='u'", b" xmlns:a='u'", b"<a:b/>", b"<", b">", b"\0",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x82\xac", b"",
]  # fmt: skip
ENCODINGS: Final = [
    "utf-8", "utf-16", "latin-1", "cp037", "koi8-r", "big5", "idna", "punycode", "hex", "zlib",
    "unicode_escape", "raw_unicode_escape", "undefined", "utf-7", "x", "mbcs", "", "os.path",
    "a" * 99,
]  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Lists of objects or parts, with some of the words of XML where they do not belong."""
    keys = draw(st.lists(any_text, max_size=3))
    texts_inside = [escape(key).encode(errors="replace") for key in keys]
    if draw(st.booleans()):
        items = [b"<Object><Key>%s</Key></Object>" % text for text in texts_inside]
        sound = b"<Delete>" + b"".join(items) + b"</Delete>"
    else:
        items = [
            b"<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>" % (number, text)
            for number, text in enumerate(texts_inside, 1)
        ]
        sound = b"<CompleteMultipartUpload>" + b"".join(items) + b"</CompleteMultipartUpload>"
    if draw(st.booleans()):
        encoding = draw(st.sampled_from(ENCODINGS)).encode()
        sound = b"<?xml version='1.0' encoding='%s'?>" % encoding + sound
    return draw(texts(XML_WORDS, st.just(sound)))


@targets.add(documents())
def xml_documents(body: bytes) -> None:
    """What is read can be written back, and read again."""
    deletion = attempt(S3Error, xml_reader.read_delete, body)
    attempt(S3Error, xml_reader.read_complete, body)
    attempt(S3Error, xml_reader.read_create_bucket, body)
    attempt(S3Error, xml_reader.read_grantees, body)
    attempt(S3Error, tags_in, body)
    if deletion is not None:
        items = "".join(f"<Object><Key>{_spelled(key)}</Key></Object>" for key in deletion.keys)
        again = xml_reader.read_delete(f"<Delete>{items}</Delete>".encode())
        assert again.keys == deletion.keys


def _spelled(key: str) -> str:
    return "".join(f"&#{ord(character)};" for character in key)


@targets.add(st.text(max_size=100) | wire_text)
def xml_of_errors(message: str) -> None:
    """Whatever a message quotes, the answer is XML."""
    try:
        xml_reader.read_create_bucket(message.encode(errors="replace"))
    except S3Error as error:
        resource = quote(message.encode(errors="replace"), safe="/")
        answer = error_body(error, resource=resource, request_id="r")
        assert xml_reader.parse(answer, "Error").get("Code") == "MalformedXML"


REQUEST_HEADERS: Final[dict[str, list[str]]] = {
    "HTTP_X_AMZ_COPY_SOURCE": [
        "/lake/main/a",
        "lake/main/a%20b",
        "%2Flake/main/%C3%BC",
        "?versionId=",
        "?versionId=null",
        "%",
        "%zz",
        "%ff",
        "%00",
        "/",
        "lake",
        "\xfc",
        "+",
        "..",
    ],
    "HTTP_X_AMZ_COPY_SOURCE_RANGE": ["bytes=", "0", "-", "9" * 19, "9" * 40, ",", " ", "²"],
    "HTTP_X_AMZ_CHECKSUM_ALGORITHM": ["CRC32", "sha256", "CRC64NVME", "", "x"],
    "HTTP_X_AMZ_CHECKSUM_TYPE": ["COMPOSITE", "FULL_OBJECT", "", "x"],
    "HTTP_X_AMZ_CHECKSUM_SHA1": ["2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "-3", "=", "A", "\xff"],
    "HTTP_X_AMZ_META_A": ["a", "\xc3\xbc", "\xff", " ", "=?UTF-8?B?", "?=", "x" * 500],
    "HTTP_X_AMZ_META_": ["a", "\xff"],
    "HTTP_X_AMZ_TAGGING": ["a=b", "&", "=", "%", "a" * 200],
    "HTTP_CONTENT_ENCODING": ["aws-chunked", ",", "gzip", " ", "\xff"],
    "HTTP_CONTENT_DISPOSITION": ["attachment", ";", '"', "\xc3\xbc"],
    "CONTENT_TYPE": ["text/html", ";", "charset=", "\xff"],
}


QUERIES: Final = [
    "", "encoding-type=url&prefix=%C3%BC", "encoding-type=x", "max-keys=1", "max-keys=-1",
    "list-type=2&max-keys=%c2%b2", "delimiter=/", "uploads", "uploadId=1&partNumber=x",
]  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Environ:
    """Requests with some headers, each made of its own words."""
    environ: Environ = {
        "REQUEST_METHOD": draw(mostly(st.sampled_from(["GET", "PUT"]), METHODS)),
        "PATH_INFO": draw(mostly(st.sampled_from(["/lake", "/lake/main/a"]), paths)),
        "HTTP_HOST": draw(mostly(st.just("127.0.0.1"), hosts)),
        "QUERY_STRING": draw(mostly(st.sampled_from(QUERIES), texts([*QUERY_WORDS, *QUERIES]))),
    }
    for name in draw(st.lists(st.sampled_from(sorted(REQUEST_HEADERS)), unique=True, max_size=4)):
        environ[name] = draw(texts(REQUEST_HEADERS[name]))
    return environ


@targets.add(requests())
def s3_requests(environ: Environ) -> None:
    """All that is read from a request, whatever operation it asks for."""
    is_s3_request(environ, domain=DOMAIN)
    asked = attempt(S3Error, route, environ, domain=DOMAIN)
    if asked is None:
        return
    nobody = cast("Any", SimpleNamespace())
    request = S3Request(nobody, environ, asked, nobody, "127.0.0.1")
    attempt(S3Error, copy_source, request)
    attempt(S3Error, _range, request, 100)
    attempt(S3Error, requested_scheme, request)
    attempt(S3Error, requested_type, request)
    attempt(S3Error, requested_checksum, request)
    tags = attempt(S3Error, requested_tags, request)
    if tags is not None:
        assert entry_metadata.tags_of(entry_metadata.for_tags(tags)) == tags
    attempt(S3Error, read_listing_query, request, "max-keys", 1000)
    attempt(S3Error, lambda: request.ref_path)
    kept = attempt(S3Error, metadata_of, request)
    if kept is not None:
        shown = metadata_headers(kept) | entry_metadata.headers_of(kept)
        for name, value in shown.items():
            assert (name + value).isascii(), (name, value)
            assert (name + value).isprintable(), (name, value)


POLICY_WORDS: Final = [
    '{"expiration": "2027-01-01T00:00:00Z", "conditions": [', "]}", "{", "}", "[", "]", ",", ":",
    '"eq"', '"starts-with"', '"content-length-range"', '"$key"', '"key"', '"$bucket"', '"main/a"',
    '"a"', "1", "-1", "1e999", "NaN", "true", "null", "9" * 30, "\\ud800", "",
]  # fmt: skip
POLICY: Final = '{"expiration": "2027-01-01T00:00:00Z", "conditions": [["eq", "$key", "main/a"]]}'


@targets.add(texts(POLICY_WORDS, st.just(POLICY)))
def policies_of_forms(policy: str) -> None:
    """A policy allows a range of sizes, or is refused."""
    encoded = b64encode(policy.encode(errors="replace")).decode()
    fields = {"key": "main/a", "bucket": "lake", "policy": encoded}
    found = attempt(S3Error, lambda: Policy.parse(encoded).allowed_sizes(fields, NOW))
    assert found is None or found.step == 1


@targets.add(texts(['{"a": "b"}', "{", "}", "[", "]", '"', ":", "1", "null", "é", "\0", ""]))
def kept_tags(text: str) -> None:
    """Tags that are read are texts."""
    found = entry_metadata.tags_of({entry_metadata.TAGS: text})
    assert all(isinstance(each, str) for pair in found.items() for each in pair)


@targets.add(st.dictionaries(any_text, any_text, max_size=4))
def metadata_in_headers(metadata: dict[str, str]) -> None:
    """Whatever metadata the REST API was given, the headers that show it are sound."""
    sound = {name: value for name, value in metadata.items() if _is_utf8(name + value)}
    for name, value in metadata_headers(sound).items():
        assert (name + value).isascii(), (name, value)
        assert (name + value).isprintable(), (name, value)


def _is_utf8(text: str) -> bool:
    return attempt(UnicodeEncodeError, text.encode) is not None


tokens: Final = st.text(st.characters(codec="utf-8"), min_size=1).map(token_of)


@targets.add(texts(["YQ==", "=", "-_", "+/", "A", "_w==", "é", "\0", " ", "\n"], tokens))
def continuation_tokens(token: str) -> None:
    """A token that is accepted names a key, whose own token leads to the same place."""
    key = attempt(S3Error, key_of, token)
    if key is not None:
        assert key_of(token_of(key)) == key


@targets.add(
    texts(["crc32:", "sha256:", "md5:", "AAAAAA==", "-3", "-0", "-99999", "-100000", "=", "A", "ü"])
)
def kept_checksums(text: str) -> None:
    """A checksum that is read is spelled as it was."""
    found = Checksum.parse(text)
    if found is not None:
        assert str(found) == text
        assert found.type in {"COMPOSITE", "FULL_OBJECT"}


@targets.add(texts(["1x1", "5x2", "0x1", "x", ",", "1", "99999999999x10000", "-", "²", " "]))
def kept_part_sizes(text: str) -> None:
    """Parts that are read fill the object."""
    name = next(iter(entry_metadata.for_parts([1])))
    for size in (0, 1, 11):
        parts = entry_metadata.parts_of({name: text}, size)
        if parts is not None:
            assert sum(part.size for part in parts) == size
