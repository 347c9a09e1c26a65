import hashlib
import signal
from pathlib import Path
from threading import Barrier, Event, Lock, get_ident
from typing import Any

import pytest

from lakebed.clients.cli.commands.fs.parallel import Outcome, Parallel, Stopped
from lakebed.clients.cli.commands.fs.transfer import fetch_file, send_file
from lakebed.clients.cli.errors import CommandError, Damaged
from lakebed.clients.cli.uris import PathUri
from lakebed.clients.http.errors import Refused, Unreachable
from tests.clients.http.scripted import Answer, Request, answer_json, object_stats, scripted_client

URI = PathUri("repo", "main", "a b.csv")
CONTENT = bytes(range(256)) * 12_000  # three chunks


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def ignore(_: int) -> None:
    pass


def test_an_object_becomes_a_file(tmp_path: Path) -> None:
    steps: list[int] = []
    target = tmp_path / "file"
    target.write_text("old")
    with scripted_client(lambda _: Answer(200, CONTENT, {"ETag": f'"{md5(CONTENT)}"'})) as client:
        assert fetch_file(client, URI, target, step=steps.append) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert sum(steps) == len(CONTENT)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(200, CONTENT, cut=100_000), Unreachable),
        (Answer(200, CONTENT, {"ETag": f'"{md5(b"other")}"'}), Damaged),
        (answer_json({"message": "no"}, 404), Refused),
    ],
)
def test_an_incomplete_download_leaves_no_file(
    tmp_path: Path, answer: Answer, error: type[CommandError]
) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with scripted_client(lambda _: answer) as client, pytest.raises(error):
        fetch_file(client, URI, target, step=ignore)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_stopped_download_leaves_nothing(tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise Stopped

    with scripted_client(lambda _: Answer(200, CONTENT)) as client, pytest.raises(Stopped):
        fetch_file(client, URI, tmp_path / "file", step=stop)
    assert list(tmp_path.iterdir()) == []


def test_the_checksum_of_a_multipart_upload_is_none_of_the_content(tmp_path: Path) -> None:
    etag = f'"{"a" * 32}-3"'
    with scripted_client(lambda _: Answer(200, CONTENT, {"ETag": etag})) as client:
        fetch_file(client, URI, tmp_path / "file", step=ignore)
    assert (tmp_path / "file").read_bytes() == CONTENT


def accepting(seen: list[Request], checksum: str) -> Any:
    def script(request: Request) -> Answer:
        seen.append(request)
        stats = object_stats("a", checksum=checksum, size_bytes=len(request.body))
        return answer_json(stats, 201)

    return script


@pytest.mark.parametrize("content", [b"", b"x", CONTENT])
def test_a_file_becomes_an_object(tmp_path: Path, content: bytes) -> None:
    seen: list[Request] = []
    steps: list[int] = []
    file = tmp_path / "file"
    file.write_bytes(content)
    with scripted_client(accepting(seen, md5(content))) as client, file.open("rb") as source:
        stats = send_file(client, URI, source, step=steps.append, content_type="text/csv")
    assert stats.size_bytes == len(content)
    [request] = seen
    assert request.body == content
    assert request.headers["Content-Length"] == str(len(content))
    assert request.headers["Content-Type"] == "text/csv"
    assert "Transfer-Encoding" not in request.headers
    assert sum(steps) == len(content)


def test_other_bytes_than_were_sent_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    with (
        scripted_client(accepting([], md5(b"other"))) as client,
        file.open("rb") as source,
        pytest.raises(Damaged, match="corrupted in transit"),
    ):
        send_file(client, URI, source, step=ignore)


def test_a_file_that_becomes_shorter_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)

    def shorten(_: int) -> None:
        with file.open("r+b") as other:
            other.truncate(1)

    with (
        scripted_client(accepting([], "")) as client,
        file.open("rb") as source,
        pytest.raises(CommandError, match="was truncated"),
    ):
        send_file(client, URI, source, step=shorten)


def test_outcomes_are_results_and_errors() -> None:
    def work(job: int) -> int:
        if job == 3:
            raise CommandError("three")
        if job == 4:
            raise FileExistsError(17, "File exists", "4")
        return job * 10

    outcomes = sorted(Parallel(2).run(range(1, 6), work), key=lambda outcome: outcome.job)
    assert outcomes == [
        Outcome(1, 10, None),
        Outcome(2, 20, None),
        Outcome(3, None, "three"),
        Outcome(4, None, "File exists"),
        Outcome(5, 50, None),
    ]


def test_so_many_at_a_time_and_no_more() -> None:
    together, lock, running, seen = Barrier(4), Lock(), [0], [0]

    def work(_: int) -> None:
        with lock:
            running[0] += 1
            seen[0] = max(seen[0], running[0])
        together.wait(30)
        with lock:
            running[0] -= 1

    list(Parallel(4).run(range(40), work))
    assert seen == [4]


def test_jobs_are_not_made_far_ahead() -> None:
    made: list[int] = []

    def jobs() -> Any:
        for job in range(1000):
            made.append(job)
            yield job

    outcomes = Parallel(3).run(jobs(), lambda job: job)
    next(outcomes)
    assert len(made) <= 6
    outcomes.close()  # type: ignore[attr-defined]


def test_when_making_jobs_fails_the_transfers_end() -> None:
    parallel, begun, ended = Parallel(1), Event(), Event()

    def jobs() -> Any:
        yield 1
        assert begun.wait(30)
        raise CommandError("the listing broke")

    def work(_: int) -> None:
        begun.set()
        try:
            while True:
                parallel.check()
        except Stopped:
            ended.set()
            raise

    with pytest.raises(CommandError, match="the listing broke"):
        list(parallel.run(jobs(), work))
    assert ended.wait(30)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_does_not_wake_the_caller_ends_the_wait() -> None:
    interrupted, ended = Event(), Event()
    in_time: list[bool] = []

    def work(_: int) -> None:
        signal.pthread_kill(get_ident(), signal.SIGINT)  # this thread's call is interrupted alone
        in_time.append(interrupted.wait(10))
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        list(Parallel(1).run([1], work))
    interrupted.set()
    assert ended.wait(30)
    assert in_time == [True]
