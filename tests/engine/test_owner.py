import json

import pytest

from lakebed.formats import (
    DamagedFile,
    ForeignFile,
    FormatTooNew,
    Owner,
    decode_owner,
    encode_owner,
)

OWNER = Owner("installation", "lake", "unique")


def test_an_owner_is_decoded_as_it_was_encoded() -> None:
    assert decode_owner(encode_owner(OWNER), file="owner") == OWNER


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (encode_owner(OWNER)[:-5], DamagedFile, "owner is damaged"),
        (b"\xff\xfe", DamagedFile, "owner is damaged"),
        (b"[]", ForeignFile, "owner is not a lakebed owner file"),
        (b'{"type": "other"}', ForeignFile, "owner is not a lakebed owner file"),
        (b'{"type": "lakebed owner", "version": 2}', FormatTooNew, "owner has version 2"),
        (
            b'{"type": "lakebed owner", "version": 1}',
            DamagedFile,
            "field 'installation_id' is missing",
        ),
        (
            encode_owner(OWNER).replace(b'"lake"', b"1"),
            DamagedFile,
            "field repository has type",
        ),
        (b"[" * 100_000, DamagedFile, "owner is damaged"),
    ],
)
def test_a_file_that_is_not_an_owner_is_named_in_the_error(
    data: bytes, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        decode_owner(data, file="owner")


def test_people_can_read_the_owner_object() -> None:
    assert json.loads(encode_owner(OWNER))["repository"] == "lake"
