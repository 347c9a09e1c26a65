"""Bulk requests to S3: their number, and the results for each object."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Address, Forbidden, Locked, Namespace, S3Settings, StorageUnavailable
from lakebed.block.drivers.s3 import open_driver
from lakebed.block.drivers.s3.store import S3BlockStore
from lakebed.block.drivers.s3.wire import ListingPage, SignedRequests
from tests.kit.object_stores import BUCKET, versioned

pytestmark = pytest.mark.slow


def opened(settings: S3Settings) -> S3BlockStore:
    return open_driver(settings, ThreadRuntime())


@contextmanager
def counted_deletes(store: S3BlockStore) -> Iterator[list[str]]:
    """Delete operations of the vendor's library."""
    sent: list[str] = []

    def note(event_name: str, **_: object) -> None:
        sent.append(event_name)

    events = store._sdk.meta.events
    events.register("before-send.s3.DeleteObjects", note)
    yield sent
    events.unregister("before-send.s3.DeleteObjects", note)


@pytest.mark.parametrize("server", ["seaweedfs_settings", "moto_settings"])
def test_a_thousand_objects_go_by_one_request(server: str, request: pytest.FixtureRequest) -> None:
    store = opened(request.getfixturevalue(server))
    namespace = Namespace.parse(f"s3://{BUCKET}/bulk-{uuid.uuid4().hex}")
    there = [namespace.address(f"a/{number}") for number in range(20)]
    for address in there:
        store.put(address, [b"x"])
    missing = [namespace.address(f"b/{number} ü&<") for number in range(1180)]
    with counted_deletes(store) as sent:
        results = store.delete_many([*there, *missing])
    assert [result.address for result in results] == [*there, *missing]
    assert [result.error for result in results] == [None] * 1200
    assert len(sent) == 2
    assert list(store.list_objects(namespace)) == []


@pytest.mark.parametrize("server", ["seaweedfs_settings", "moto_settings"])
def test_fifty_folders_are_one_listing(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(request.getfixturevalue(server))
    namespace = Namespace.parse(f"s3://{BUCKET}/folders-{uuid.uuid4().hex}")
    names = [f"{number:02}" for number in range(50)]
    for name in names:
        store.put(namespace.address(f"{name}/x/1"), [b""])
    list_page, pages = SignedRequests.list_page, 0

    def count(self: SignedRequests, *args: Any, **kwargs: Any) -> ListingPage:
        nonlocal pages
        pages += 1
        return list_page(self, *args, **kwargs)

    monkeypatch.setattr(SignedRequests, "list_page", count)
    assert list(store.list_folders(namespace)) == names
    assert pages == 1


@pytest.mark.parametrize("server", ["seaweedfs_settings", "moto_settings"])
def test_all_versions_go(server: str, request: pytest.FixtureRequest) -> None:
    settings: S3Settings = request.getfixturevalue(server)
    client, namespace = versioned(settings)
    store, bucket = opened(settings), namespace.parts.bucket
    address, beside = namespace.address("a"), namespace.address("a2")
    for body in (b"1", b"22", b"333"):
        store.put(address, [body])
        store.put(beside, [body])
    store.delete(address)
    assert len(client.list_object_versions(Bucket=bucket)["Versions"]) == 6
    (result,) = store.delete_versions([address])
    assert (result.error, result.versions, result.bytes) == (None, 4, 6)  # with the delete marker
    left = client.list_object_versions(Bucket=bucket)
    assert {each["Key"] for each in left["Versions"]} == {"lake/a2"}
    assert "DeleteMarkers" not in left


def test_a_delete_says_whether_the_bucket_keeps_the_version(moto_settings: S3Settings) -> None:
    _, namespace = versioned(moto_settings)
    plain = Namespace.parse(f"s3://{BUCKET}/plain-{uuid.uuid4().hex}")
    store = opened(moto_settings)
    for each in (namespace, plain):
        store.put(each.address("a"), [b"1"])
    results = store.delete_many([each.address("a") for each in (namespace, plain)])
    assert [(result.error, result.leaves_versions) for result in results] == [
        (None, True),
        (None, False),
    ]


def test_a_version_under_object_lock_says_until_when(moto_settings: S3Settings) -> None:
    client, namespace = versioned(moto_settings, locks=True)
    store, bucket = opened(moto_settings), namespace.parts.bucket
    retained, held, free = (namespace.address(name) for name in ("retained", "held", "free"))
    for address in (retained, held, free):
        store.put(address, [b"1"])
    client.put_object_retention(
        Bucket=bucket,
        Key=retained.path,
        Retention={"Mode": "GOVERNANCE", "RetainUntilDate": datetime(2199, 1, 2, tzinfo=UTC)},
    )
    client.put_object_legal_hold(Bucket=bucket, Key=held.path, LegalHold={"Status": "ON"})
    results = store.delete_versions([retained, held, free])
    errors = [str(result.error or "") for result in results]
    assert errors[0].startswith("locked until 2199-01-02T00:00:00+00:00 by object lock")
    assert errors[1].startswith("locked until the end of its legal hold")
    assert errors[2] == ""
    assert all(isinstance(result.error, Locked) for result in results[:2])
    assert store.read(retained) == store.read(held) == b"1"


@contextmanager
def answering(answer: Callable[[str, str], tuple[int, bytes]]) -> Iterator[S3Settings]:
    """A storage with prepared responses by method and path of a request."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, body = answer(self.command, self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_DELETE = handle_any  # noqa: N815 - as http.server calls it

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield S3Settings(
            endpoint=f"http://127.0.0.1:{server.server_address[1]}",
            access_key_id="id",
            secret_access_key="secret",
            path_style=True,
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ANSWER = b"""<?xml version="1.0" encoding="UTF-8"?>
<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<Deleted><Key>lake/gone</Key></Deleted>
<Error><Key>lake/held</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>
<Error><Key>lake/slow</Key><Code>SlowDown</Code><Message>Later</Message></Error>
<Error><Key>lake/never</Key><Code>NoSuchKey</Code><Message>None</Message></Error>
</DeleteResult>"""


def test_the_result_of_each_object_is_reported() -> None:
    single: list[str] = []

    def answer(method: str, path: str) -> tuple[int, bytes]:
        if method == "POST":
            return 200, ANSWER
        single.append(path)
        return 204, b""

    namespace = Namespace.parse("s3://bucket/lake")
    names = ["gone", "held", "slow", "never", "forgotten"]
    with answering(answer) as settings:
        results = opened(settings).delete_many([namespace.address(name) for name in names])
    kinds = [None if result.error is None else type(result.error) for result in results]
    assert kinds == [None, Forbidden, StorageUnavailable, None, None]
    assert "s3://bucket/lake/held" in str(results[1].error)
    assert "SlowDown" in str(results[2].error)
    # The response does not include it, so it is deleted individually.
    assert single == ["/bucket/lake/forgotten"]


def test_a_storage_without_the_call_is_asked_one_by_one() -> None:
    def answer(method: str, _path: str) -> tuple[int, bytes]:
        refused = b"<Error><Code>MethodNotAllowed</Code></Error>"
        return (405, refused) if method == "POST" else (204, b"")

    namespace = Namespace.parse("s3://bucket/lake")
    with answering(answer) as settings:
        results = opened(settings).delete_many([namespace.address("a"), namespace.address("b")])
    assert [result.error for result in results] == [None, None]


def test_a_bucket_that_refuses_the_whole_request() -> None:
    def answer(_method: str, _path: str) -> tuple[int, bytes]:
        return 403, b"<Error><Code>AccessDenied</Code></Error>"

    namespace = Namespace.parse("s3://bucket/lake")
    with answering(answer) as settings:
        results = opened(settings).delete_many([namespace.address("a"), namespace.address("b")])
    assert all(isinstance(result.error, Forbidden) for result in results)


VERSIONS = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated>
<Version><Key>lake/a</Key><VersionId>v1</VersionId><Size>3</Size></Version></ListVersionsResult>"""
REFUSED = b"<Error><Code>AccessDenied</Code></Error>"


@pytest.mark.parametrize(
    ("may_list", "right"),
    [
        (False, "s3:ListBucketVersions on arn:aws:s3:::bucket"),
        (True, "s3:DeleteObjectVersion on arn:aws:s3:::bucket/*"),
    ],
)
def test_a_missing_right_on_versions_is_named(*, may_list: bool, right: str) -> None:
    def answer(method: str, _path: str) -> tuple[int, bytes]:
        if method == "GET" and may_list:
            return 200, VERSIONS
        if method == "POST":
            error = b"<Error><Key>lake/a</Key><VersionId>v1</VersionId><Code>AccessDenied</Code>"
            return 200, b"<DeleteResult>" + error + b"</Error></DeleteResult>"
        return 403, REFUSED

    with answering(answer) as settings:
        (result,) = opened(settings).delete_versions([Address.parse("s3://bucket/lake/a")])
    assert isinstance(result.error, Forbidden)
    assert str(result.error).endswith(f"required: {right}")
