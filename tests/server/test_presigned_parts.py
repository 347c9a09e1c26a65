"""Presigned multipart uploads by the API, and the URLs for parts that the server signs itself."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lakebed.auth import AuthenticationFailed, Effect, KeyPair, Statement
from lakebed.block import PART_BYTES_MAX, Address, UploadId
from lakebed.server.http.presigned import PART_PATH, PATH, URLSigner
from tests.server.kit import REPOSITORY, Server, server

ADDRESS = Address.parse("local://lakes/a/b")
UPLOADS = f"/repositories/{REPOSITORY}/branches/main/staging/pmpu"
FIRST = b"1" * (5 << 20)


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        yield found


def begin(world: Server, path: str, parts: int = 0) -> dict[str, Any]:
    begun = world.call("POST", UPLOADS, params={"path": path, "parts": str(parts)})
    assert begun.status_code == 201, begun.text
    found: dict[str, Any] = begun.json
    return found


def send(world: Server, url: str, data: bytes, **headers: str) -> Any:
    parts = urlsplit(url)
    return world.request("PUT", parts.path, query_string=parts.query, body=data, headers=headers)


def ask(world: Server, method: str, begun: dict[str, Any], at: str = "", **kwargs: Any) -> Any:
    """Make a request about an upload; `path` and the fields of the body may be others."""
    path = kwargs.pop("path", "x")
    pair = {"pair": kwargs.pop("pair")} if "pair" in kwargs else {}
    body = {"physical_address": begun["physical_address"]} | kwargs
    target = f"{UPLOADS}/{begun['upload_id']}{at}"
    return world.call(method, target, params={"path": path}, json=body, **pair)


# What URLs open


def test_a_token_opens_the_part_that_it_was_signed_for() -> None:
    signer = URLSigner(b"key")
    url = signer.sign_part(ADDRESS, UploadId("id"), 7, 100, 60)
    token = urlsplit(url).path.removeprefix(PART_PATH)
    assert signer.open_part(token, 99) == (ADDRESS, "id", 7)
    with pytest.raises(AuthenticationFailed):
        signer.open_part(token, 100)
    with pytest.raises(AuthenticationFailed):
        URLSigner(b"other").open_part(token, 0)
    # A part is no object, and an object no part.
    for method in ("GET", "PUT"):
        with pytest.raises(AuthenticationFailed):
            signer.open(method, token, 0)
        whole = signer.sign(method, ADDRESS, 100).removeprefix(PATH)
        with pytest.raises(AuthenticationFailed):
            signer.open_part(whole, 0)


def test_a_url_says_when_it_ends_as_s3_does(world: Server) -> None:
    """lakectl asks for another URL before each part if it finds nothing of this."""
    (url,) = begin(world, "x", parts=1)["presigned_urls"]
    found = parse_qs(urlsplit(url).query)
    begun = datetime.strptime(found["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    life = world.services.settings.gc.presign_life_seconds
    assert found["X-Amz-Expires"] == [str(int(life))]
    assert -1 <= datetime.now(UTC).timestamp() - begun.timestamp() < 60
    # Nobody gains time by writing another end there.
    expired = world.services.signer.sign_part(ADDRESS, UploadId("id"), 1, 100, 60)
    later = urlsplit(expired).path + "?X-Amz-Date=20990101T000000Z&X-Amz-Expires=900"
    assert send(world, later, b"late").status_code == 401


# The operations


def test_an_upload_in_parts(world: Server) -> None:
    config = world.call("GET", "/config").json["storage_config"]
    assert config["pre_sign_multipart_upload"] is True
    begun = begin(world, "x", parts=1)
    (url,) = begun["presigned_urls"]
    again = ask(world, "PUT", begun, "/parts/2")
    assert again.status_code == 200, again.text
    named = []
    for number, (where, data) in enumerate(
        [(url, FIRST), (again.json["presigned_url"], b"end")], start=1
    ):
        sent = send(world, where, data, **{"Content-Type": "text/csv"})
        assert sent.status_code == 200, sent.text
        named.append({"part_number": number, "etag": sent.headers["ETag"]})
    more: dict[str, Any] = {"parts": named, "user_metadata": {"k": "v"}, "content_type": "text/csv"}
    done = ask(world, "PUT", begun, **more)
    assert done.status_code == 200, done.text
    stats = done.json
    assert stats["physical_address"] == begun["physical_address"]
    assert stats["size_bytes"] == len(FIRST) + 3
    assert (stats["metadata"], stats["content_type"]) == ({"k": "v"}, "text/csv")
    assert stats["checksum"].endswith("-2")
    assert ask(world, "PUT", begun, **more).json == stats
    read = world.call("GET", f"/repositories/{REPOSITORY}/refs/main/objects", params={"path": "x"})
    assert read.content == FIRST + b"end"
    late = send(world, url, b"late")
    assert (late.status_code, late.json["kind"]) == (404, "upload_not_found")


def test_an_upload_that_is_aborted(world: Server) -> None:
    begun = begin(world, "x", parts=1)
    (url,) = begun["presigned_urls"]
    mark = send(world, url, b"data").headers["ETag"]
    assert ask(world, "DELETE", begun).status_code == 204
    assert send(world, url, b"late").status_code == 404
    for answer in (
        ask(world, "PUT", begun, parts=[{"part_number": 1, "etag": mark}]),
        ask(world, "PUT", begun, "/parts/1"),
        ask(world, "DELETE", begun),
    ):
        assert (answer.status_code, answer.json["kind"]) == (404, "multipart_not_found")


def test_parts_of_objects_that_are_there(world: Server) -> None:
    world.put("source", b"0123456789")
    source = {"repository": REPOSITORY, "ref": "main", "path": "source"}
    begun = begin(world, "x")
    copied = ask(world, "PUT", begun, "/parts/1/copy", copy_source=source | {"range": "bytes=2-4"})
    assert copied.status_code == 204, copied.text
    named = [{"part_number": 1, "etag": copied.headers["ETag"]}]
    assert ask(world, "PUT", begun, parts=named).json["size_bytes"] == 3
    other = begin(world, "x")
    for text in ("bytes=2-10", "bytes=4-2", "bytes=-3", "0-1", ""):
        wrong = ask(world, "PUT", other, "/parts/1/copy", copy_source=source | {"range": text})
        assert (wrong.status_code, "copy_source.range" in wrong.json["message"]) == (400, True)
    gone = ask(world, "PUT", other, "/parts/1/copy", copy_source=source | {"path": "none"})
    assert gone.status_code == 404


def test_requests_that_cannot_be_served(world: Server) -> None:
    begun = begin(world, "x", parts=1)
    for parts in ("-1", "10001", "many"):
        refused = world.call("POST", UPLOADS, params={"path": "x", "parts": parts})
        assert refused.status_code == 400
    # The repository, and of a new upload the branch, are checked before the parts, as in lakeFS.
    nowhere = UPLOADS.replace("main", "none")
    for parts in ("1", "10001"):
        params = {"path": "x", "parts": parts}
        assert world.call("POST", nowhere, params=params).status_code == 404
    elsewhere = f"{UPLOADS}/{begun['upload_id']}".replace(REPOSITORY, "none")
    body = {"physical_address": begun["physical_address"], "parts": []}
    absent = world.call("PUT", elsewhere, params={"path": "x"}, json=body)
    assert (absent.status_code, absent.json["kind"]) == (404, "repository_not_found")
    unknown = ask(world, "PUT", begun | {"upload_id": "none"}, parts=[])
    assert (unknown.status_code, unknown.json["kind"]) == (400, "invalid_parts")
    for number in ("0", "10001", "x", "1000000"):
        assert ask(world, "PUT", begun, f"/parts/{number}").status_code == 400
    empty = ask(world, "PUT", begun, parts=[])
    assert (empty.status_code, empty.json["kind"]) == (400, "invalid_parts")
    for other in ("mem://lakes/elsewhere", "nonsense"):
        begun_elsewhere = begun | {"physical_address": other}
        named = [{"part_number": 1, "etag": "0"}]
        for answer in (
            ask(world, "PUT", begun_elsewhere, "/parts/1"),
            ask(world, "PUT", begun_elsewhere, parts=named),
            ask(world, "DELETE", begun_elsewhere),
        ):
            assert answer.status_code == 400
    assert ask(world, "PUT", begun, "/parts/1", path="y").status_code == 404
    (url,) = begun["presigned_urls"]
    lengths = {"Transfer-Encoding": "chunked"}, {"Content-Length": str(PART_BYTES_MAX + 1)}
    assert [send(world, url, b"", **each).status_code for each in lengths] == [411, 413]


def test_a_copy_needs_to_read_its_source(world: Server) -> None:
    service = world.services.auth
    service.users.create("writer")
    made = service.credentials.create("writer")
    pair = KeyPair(access_key_id=made.access_key_id, secret_access_key=made.secret_access_key)
    service.policies.create(
        "write-x",
        [
            Statement(
                effect=Effect.ALLOW,
                actions=("fs:WriteObject",),
                resource=f"arn:lakefs:fs:::repository/{REPOSITORY}/object/x",
            )
        ],
    )
    service.user_policies.add("writer", "write-x")
    world.put("secret", b"secret")
    source = {"repository": REPOSITORY, "ref": "main", "path": "secret"}
    begun = begin(world, "x")
    refused = ask(world, "PUT", begun, "/parts/1/copy", pair=pair, copy_source=source)
    assert refused.status_code == 401
    assert ask(world, "PUT", begun, "/parts/1", pair=pair).status_code == 200
    # A permission on one path is none on the upload of another.
    other = begin(world, "secret")
    assert ask(world, "PUT", other, "/parts/1", pair=pair, path="secret").status_code == 401
    assert ask(world, "DELETE", other, pair=pair, path="x").status_code == 404


def test_a_storage_without_urls_for_parts(world: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = begin(world, "x")
    monkeypatch.setattr(world.services.catalog.presigning, "parts_supported", False)
    config = world.call("GET", "/config").json["storage_config"]
    assert config["pre_sign_multipart_upload"] is False
    source = {"repository": REPOSITORY, "ref": "main", "path": "x"}
    for answer in (
        world.call("POST", UPLOADS, params={"path": "x"}),
        ask(world, "PUT", begun, "/parts/1"),
        ask(world, "PUT", begun, "/parts/1/copy", copy_source=source),
        ask(world, "PUT", begun, parts=[{"part_number": 1, "etag": "0"}]),
        ask(world, "DELETE", begun),
    ):
        assert answer.status_code == 501
        assert answer.json["message"] == "presign multipart upload API is not supported"
