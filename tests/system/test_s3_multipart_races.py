"""Many clients at one multipart upload, and processes that are killed."""

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.kit.rounds import rounds
from tests.kit.s3_gateway import Client, Gateway, start
from tests.kit.served import Servers, eventually
from tests.system.s3_kit import FIRST, LAKE, LAST, begin, complete, send

pytestmark = pytest.mark.extended

ROUNDS = rounds(3, long=6)


@pytest.fixture
def s3(gateway: Gateway) -> Client:
    return gateway.client(max_pool_connections=16, retries={"total_max_attempts": 1})


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make calls at the same moment; return the answer of each, or the code of its error."""
    barrier = threading.Barrier(len(calls))

    def call(function: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return function()
        except ClientError as error:
            return error.response["Error"]["Code"]

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


def content(s3: Client, upload: dict[str, str]) -> bytes | None:
    try:
        body: bytes = s3.get_object(Bucket=LAKE, Key=upload["Key"])["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    return body


@pytest.mark.parametrize("number", range(ROUNDS))
def test_completions_at_once_make_one_object(s3: Client, number: int) -> None:
    upload = begin(s3, f"main/at once/{number}")
    first, last = send(s3, upload, 1, FIRST), send(s3, upload, 2, LAST)
    both, alone = (lambda: complete(s3, upload, first, last)), (lambda: complete(s3, upload, last))
    answers = at_once(both, alone, both, alone)
    told = {answer for answer in answers if "-" in answer}
    assert set(answers) - told <= {"NoSuchUpload"}
    assert len(told) == 1
    assert content(s3, upload) == (FIRST + LAST if told.pop().endswith("-2") else LAST)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_upload_is_completed_or_aborted(s3: Client, number: int) -> None:
    upload = begin(s3, f"main/or aborted/{number}")
    part = send(s3, upload, 1, LAST)
    aborted, completed = at_once(
        lambda: s3.abort_multipart_upload(**upload) and "aborted",
        lambda: complete(s3, upload, part),
    )
    assert aborted in {"aborted", "NoSuchUpload"}
    if completed.endswith("-1"):
        assert aborted == "NoSuchUpload"
        assert content(s3, upload) == LAST
    else:
        assert completed == "NoSuchUpload"
        assert content(s3, upload) is None


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_part_that_comes_while_an_upload_is_completed(s3: Client, number: int) -> None:
    upload = begin(s3, f"main/late part/{number}")
    part = send(s3, upload, 1, LAST)
    late, completed = at_once(
        lambda: send(s3, upload, 1, b"END"), lambda: complete(s3, upload, part)
    )
    if completed.endswith("-1"):
        assert content(s3, upload) == LAST
    else:
        assert completed == "InvalidPart"
        assert complete(s3, upload, late).endswith("-1")
        assert content(s3, upload) == b"END"


def worker_of(gateway: Gateway) -> psutil.Process:
    """Return the process that answers: the one that listens."""

    def listening() -> list[psutil.Process]:
        found = []
        for process in gateway.served.processes():
            try:
                connections = process.net_connections(kind="tcp")
            except psutil.Error:
                continue
            if any(each.status == psutil.CONN_LISTEN for each in connections):
                found.append(process)
        return found

    worker: psutil.Process = eventually(listening)[0]
    return worker


def repeated(gateway: Gateway, upload: dict[str, str], *parts: dict[str, object]) -> str:
    """Complete the upload; repeat until there is an answer."""
    for _ in range(100):
        s3 = gateway.client(retries={"total_max_attempts": 1}, read_timeout=10)
        try:
            return complete(s3, upload, *parts)
        except BotoCoreError:  # no answer
            time.sleep(0.2)
    pytest.fail("there was never an answer")


@pytest.mark.timeout(300)
def test_a_worker_that_is_killed_while_it_completes(servers: Servers) -> None:
    gateway = start(servers)
    chance = random.Random(6)
    for number in range(rounds(2, long=40)):
        s3 = gateway.client()
        upload = begin(s3, f"main/killed/{number}")
        parts = [send(s3, upload, 1, FIRST), send(s3, upload, 2, LAST)]
        worker = worker_of(gateway)
        killing = threading.Timer(chance.random() * 0.03, worker.kill)
        killing.start()
        etag = repeated(gateway, upload, *parts)
        killing.join()
        worker.wait(timeout=60)
        assert repeated(gateway, upload, *parts) == etag
        assert content(gateway.client(), upload) == FIRST + LAST


@pytest.mark.timeout(300)
def test_a_repeat_after_a_restart_answers_the_same(servers: Servers) -> None:
    first = start(servers)
    s3 = first.client()
    upload = begin(s3, "main/restarted")
    part = send(s3, upload, 1, LAST)
    etag = complete(s3, upload, part)
    family = first.served.processes()
    first.served.process.kill()
    first.served.process.wait()
    eventually(lambda: not any(process.is_running() for process in family))
    again = start(servers).client()
    again.put_object(Bucket=LAKE, Key="main/restarted", Body=b"newer")
    assert complete(again, upload, part) == etag
    assert content(again, upload) == b"newer"
