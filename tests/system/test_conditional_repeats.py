"""Clients that repeat conditional writes by themselves, behind a proxy that loses replies.

Of each request the first reply is lost, and the second is replaced by a 503 although the server did
what it was asked. Every client must be told the truth in the end: its bytes stand, or 412.
"""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.s3_gateway import Client
from tests.kit.unruly_proxy import Fault, UnrulyProxy, lost, made_up, unruly_proxy
from tests.system.api_kit import RawClient, create_repository
from tests.system.conditional_races import raced_server

pytestmark = [pytest.mark.extended, pytest.mark.slow]

LAKE = "lake"
CLIENTS = 4
KEYS = 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    with raced_server(tmp_path_factory.mktemp("server")) as started:
        with RawClient(started) as client:
            create_repository(client, LAKE)
        yield started


@pytest.fixture
def proxy(server: LakebedServer) -> Iterator[UnrulyProxy]:
    with unruly_proxy(server.endpoint) as found:
        found.rule = by_attempt
        yield found


def by_attempt(_method: str, headers: Message) -> Fault | None:
    """Lose the reply to the first attempt, and replace that to the second."""
    if "If-None-Match" not in headers and "If-Match" not in headers:
        return None
    attempt = headers.get("amz-sdk-request", "").partition(";")[0]
    faults = {"attempt=1": lost, "attempt=2": made_up(503, "ServiceUnavailable")}
    return faults.get(attempt)


def client_at(server: LakebedServer, endpoint: str) -> Client:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
        region_name="us-east-1",
        config=Config(
            s3={"addressing_style": "path"},
            retries={"mode": "standard", "total_max_attempts": 5},
            max_pool_connections=CLIENTS * KEYS,
        ),
    )


def all_at_once(calls: list[Callable[[], Any]]) -> list[int]:
    """Return the status that each call ends with."""

    def status(call: Callable[[], Any]) -> int:
        try:
            call()
        except ClientError as error:
            found: int = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return found
        return 200

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(status, calls))


@pytest.mark.parametrize("equal", [False, True], ids=["bytes of their own", "equal bytes"])
def test_of_clients_that_repeat_one_wins_and_knows_it(
    server: LakebedServer, proxy: UnrulyProxy, equal: bool
) -> None:
    s3 = client_at(server, proxy.endpoint)

    def put(key: str, number: int) -> Callable[[], Any]:
        body = b"" if equal else b"%d" % number
        return lambda: s3.put_object(Bucket=LAKE, Key=key, Body=body, IfNoneMatch="*")

    keys = [f"main/{uuid.uuid4().hex}" for _ in range(KEYS)]
    places = [(key, number) for key in keys for number in range(CLIENTS)]
    told = dict(zip(places, all_at_once([put(*place) for place in places]), strict=True))
    direct = client_at(server, server.endpoint)
    for key in keys:
        statuses = [told[key, number] for number in range(CLIENTS)]
        assert sorted(statuses) == [200] + [412] * (CLIENTS - 1)
        stands = direct.get_object(Bucket=LAKE, Key=key)["Body"].read()
        assert stands == (b"" if equal else b"%d" % statuses.index(200))
    assert proxy.seen.count("PUT") >= 3 * len(places)


def test_a_counter_counts_each_acknowledged_increment_once(
    server: LakebedServer, proxy: UnrulyProxy
) -> None:
    s3 = client_at(server, proxy.endpoint)
    where = {"Bucket": LAKE, "Key": f"main/{uuid.uuid4().hex}"}
    client_at(server, server.endpoint).put_object(**where, Body=b"0")

    def increment() -> None:
        """Read, add one and write, until that was not refused."""
        status = 412
        while status == 412:
            read = s3.get_object(**where)
            new = b"%d" % (int(read["Body"].read()) + 1)
            put = partial(s3.put_object, **where, Body=new, IfMatch=read["ETag"])
            (status,) = all_at_once([put])
        assert status == 200

    assert all_at_once([increment] * CLIENTS) == [200] * CLIENTS
    assert s3.get_object(**where)["Body"].read() == b"%d" % CLIENTS


def test_uploads_in_parts_and_copies_that_are_repeated(
    server: LakebedServer, proxy: UnrulyProxy
) -> None:
    s3 = client_at(server, proxy.endpoint)
    source, key = (f"main/{uuid.uuid4().hex}" for _ in range(2))
    uploads = [s3.create_multipart_upload(Bucket=LAKE, Key=source)["UploadId"] for _ in range(2)]

    def complete(upload_id: str) -> Callable[[], Any]:
        where = {"Bucket": LAKE, "Key": source, "UploadId": upload_id}
        part = s3.upload_part(**where, PartNumber=1, Body=upload_id.encode())
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        return lambda: s3.complete_multipart_upload(**where, MultipartUpload=parts, IfNoneMatch="*")

    told = all_at_once([complete(each) for each in uploads])
    assert sorted(told) == [200, 412]
    stands = s3.get_object(Bucket=LAKE, Key=source)["Body"].read()
    assert stands == uploads[told.index(200)].encode()

    def copy() -> None:
        where = {"Bucket": LAKE, "Key": source}
        s3.copy_object(Bucket=LAKE, Key=key, CopySource=where, IfNoneMatch="*")

    assert sorted(all_at_once([copy] * CLIENTS)) == [200] + [412] * (CLIENTS - 1)


def test_a_repeat_is_recognised_after_a_commit(server: LakebedServer, proxy: UnrulyProxy) -> None:
    """And by any worker: each attempt is a new connection."""
    s3 = client_at(server, proxy.endpoint)
    path = uuid.uuid4().hex

    def commit() -> None:
        with RawClient(server) as client:
            at = f"/repositories/{LAKE}/branches/main/commits"
            assert client.post_json(at, {"message": "between"}).status == 201

    proxy.rule = None
    proxy.answer("PUT", 500, "InternalError", then=commit)
    s3.put_object(Bucket=LAKE, Key=f"main/{path}", Body=b"x", IfNoneMatch="*")
    assert proxy.seen == ["PUT", "PUT"]
