"""An XML parser reads what we write; documents of clients are bounded and expand nothing."""

from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.lake.checksums import Checksum
from lakebed.lake.multipart.records import NamedPart
from lakebed.server.s3.errors import ErrorCode, S3Error, error_body
from lakebed.server.s3.xml_reader import (
    XML_BYTES_MAX,
    parse,
    read_complete,
    read_create_bucket,
    read_delete,
)
from lakebed.server.s3.xml_writer import document, element, url_encoded

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
)
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@given(texts, texts)
def test_what_is_written_is_read_again(first: str, second: str) -> None:
    body = document("Root", element("A", first), element("B", element("C", second), 7))
    root = ET.fromstring(body)
    assert root.tag == f"{{{NAMESPACE}}}Root"
    assert [child.text or "" for child in root.iter(f"{{{NAMESPACE}}}A")] == [first]
    assert [child.text or "" for child in root.iter(f"{{{NAMESPACE}}}C")] == [second]
    ours = parse(body, "Root")
    assert ours.get("A") == first


def test_line_ends_survive_a_parser() -> None:
    assert ET.fromstring(document("R", "a\r\nb\tc", namespace=None)).text == "a\r\nb\tc"


def test_control_characters_are_written_by_their_numbers() -> None:
    assert element("Key", "a\x01b") == "<Key>a&#1;b</Key>"
    assert element("Key", "\ud800") == "<Key>\N{REPLACEMENT CHARACTER}</Key>"


@given(st.text(st.characters(codec="utf-8")))
def test_url_encoded_keys_are_plain_and_come_back(key: str) -> None:
    encoded = url_encoded(key)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert unquote(encoded) == key


@given(st.text(), st.sampled_from(ErrorCode))
def test_an_error_is_always_xml(message: str, code: ErrorCode) -> None:
    error = S3Error(code, message)
    root = ET.fromstring(error_body(error, resource="/b/k", request_id="r-1"))
    assert root.findtext("Code") == code.code
    assert root.findtext("Message")
    assert root.findtext("Resource") == "/b/k"
    assert root.findtext("RequestId") == "r-1"


@pytest.mark.parametrize("namespace", ["", f' xmlns="{NAMESPACE}"', ' xmlns="urn:other"'])
def test_the_documents_of_clients(namespace: str) -> None:
    delete = read_delete(
        f"<Delete{namespace}><Object><Key>a&amp;b ü</Key></Object>"
        "<Object><Key> c\n</Key><VersionId>null</VersionId></Object><Quiet>true</Quiet>"
        "</Delete>".encode()
    )
    assert delete.keys == ["a&b ü", " c\n"]
    assert delete.quiet
    parts = read_complete(
        f"<CompleteMultipartUpload{namespace}><Part><ETag>&quot;ab&quot;</ETag>"
        "<PartNumber>1</PartNumber><ChecksumCRC32> AAAAAA== </ChecksumCRC32><ChecksumSHA1/></Part>"
        "<Part><PartNumber> 10000 </PartNumber><ETag>cd</ETag></Part>"
        "</CompleteMultipartUpload>".encode()
    )
    assert parts == [
        NamedPart(1, "ab", Checksum("crc32", "AAAAAA==")),
        NamedPart(10000, "cd"),
    ]
    location = f"<CreateBucketConfiguration{namespace}><LocationConstraint>eu</LocationConstraint>"
    assert read_create_bucket(f"{location}</CreateBucketConfiguration>".encode()) == "eu"
    assert read_create_bucket(b"") is None


BOMB = b"""<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]>
<Delete><Object><Key>&b;</Key></Object></Delete>"""
THIEF = b"""<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<Delete><Object><Key>&a;</Key></Object></Delete>"""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not xml",
        b"<Delete>",
        b"<Delete></Delete>",
        b"<Other><Object><Key>a</Key></Object></Other>",
        b"<Delete><Object></Object></Delete>",
        b"<Delete><Object><Key></Key></Object></Delete>",
        b"<Delete><Object><Key>&undefined;</Key></Object></Delete>",
        b"<Delete>" + b"<Object><Key>a</Key></Object>" * 1001 + b"</Delete>",
        b"<Delete>" + b"<a>" * 100 + b"</a>" * 100 + b"</Delete>",
        b"<Delete>" + b"<a/>" * 100_001 + b"</Delete>",
        b"<Delete>" + b" " * XML_BYTES_MAX + b"</Delete>",
        b"<?xml version='1.0' encoding='nonsense'?><Delete/>",
        b"<?xml version='1.0' encoding='cp037'?><Delete/>",
        b"<?xml version='1.0' encoding='unicode_escape'?><Delete/>",
        b"<?xml version='1.0' encoding='latin-1'?><Delete><Object><Key>a</Key></Object></Delete>",
        BOMB,
        THIEF,
    ],
    ids=lambda body: body[:40],
)
def test_large_or_unsafe_documents_are_refused(body: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        read_delete(body)
    assert caught.value.code is ErrorCode.MALFORMED_XML


@pytest.mark.parametrize("number", ["", "-1", "1.5", "1e3", "100000", "²", "x"])
def test_a_part_has_a_number_and_an_etag(number: str) -> None:
    part = f"<Part><PartNumber>{number}</PartNumber><ETag>a</ETag></Part>"
    crc32 = "<ChecksumCRC32>AAAAAA==</ChecksumCRC32>"
    named = "<PartNumber>1</PartNumber><ETag>a</ETag>"
    for inside in (
        part,
        "<Part><PartNumber>1</PartNumber></Part>",
        "",
        f"<Part>{named}<ChecksumCRC32>x</ChecksumCRC32></Part>",
        f"<Part>{named}{crc32}{crc32.replace('CRC32', 'CRC32C')}</Part>",
    ):
        with pytest.raises(S3Error):
            read_complete(f"<CompleteMultipartUpload>{inside}</CompleteMultipartUpload>".encode())


tags = st.sampled_from(
    [
        "<Delete>",
        "</Delete>",
        "<Object>",
        "</Object>",
        "<Key>",
        "</Key>",
        "<!DOCTYPE a>",
        "&amp;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?x ?>",
        "xmlns='a'",
        "<a:b>",
        "\0",
    ]
)


@given(
    st.lists(tags | st.text(max_size=5))
    .map("".join)
    .map(lambda text: text.encode(errors="replace"))
    | st.binary()
)
def test_any_document_is_read_or_refused_with_an_s3_error(body: bytes) -> None:
    for read in (read_delete, read_complete, read_create_bucket):
        try:
            read(body)
        except S3Error:
            continue
