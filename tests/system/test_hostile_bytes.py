"""Bytes that somebody changes behind the server's back: no commit shows them, no answer lies."""

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.served import eventually
from tests.system.api_kit import (
    BASE_PATH,
    JSON,
    RawClient,
    authorization,
    create_repository,
    drafts,
    workers,
)
from tests.system.cli_kit import CommandLine

MIB = 1 << 20
SMALL, LARGE = 100, 1 * MIB
"""Sizes of objects that are answered in one piece, and in pieces."""


@pytest.fixture
def client(sqlite_lakebed: LakebedServer, repository_name: str) -> Iterator[RawClient]:
    with RawClient(sqlite_lakebed) as raw:
        create_repository(raw, repository_name)
        yield raw


def put(client: RawClient, repository: str, path: str, data: bytes) -> Path:
    """Upload an object; return the file that holds its bytes."""
    at = f"/repositories/{repository}/branches/main/objects"
    made = client.call("POST", at, body=data, path=path)
    assert made.status == 201, made.body
    return file_of(client, made.json["physical_address"])


def file_of(client: RawClient, address: str) -> Path:
    return client.server.folder / "objects" / address.removeprefix("local://")


def get(client: RawClient, repository: str, path: str, **headers: str) -> tuple[int, bytes]:
    at = f"/repositories/{repository}/refs/main/objects"
    answer = client.call("GET", at, headers=headers, path=path)
    return answer.status, answer.body


# A commit's bytes


def test_an_upload_that_ends_after_the_commit_does_not_replace_its_bytes(
    client: RawClient, repository_name: str
) -> None:
    backing = f"/repositories/{repository_name}/branches/main/staging/backing"
    given = client.call("GET", backing, path="a", presign="true").json
    target = urlsplit(given["presigned_url"]).path

    def begin() -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", client.server.port), timeout=60)
        head = f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n"
        connection.sendall(head.encode() + b"evil")
        return connection

    def end(connection: socket.socket) -> int:
        with connection:
            connection.sendall(b" data")
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            answer.read()
            return answer.status

    late = [begin(), begin()]
    # Both have got past the look whether there is an object: they have drafts of their own.
    eventually(lambda: len(drafts(client.server)) == 2)
    first = begin()
    assert end(first) == 200
    body = {"staging": given, "checksum": "c", "size_bytes": 9}
    content = json.dumps(body).encode()
    linked = client.call("PUT", backing, body=content, headers=JSON, path="a")
    assert linked.status == 200, linked.body
    assert end(late[0]) == 412
    commits = f"/repositories/{repository_name}/branches/main/commits"
    assert client.post_json(commits, {"message": "c"}).status == 201
    stored = file_of(client, given["physical_address"])
    inode = stored.stat().st_ino
    assert end(late[1]) == 412
    assert (stored.read_bytes(), stored.stat().st_ino) == (b"evil data", inode)
    assert get(client, repository_name, "a") == (200, b"evil data")
    assert drafts(client.server) == []


# The length of an answer


def targets(client: RawClient, repository: str, path: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Where an object is read, API by API, and with what headers."""
    server = client.server
    s3 = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )
    signed = urlsplit(
        s3.generate_presigned_url("get_object", {"Bucket": repository, "Key": f"main/{path}"})
    )
    rest = f"{BASE_PATH}/repositories/{repository}/refs/main/objects?path={path}"
    return {
        "rest": (rest, {"Authorization": authorization(server)}),
        "s3": (f"{signed.path}?{signed.query}", {}),
    }


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("change", [-50, +50])
def test_what_is_stored_with_another_length_is_gone_and_says_so(
    client: RawClient, repository_name: str, size: int, change: int
) -> None:
    stored = put(client, repository_name, "a", b"x" * size)
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    stored.write_bytes((b"x" * size)[:change] if change < 0 else b"x" * size + forged)
    server = client.server
    for api, (target, headers) in targets(client, repository_name, "a").items():
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for asked in ({}, {"Range": "bytes=10-19"}, {"Range": f"bytes={size - 10}-"}):
            connection.request("GET", target, headers={**headers, **asked})
            answer = connection.getresponse()
            body = answer.read()[:1000].decode()
            assert (api, answer.status) == (api, 410)
            assert "bytes" in body
            # The next answer on the same connection is the next answer.
            connection.request("GET", f"{BASE_PATH}/healthcheck")
            health = connection.getresponse()
            assert (health.status, health.read()) == (204, b"")
        connection.close()


def test_bytes_that_end_on_the_way_end_the_connection(
    client: RawClient, repository_name: str
) -> None:
    stored = put(client, repository_name, "a", os.urandom(64 * MIB))
    before = {worker.pid for worker in workers(client.server)}
    for target, headers in targets(client, repository_name, "a").values():
        os.truncate(stored, 64 * MIB)
        connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=60)
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert len(answer.read(MIB)) == MIB
        os.truncate(stored, 32 * MIB)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        connection.close()
    assert {worker.pid for worker in workers(client.server)} == before


def test_the_command_line_fails_on_bytes_that_are_cut_short(
    client: RawClient,
    repository_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lakebed = CommandLine(client.server, monkeypatch, capsys)
    for size in (SMALL, LARGE):
        stored = put(client, repository_name, f"{size}", b"x" * size)
        os.truncate(stored, size - 1)
        uri = f"lakefs://{repository_name}/main/{size}"
        assert f"has {size - 1} bytes, not {size}" in lakebed.error("fs", "cat", uri)
        file = tmp_path / "file"
        assert f"has {size - 1} bytes" in lakebed.error("fs", "download", uri, str(file))
        assert not file.exists()
