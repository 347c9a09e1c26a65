"""What is logged of failures, and what is never logged."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.block import Address, StorageUnavailable
from lakebed.kv import CorruptRecord, OutcomeUnknown, StoreUnavailable
from lakebed.server.http import logs
from lakebed.server.http.errors import message_of, status_of
from lakebed.server.settings import LoggingSettings
from tests.server.kit import REPOSITORY, Server, server

HOST = "db.internal.example"
Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Lines]:
    """The log, in a file, as JSON."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    file = tmp_path / "lakebed.log"
    logs.configure(LoggingSettings(format="json", file=file))
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = before
    root.setLevel(level)


@pytest.fixture
def served() -> Iterator[Server]:
    with server() as served:
        yield served


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("at postgresql://me:hunter2@db/x", "at postgresql://me:********@db/x"),
        ("postgresql://me:hun@ter2@db/x?a=b", "postgresql://me:********@db/x?a=b"),
        ("GET /x?X-Amz-Signature=hunter2&a=b", "GET /x?X-Amz-Signature=********&a=b"),
        ("https://a/b?sig=hunter2", "https://a/b?sig=********"),
        ("host=db password=hunter2 port=1", "host=db password=******** port=1"),
        ("url=https://a/b?sig=hunter2&c=d", "url=https://a/b?sig=********&c=d"),
        ("secret=token=hunter2", "secret=********"),
        ("nothing: to hide = here", "nothing: to hide = here"),
        ("http://127.0.0.1:8000/x", "http://127.0.0.1:8000/x"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert logs.mask_secrets(text) == masked


@pytest.mark.parametrize("text", ["a", "key", "://", "://a:", "a=", "sig-", "key=key "])
def test_the_time_of_masking_grows_with_the_text_alone(text: str) -> None:
    begun = time.process_time()
    logs.mask_secrets(text * (200_000 // len(text)) + " =://")
    assert time.process_time() - begun < 1


def test_lines_are_cut_before_they_are_masked() -> None:
    shown = logs.mask_secrets("password=hunter2 " + "x" * 100_000 + "\nsecret=hunter2")
    assert shown.startswith("password=******** xxx")
    assert shown.endswith("…\nsecret=********")
    assert len(shown) < 5000


def test_a_file_that_cannot_be_written_breaks_nothing_and_loses_nothing(
    lines: Lines, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(LoggingSettings(format="json", file=tmp_path / "lakebed.log"))
    logging.getLogger("lakebed.test").info("before")
    folder = tmp_path.rename(f"{tmp_path}-gone")
    for level in (logging.INFO, logging.WARNING):
        logging.getLogger("lakebed.test").log(level, "without a folder")
    shown = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    assert shown == ["without a folder"] * 2
    folder.rename(tmp_path)
    logging.getLogger("lakebed.test").info("after")
    assert [line["message"] for line in lines()] == ["before", "after"]


def test_a_cause_is_the_whole_chain_without_secrets() -> None:
    error = StoreUnavailable("cannot connect")
    error.__cause__ = OSError("no route to postgresql://me:hunter2@db")
    assert logs.cause_of(error) == (
        "StoreUnavailable: cannot connect;"
        " caused by OSError: no route to postgresql://me:********@db"
    )


def test_a_secret_in_a_traceback_is_masked(lines: Lines) -> None:
    logging.getLogger("lakebed.test").error(
        "at %s", "https://a?token=hunter2", exc_info=OSError("postgresql://me:hunter2@db")
    )
    (line,) = lines()
    assert "hunter2" not in str(line)
    assert "me:********@db" in line["exception"]


def test_a_text_that_is_not_unicode_is_still_one_line_of_json(lines: Lines) -> None:
    text = "half a pair: \ud800\nand a line"
    record = logging.LogRecord("lakebed.test", logging.WARNING, __file__, 1, text, (), None)
    # Not by a logger: pytest would capture it too, and xdist cannot send it to another process.
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handle(record)
    (line,) = lines()
    assert line["message"] == "half a pair: \ud800\nand a line"


def test_a_file_is_bounded_and_goes_on_in_a_new_one(
    lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LoggingSettings(file=tmp_path / "lakebed.log")
    logging.getLogger("lakebed.test").warning("first")
    logs.bound_file(settings)
    assert [line["message"] for line in lines()] == ["first"]
    monkeypatch.setattr(logs, "FILE_BYTES_MAX", 10)
    logs.bound_file(settings)
    logging.getLogger("lakebed.test").warning("second")
    assert [line["message"] for line in lines()] == ["second"]
    assert "first" in (tmp_path / "lakebed.log.1").read_text()


def test_beside_a_file_the_terminal_gets_warnings_only(
    tmp_path: Path, lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(LoggingSettings(format="text", file=tmp_path / "text.log"))
    logging.getLogger("lakebed.test").info("small")
    logging.getLogger("lakebed.test").warning("large")
    assert "small" not in capsys.readouterr().err
    assert "INFO    small" in (tmp_path / "text.log").read_text()
    assert "WARNING large" in (tmp_path / "text.log").read_text()


def test_a_refusal_has_its_kind_in_the_access_line(served: Server, lines: Lines) -> None:
    assert served.call("GET", "/repositories/nowhere").status_code == 404
    assert served.request("GET", "/api/v1/no/such/path").status_code == 404
    assert served.request("GET", "/a%00b").status_code == 400
    found, lost, odd = [line for line in lines() if line["logger"] == "lakebed.access"]
    assert (found["kind"], "cause" in found) == ("repository_not_found", False)
    assert (lost["kind"], odd["kind"]) == ("no_such_path", "bad_request")


@pytest.mark.parametrize(
    "error", [StoreUnavailable(f"cannot reach {HOST}"), OutcomeUnknown(f"{HOST} was cut off")]
)
def test_an_outage_is_answered_without_its_place_and_logged_with_it(
    served: Server, lines: Lines, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(served.services.foundation.store, "scan_page", fail)
    monkeypatch.setattr(served.services.foundation.store, "get_many", fail)
    answer = served.call("GET", "/repositories", headers={"X-Request-ID": "id-1"})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    assert HOST not in answer.text
    assert "the database does not answer" in answer.json["message"]
    warning, access = [line for line in lines() if line.get("request_id") == "id-1"][-2:]
    assert warning["level"] == "warning"
    assert HOST in warning["message"]
    assert (access["status"], access["kind"]) == (503, error.kind)  # type: ignore[attr-defined]
    assert HOST in access["cause"]


def test_bytes_that_are_missing_are_logged_with_their_cause(served: Server, lines: Lines) -> None:
    served.put("lost", b"x" * (1 << 17))
    path = f"/repositories/{REPOSITORY}/refs/main/objects"
    stats = served.call("GET", f"{path}/stat", params={"path": "lost"}).json
    served.services.foundation.block.delete(Address.parse(stats["physical_address"]))
    assert served.call("GET", path, params={"path": "lost"}).status_code == 410
    warning, access = lines()[-2:]
    assert warning["message"].startswith("request answered with 410: ")
    assert access["cause"] in warning["message"]
    assert access["kind"]


@pytest.mark.parametrize(
    "error",
    [StorageUnavailable(f"cannot reach {HOST}"), CorruptRecord(f"in {HOST}"), KeyError(HOST)],
)
def test_strangers_are_not_told_the_place_of_anything(error: Exception) -> None:
    assert HOST not in message_of(error, "getObject")
    assert status_of(error) in {500, 503}
