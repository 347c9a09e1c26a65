"""Uploads in chunks, without a length, as the Python client sends them; whole and cut."""

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.kit.s3_gateway import Gateway
from tests.kit.served import eventually
from tests.system.s3_kit import ask_api

BODY = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
OBJECTS = "branches/main/objects"
RESET = b"\1\0\0\0\0\0\0\0"


def content() -> Iterator[bytes]:
    """A body that httpx sends in chunks."""
    yield b"abc"
    yield b"de"


def upload_target(gateway: Gateway, path: str) -> str:
    return f"{gateway.url}/api/v1/repositories/lake/{OBJECTS}?path={path}"


def presigned_target(gateway: Gateway, path: str) -> tuple[str, str]:
    """Return a URL to put an object at, and the address that it then has."""
    given = ask_api(
        gateway, "GET", "branches/main/staging/backing", params={"path": path, "presign": True}
    ).json()
    return given["presigned_url"], given["physical_address"]


def begin(gateway: Gateway, url: str, body: bytes) -> socket.socket:
    parts = urlsplit(url)
    key = base64.b64encode(f"{gateway.access_key}:{gateway.secret_key}".encode()).decode()
    is_upload = parts.path.startswith("/api/")
    lines = [
        f"{'POST' if is_upload else 'PUT'} {parts.path}?{parts.query} HTTP/1.1",
        f"Host: {gateway.endpoint}",
        "Content-Type: application/octet-stream",
        "Transfer-Encoding: chunked",
        *([f"Authorization: Basic {key}"] if is_upload else []),
    ]
    return gateway.served.connect("\r\n".join([*lines, "", ""]).encode() + body)


def break_off(connection: socket.socket, how: str) -> None:
    if how == "half-closed":
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")
    elif how == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def files(gateway: Gateway) -> set[Path]:
    return {path for path in gateway.served.objects.rglob("*") if path.is_file()}


def under_way(gateway: Gateway) -> bool:
    text = httpx.get(f"{gateway.url}/metrics").text
    return "\nlakebed_http_requests_in_progress 1.0" not in text


def test_an_upload_in_chunks_is_kept(gateway: Gateway) -> None:
    key = (gateway.access_key, gateway.secret_key)
    answer = httpx.post(upload_target(gateway, "whole"), content=content(), auth=key)
    assert (answer.status_code, answer.json()["size_bytes"]) == (201, 5)
    found = ask_api(gateway, "GET", "refs/main/objects", params={"path": "whole"})
    assert found.content == b"abcde"
    with begin(gateway, upload_target(gateway, "raw"), BODY) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 201 ")


def test_a_presigned_upload_in_chunks_is_kept(gateway: Gateway) -> None:
    url, address = presigned_target(gateway, "presigned")
    assert httpx.put(url, content=content()).is_success
    where, staging = {"path": "presigned"}, {"physical_address": address}
    body = {"staging": staging, "checksum": "sum", "size_bytes": 5}
    ask_api(gateway, "PUT", "branches/main/staging/backing", params=where, json=body)
    found = ask_api(gateway, "GET", "refs/main/objects", params=where)
    assert found.content == b"abcde"


@pytest.mark.parametrize("how", ["half-closed", "closed", "reset"])
@pytest.mark.parametrize("by", ["upload", "presigned"])
def test_an_upload_that_is_cut_anywhere_leaves_nothing(gateway: Gateway, by: str, how: str) -> None:
    before = files(gateway)
    for cut in range(len(BODY)):
        path = f"cut-{by}-{how}-{cut}"
        is_upload = by == "upload"
        url = upload_target(gateway, path) if is_upload else presigned_target(gateway, path)[0]
        break_off(begin(gateway, url, BODY[:cut]), how)
    eventually(lambda: not under_way(gateway))
    listed = ask_api(gateway, "GET", "refs/main/objects/ls", params={"prefix": "cut-"})
    assert listed.json()["results"] == []
    changes = ask_api(gateway, "GET", "branches/main/diff", params={"prefix": "cut-"})
    assert changes.json()["results"] == []
    left = {path for path in files(gateway) - before if path.suffix not in {".db", ".db-wal"}}
    assert left == set()


def test_json_may_come_in_chunks(gateway: Gateway) -> None:
    key = (gateway.access_key, gateway.secret_key)
    url = f"{gateway.url}/api/v1/repositories/lake/branches"
    new = b'{"name": "in-chunks", "source": "main"}'
    typed = {"Content-Type": "application/json"}
    answer = httpx.post(url, content=iter([new[:9], new[9:]]), auth=key, headers=typed)
    assert answer.status_code == 201, answer.text
    large = (b" " * (1 << 20) for _ in range(20))
    too_much = httpx.post(url, content=large, auth=key, headers=typed)
    assert too_much.status_code == 413


def test_s3_wants_a_length(gateway: Gateway) -> None:
    s3 = gateway.client()
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "lake", "Key": "main/none"})
    answer = httpx.put(url, content=content())
    assert answer.status_code == 411
    assert "<Code>MissingContentLength</Code>" in answer.text


def test_empty_answers_have_no_type(gateway: Gateway) -> None:
    """As they go out: the server may add headers that the application did not set."""
    key = (gateway.access_key, gateway.secret_key)
    api = f"{gateway.url}/api/v1"
    httpx.post(f"{api}/auth/groups", json={"id": "staff"}, auth=key)
    with httpx.Client(auth=key) as client:
        created = client.put(f"{api}/auth/groups/staff/members/admin")
        deleted = client.delete(f"{api}/auth/groups/staff")
    assert (created.status_code, created.headers.get("Content-Length")) == (201, "0")
    assert deleted.status_code == 204
    assert "Content-Length" not in deleted.headers
    for answer in (created, deleted):
        assert "Content-Type" not in answer.headers
        assert answer.content == b""
