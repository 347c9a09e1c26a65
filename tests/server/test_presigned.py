"""Presigned URLs of a server whose storage signs none."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth import AuthenticationFailed
from lakebed.block import Address
from lakebed.lake.entry_metadata import RESERVED
from lakebed.server.http.presigned import PATH, URLSigner
from tests.server.kit import REPOSITORY, Server, server
from tests.server.s3.gateway_client import GatewayClient

ADDRESS = Address.parse("local://lakes/a/b")
BACKING = f"/repositories/{REPOSITORY}/branches/main/staging/backing"


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        yield found


def token_of(signer: URLSigner, method: str = "GET", expires: int = 100) -> str:
    return signer.sign(method, ADDRESS, expires).removeprefix(PATH)


def test_a_token_opens_what_it_was_signed_for() -> None:
    signer = URLSigner(b"key")
    assert signer.open("GET", token_of(signer), 99) == (ADDRESS, None)
    sized = signer.sign("GET", ADDRESS, 100, 7).removeprefix(PATH)
    assert signer.open("GET", sized, 99) == (ADDRESS, 7)
    for method, now in (("PUT", 99), ("GET", 100)):
        with pytest.raises(AuthenticationFailed):
            signer.open(method, token_of(signer), now)
    with pytest.raises(AuthenticationFailed):
        URLSigner(b"other").open("GET", token_of(signer), 0)


@given(st.data())
def test_a_changed_token_opens_nothing(data: st.DataObject) -> None:
    signer = URLSigner(b"key")
    token = token_of(signer)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.characters(codec="ascii"))
    changed = token[:place] + letter + token[place + 1 :]
    try:
        opened = signer.open("GET", changed, 0)
    except AuthenticationFailed:
        return
    assert opened == (ADDRESS, None)  # the last bits of base64 mean nothing


@given(st.text(max_size=60))
def test_nonsense_opens_nothing(token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        URLSigner(b"key").open("GET", token, 0)


def test_an_object_by_presigned_url(world: Server) -> None:
    given_out = world.call("GET", BACKING, params={"path": "x", "presign": "true"}).json
    url = urlsplit(given_out["presigned_url"]).path
    put = world.request("PUT", url, body=b"0123456789")
    assert put.status_code == 200
    assert put.headers["etag"] == '"781e5e245d69b566979b86e28d23f2c7"'
    assert world.request("PUT", url, body=b"again").status_code == 412
    assert world.request("GET", url).status_code == 401
    linked = world.call(
        "PUT",
        BACKING,
        params={"path": "x"},
        json={
            "staging": given_out,
            "checksum": "781e5e245d69b566979b86e28d23f2c7",
            "size_bytes": 10,
        },
    )
    assert linked.status_code == 200, linked.text
    stat = world.call(
        "GET",
        f"/repositories/{REPOSITORY}/refs/main/objects/stat",
        params={"path": "x", "presign": "true"},
    ).json
    url = urlsplit(stat["physical_address"]).path
    assert world.request("GET", url).content == b"0123456789"
    part = world.request("GET", url, headers={"Range": "bytes=2-3"})
    assert (part.status_code, part.content) == (206, b"23")
    written = parsedate_to_datetime(part.headers["last-modified"])
    assert 0 <= datetime.now(UTC).timestamp() - written.timestamp() < 60
    assert part.headers["content-range"] == "bytes 2-3/10"
    assert world.request("GET", url, headers={"Range": "bytes=10-"}).status_code == 416
    # Behind the server's back, the object became another.
    world.services.foundation.block.put(Address.parse(given_out["physical_address"]), [b"01234"])
    for headers in ({}, {"Range": "bytes=2-3"}):
        gone = world.request("GET", url, headers=headers)
        assert (gone.status_code, gone.json["kind"]) == (410, "changed_bytes")


def test_an_upload_by_presigned_url_does_not_replace_what_came_meanwhile(
    world: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = world.services.foundation.block
    given_out = world.call("GET", BACKING, params={"path": "m", "presign": "true"}).json
    exists = block.exists

    def look_too_early(address: Address) -> bool:
        found = exists(address)
        block.put(address, [b"first"])
        return found

    monkeypatch.setattr(block, "exists", look_too_early)
    late = world.request("PUT", urlsplit(given_out["presigned_url"]).path, body=b"late")
    assert (late.status_code, late.json["kind"]) == (412, "already_exists")
    assert block.read(Address.parse(given_out["physical_address"])) == b"first"


def test_what_was_replaced_after_it_was_linked_is_gone_at_every_api(world: Server) -> None:
    block = world.services.foundation.block
    block.presigned_put_creates_only = False  # as with S3
    given_out = world.call("GET", BACKING, params={"path": "z", "presign": "true"}).json
    address = Address.parse(given_out["physical_address"])
    block.put(address, [b"original"])
    body = {"staging": given_out, "checksum": "c", "size_bytes": 8}
    linked = world.call("PUT", BACKING, params={"path": "z"}, json=body)
    assert linked.status_code == 200, linked.text
    at = f"/repositories/{REPOSITORY}/refs/main/objects"
    asked = [
        (at, {"path": "z"}, 200),
        (at, {"path": "z", "presign": "true"}, 302),
        (f"{at}/stat", {"path": "z", "presign": "true"}, 200),
    ]
    for path, params, status in asked:
        answer = world.call("GET", path, params=params)
        assert (answer.status_code, RESERVED in answer.text) == (status, False)
    block.put(address, [b"replaced"])
    for path, params, _ in asked:
        answer = world.call("GET", path, params=params)
        assert (answer.status_code, answer.json["kind"]) == (410, "changed_bytes")
    gateway_client = GatewayClient(world.services)
    by_s3 = gateway_client.ask("GET", f"/{REPOSITORY}/main/z")
    assert (by_s3.status, by_s3.code) == (410, "ObjectChanged")
    # What needs no bytes goes on.
    assert world.call("GET", f"{at}/stat", params={"path": "z"}).status_code == 200
    assert world.call("GET", f"{at}/ls", params={"presign": "true"}).status_code == 200


def test_what_was_linked_before_it_was_there_is_held_to_at_every_api() -> None:
    with server(links__require_object=False) as world:
        block = world.services.foundation.block
        given_out = world.call("GET", BACKING, params={"path": "u", "presign": "true"}).json
        body = {"staging": given_out, "checksum": "c", "size_bytes": 8}
        linked = world.call("PUT", BACKING, params={"path": "u"}, json=body)
        assert (linked.status_code, linked.json["size_bytes"]) == (200, 8)
        at, gateway_client = (
            f"/repositories/{REPOSITORY}/refs/main/objects",
            GatewayClient(world.services),
        )
        asked = [
            (at, {"path": "u"}, 200),
            (at, {"path": "u", "presign": "true"}, 302),
            (f"{at}/stat", {"path": "u", "presign": "true"}, 200),
        ]
        for path, params, _ in asked:
            answer = world.call("GET", path, params=params)
            assert (answer.status_code, answer.json["kind"]) == (410, "missing_bytes")
        assert gateway_client.ask("GET", f"/{REPOSITORY}/main/u").status == 404
        upload = urlsplit(given_out["presigned_url"]).path
        assert world.request("PUT", upload, body=b"original").status_code == 200
        for path, params, status in asked:
            answer = world.call("GET", path, params=params)
            assert (answer.status_code, RESERVED in answer.text) == (status, False)
        block.put(Address.parse(given_out["physical_address"]), [b"replaced"])
        for path, params, _ in asked:
            answer = world.call("GET", path, params=params)
            assert (answer.status_code, answer.json["kind"]) == (410, "changed_bytes")
        assert gateway_client.ask("GET", f"/{REPOSITORY}/main/u").code == "ObjectChanged"
        # What needs no bytes goes on; a listing does not look, and so signs nothing.
        assert world.call("GET", f"{at}/stat", params={"path": "u"}).status_code == 200
        assert gateway_client.ask("HEAD", f"/{REPOSITORY}/main/u").status == 200
        (listed,) = world.call("GET", f"{at}/ls", params={"presign": "true"}).json["results"]
        assert listed["physical_address"] == given_out["physical_address"]


def test_by_default_what_is_not_there_is_not_linked(world: Server) -> None:
    given_out = world.call("GET", BACKING, params={"path": "v"}).json
    body = {"staging": given_out, "checksum": "c", "size_bytes": 8}
    refused = world.call("PUT", BACKING, params={"path": "v"}, json=body)
    assert (refused.status_code, refused.json["kind"]) == (400, "invalid_link")
    assert "upload the object before linking it" in refused.text
