"""What `fs` does where a server answers as a real one seldom does."""

import json
from collections.abc import Callable

import pytest

from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.clients.cli.commands.fs.progress import TransferReport
from tests.clients.http.scripted import Answer, Request, answer_json, object_stats, scripted_server

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", "secret")

    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = running.run(cli.app, list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_command


class Stubborn:
    """Two pages of objects, of which those that end in 7 stay."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, request: Request) -> Answer:
        if request.method == "POST":
            paths = json.loads(request.body)["paths"]
            self.batches.append(paths)
            stay = [path for path in paths if path.endswith("7")]
            errors = [{"path": path, "status_code": 500, "message": "no"} for path in stay]
            return answer_json({"errors": errors})
        second = "after=f%2F5" in request.target
        names = range(6, 18) if second else range(6)
        items = [object_stats(f"f/{n}") for n in names]
        pagination = {"has_more": not second, "next_offset": "" if second else "f/5"}
        return answer_json({"results": items, "pagination": pagination})


def test_failed_removals_are_listed_and_the_rest_is_removed(run: Run) -> None:
    server = Stubborn()
    with scripted_server(server) as endpoint:
        code, printed, said = run("fs", "rm", "-r", "lakefs://r/main/f", "--endpoint", endpoint)
    assert [len(batch) for batch in server.batches] == [6, 12]
    assert code == 1
    assert printed == "Removed 16 object(s) below lakefs://r/main/f\n"
    assert said.splitlines() == [
        "could not remove f/7: no",
        "could not remove f/17: no",
        "lakebed: 2 object(s) below lakefs://r/main/f could not be removed",
    ]


@pytest.mark.parametrize("address", ["https://bucket.example/a?signed", "http://h/a"])
def test_an_address_for_anyone_is_printed(run: Run, address: str) -> None:
    stats = object_stats("a", physical_address=address, physical_address_expiry=60)
    with scripted_server(lambda _: answer_json(stats)) as endpoint:
        arguments = ("fs", "presign", "lakefs://r/main/a", "--endpoint", endpoint)
        assert run(*arguments) == (0, f"{address}\n", "")
        _, printed, _ = run(*arguments, "--json")
        assert json.loads(printed) == {"url": address, "expiry": 60}


def test_a_storage_without_such_addresses_is_said_to_be(run: Run) -> None:
    stats = object_stats("a", physical_address="local://lakes/a")
    with scripted_server(lambda _: answer_json(stats)) as endpoint:
        assert run("fs", "presign", "lakefs://r/main/a", "--endpoint", endpoint) == (
            1,
            "",
            (
                "lakebed: the storage of lakefs://r/main/a does not support presigned URLs: read"
                " through the server\n"
            ),
        )


def test_an_interrupt_prints_the_completed_part(capsys: pytest.CaptureFixture[str]) -> None:
    report = TransferReport("uploaded", goes_on=True)
    report.add("a", 1500, None)
    report.add("b", None, None)
    with pytest.raises(KeyboardInterrupt), report.reporting_interrupt():
        raise KeyboardInterrupt
    assert capsys.readouterr().err == (
        "Interrupted; 1 object(s), 1.5 kB uploaded. Run again to resume.\n"
    )


class Copying:
    """Objects below f/, of which one cannot be copied and one not be removed."""

    def __init__(self) -> None:
        self.copied: list[str] = []
        self.removed: list[str] = []

    def __call__(self, request: Request) -> Answer:
        path, _, query = request.target.partition("?")
        if path.endswith("/copy"):
            source = json.loads(request.body)["src_path"]
            if source == "f/3":
                return answer_json({"message": "no copy"}, status=410)
            self.copied.append(f"{source} {query}")
            return answer_json(object_stats("x", size_bytes=2), status=201)
        if path.endswith("/delete"):
            self.removed += json.loads(request.body)["paths"]
            errors = [{"path": "f/1", "status_code": 500, "message": "no removal"}]
            return answer_json({"errors": errors})
        if path.endswith("/branches/main"):
            return answer_json({"id": "main", "commit_id": "c"})
        items = [object_stats(f"f/{n}") for n in range(5)]
        return answer_json({"results": items, "pagination": {"has_more": False, "next_offset": ""}})


def test_a_move_removes_what_was_copied_and_nothing_else(run: Run) -> None:
    server = Copying()
    arguments = ("fs", "mv", "-r", "-p", "1", "lakefs://r/main/f", "lakefs://r/dev/g")
    with scripted_server(server) as endpoint:
        code, printed, said = run(*arguments, "--endpoint", endpoint)
    assert [line.partition(" ")[0] for line in server.copied] == ["f/0", "f/1", "f/2", "f/4"]
    assert server.copied[0] == "f/0 dest_path=g%2F0"
    assert server.removed == ["f/0", "f/1", "f/2", "f/4"]
    assert code == 1
    assert printed == "Moved lakefs://r/main/f to lakefs://r/dev/g: 4 object(s), 8 B\n"
    assert "not moved: f/3: no copy" in said
    assert "copied, but not removed: f/1: no removal" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["cp", "lakefs://r/main/a", "lakefs://s/main/a"], "different repositories"),
        (["cp", "lakefs://r/main/a", "lakefs://r/main/a"], "source and target are both"),
        (["cp", "lakefs://r/main/d/a", "lakefs://r/main/d/"], "source and target are both"),
        (["mv", "lakefs://r/main/f/", "lakefs://r/main/g"], "pass -r"),
        (["cp", "-r", "lakefs://r/main/f", "lakefs://r/main/f/g"], "outside of it"),
    ],
)
def test_copies_that_make_no_sense_are_refused(run: Run, arguments: list[str], reason: str) -> None:
    server = Copying()
    with scripted_server(server) as endpoint:
        code, printed, said = run("fs", *arguments, "--endpoint", endpoint)
    assert (code, printed, server.copied) == (2, "", [])
    assert reason in said
