"""How commands end that nobody listens to any more, or that are interrupted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.clients.cli.kit import bare_environ
from tests.clients.http.scripted import (
    Answer,
    Numbers,
    Request,
    answer_json,
    object_stats,
    scripted_server,
)

COMMAND = [sys.executable, "-c", "import lakebed.clients.cli; lakebed.clients.cli.main()"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """No settings but those that a test makes."""
    return bare_environ(tmp_path)


def test_a_broken_pipe_is_silent(environ: dict[str, str]) -> None:
    def script(request: Request) -> Answer:
        answer = json.loads(Numbers(100_000)(request).body)
        folder = object_stats("x" * 100, path_type="common_prefix")
        answer["results"] = [folder] * len(answer["results"])
        return answer_json(answer)

    with (
        scripted_server(script) as endpoint,
        subprocess.Popen(
            [*COMMAND, "fs", "ls", "lakefs://repo/main", "--endpoint", endpoint],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_nothing_is_said_when_a_short_answer_has_no_reader(environ: dict[str, str]) -> None:
    with scripted_server(
        lambda _: answer_json({"user": {"id": "ada", "creation_date": 0}})
    ) as endpoint:
        read, write = os.pipe()
        os.close(read)
        ended = subprocess.run(
            [*COMMAND, "identity", "--endpoint", endpoint],
            env=environ,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.fixture
def slow_transfers() -> Iterator[tuple[str, Event]]:
    """A server with two objects whose bytes trickle, and a sign that one is under way."""
    begun, end = Event(), Event()

    def script(request: Request) -> Answer:
        if "/objects/ls" in request.target:
            items = [object_stats(name, size_bytes=1) for name in "ab"]
            return answer_json(
                {"results": items, "pagination": {"has_more": False, "next_offset": ""}}
            )
        begun.set()
        end.wait(60)
        return Answer(200, b"x")

    with scripted_server(script) as endpoint:
        yield endpoint, begun
        end.set()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("arguments", [["cat", "lakefs://repo/main/a"], ["download", "-r"]])
def test_an_interrupt_ends_cleanly(
    environ: dict[str, str],
    slow_transfers: tuple[str, Event],
    arguments: list[str],
    tmp_path: Path,
) -> None:
    endpoint, begun = slow_transfers
    target = tmp_path / "target"
    if "download" in arguments:
        arguments = [*arguments, "lakefs://repo/main/", str(target)]
    with subprocess.Popen(
        [*COMMAND, "fs", *arguments, "--endpoint", endpoint],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert begun.wait(60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    done = (
        b"Interrupted; the partial transfer was discarded. Run again to restart.\n"
        if "download" in arguments
        else b""
    )
    assert (process.returncode, errors) == (130, done + b"lakebed: interrupted\n")
    assert not target.exists() or list(target.iterdir()) == []
