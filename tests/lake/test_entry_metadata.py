"""What entries keep beside the user's metadata: it comes back, and nonsense does no harm."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import Address, Encryption, ETag
from lakebed.formats.imported import CONTENT
from lakebed.lake.checksums import ALGORITHMS, Checksum
from lakebed.lake.entry_metadata import (
    CHECKSUM,
    HEADERS,
    RESERVED,
    checksum_of,
    content_of,
    for_checksum,
    for_content,
    for_encryption,
    for_headers,
    for_parts,
    has_encryption,
    headers_of,
    of_bytes,
    parts_of,
    split,
)

PARTS = f"{RESERVED}parts"
printable = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126))


@given(st.dictionaries(st.sampled_from(HEADERS), printable), st.dictionaries(printable, printable))
def test_headers_come_back_and_the_users_metadata_stay_apart(
    headers: dict[str, str], user: dict[str, str]
) -> None:
    told = split({**user, **for_headers(headers)})
    assert headers_of(told.reserved) == headers
    assert told.user == user


def test_a_header_that_would_be_two_is_not_there() -> None:
    assert headers_of(for_headers({"Expires": "1\r\nSet-Cookie: x"})) == {}
    assert headers_of({f"{RESERVED}header::set-cookie": "x"}) == {}


@given(st.lists(st.sampled_from([5 << 20, 8 << 20, 5 << 30]), max_size=20), st.integers(0, 99))
def test_parts_come_back(sizes: list[int], last: int) -> None:
    sizes = [*sizes, last]
    parts = parts_of(for_parts(sizes), sum(sizes))
    assert parts is not None
    assert [part.size for part in parts] == sizes
    assert parts[0].offset == 0
    assert all(before.offset + before.size == after.offset for before, after in pairwise(parts))


def test_many_equal_parts_take_little_room() -> None:
    kept = for_parts([8 << 20] * 9999 + [1])
    assert len(kept[PARTS]) < 30
    assert of_bytes({"a": "b", **kept}) == kept
    assert len(parts_of(kept, (8 << 20) * 9999 + 1) or []) == 10_000


def test_parts_of_too_many_sizes_are_not_kept() -> None:
    assert for_parts(range(5 << 20, (5 << 20) + 1000)) == {}
    assert of_bytes({"a": "b"}) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "5x",
        "5",
        "5x1,",
        "-5x1",
        "5x2",
        "5x0",
        "0x99999,5x1",
        "5x1" + ",0x1" * 999,
        "5x1\n",
    ],
)
def test_parts_that_make_no_sense_are_not_there(text: str) -> None:
    assert parts_of({PARTS: text}, 5) is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_checksum_comes_back(algorithm: str) -> None:
    checksum = Checksum.of(algorithm, ALGORITHMS[algorithm]().digest())
    told = split({"a": "b", **for_checksum(checksum)})
    assert checksum_of(told.reserved) == checksum
    assert told.user == {"a": "b"}
    assert of_bytes({"a": "b", **told.reserved}) == told.reserved


def test_an_object_without_a_checksum_keeps_nothing() -> None:
    assert for_checksum(None) == {}
    assert checksum_of({}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "crc32",
        "crc32:",
        "AAAAAA==",
        "crc32:AAAAAA",
        "crc32:AAAAAAA=",
        "crc32:AAAAAB==",
        "crc32:AAAAAA==\r\nSet-Cookie: x",
        "crc32:ÄÖÜ=",
        "md4:AAAAAA==",
        "sha1:AAAAAA==",
    ],
)
def test_a_checksum_that_makes_no_sense_is_not_there(text: str) -> None:
    assert checksum_of({CHECKSUM: text}) is None


def test_the_content_etag_is_valid_for_its_address() -> None:
    here, there = Address.parse("s3://lake/x"), Address.parse("s3://lake/y")
    kept = for_content(here, ETag("781e5e24-2"))
    assert content_of(kept, here) == "781e5e24-2"
    assert content_of(kept, there) is None
    assert of_bytes({"a": "b", **kept}) == kept
    assert split({"a": "b", **kept}).user == {"a": "b"}


@pytest.mark.parametrize("etag", ["", 'a"b', "a b", "a\r\nRange: bytes=0-1", "é", "x" * 257])
def test_invalid_etags_are_not_sent(etag: str) -> None:
    here = Address.parse("s3://lake/x")
    assert content_of(for_content(here, ETag(etag)), here) is None
    assert content_of({CONTENT: etag}, here) is None


def test_an_encryption_holds_for_its_address_only() -> None:
    here, copy = Address.parse("s3://here/a"), Address.parse("s3://elsewhere/a")
    kept = for_encryption(here, Encryption("AES256"))
    assert has_encryption(kept, here, Encryption("AES256"))
    assert not has_encryption(kept, here, Encryption("aws:kms"))
    assert not has_encryption(kept, copy, Encryption("AES256")), "copied by another program"
    assert not has_encryption(for_encryption(here, None), here, Encryption("AES256"))
