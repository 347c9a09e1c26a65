"""`make test-all PARTS=fetched` begins with the programs that are missing."""

import pytest

from lakebed.testing.servers import ServerMissingError, fetch_databases
from lakebed.testing.servers.fetch_databases import PROGRAMS, fetched, main, missing_programs


def test_each_program_that_is_missing_is_named() -> None:
    missing = missing_programs(lambda name: None if name in {"mvn", "go"} else f"/bin/{name}")
    assert [line.partition(":")[0] for line in missing] == ["mvn", "go"]


def test_without_its_programs_nothing_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(fetch_databases, "_fetch", lambda *_: pytest.fail("it fetched"))
    assert main() == 1
    said = capsys.readouterr().err
    assert all(f"\n  {name}: " in said for name in PROGRAMS)


def test_a_server_that_was_not_fetched_is_an_error_and_no_skip() -> None:
    with pytest.raises(
        ServerMissingError, match="the oracle server is missing: make test-all PARTS=fetched"
    ):
        fetched("oracle")
