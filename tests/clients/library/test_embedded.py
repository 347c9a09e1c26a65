"""What a lake in a folder does by itself, where a server would do it."""

import getpass
import os
from pathlib import Path

import pytest

import lakebed
from lakebed.clients.library import hook_calls
from lakebed.clients.library.embedded import EmbeddedBackend
from lakebed.installation.folder import SHORT_TIMES
from tests.kit.receiver import Receiver

ACTION = """
name: check
on:
  pre-commit:
  post-commit:
hooks:
  - id: ask
    type: webhook
    properties:
      url: {url}
"""
DAY_US = 24 * 3600 * 1_000_000


def backend_of(lake: lakebed.Lake) -> EmbeddedBackend:
    backend = lake._backend
    assert isinstance(backend, EmbeddedBackend)
    return backend


def test_hooks_run_before_and_after(folder_lake: lakebed.Lake) -> None:
    receiver = Receiver()
    try:
        main = folder_lake.repository("hooked").create().branch("main")
        action = ACTION.format(url=f"{receiver.url}/ask")
        main.object("_lakefs_actions/check.yaml").upload(action)
        receiver.statuses["/ask"] = 500
        with pytest.raises(lakebed.PreconditionFailed, match="pre-commit hook aborted"):
            main.commit("Refused")
        assert main.get_commit().message == "Repository created"
        _, asked_about, _ = receiver.bodies[-1]
        refused = folder_lake.repository("hooked").ref(asked_about["commit_id"])
        assert "hook 'ask' of action 'check'" in str(refused.get_commit().refused_by)
        assert [each.refused_by for each in refused.log()][1:] == [None]
        assert next(iter(refused.log())).refused_by == refused.get_commit().refused_by
        receiver.statuses["/ask"] = 200
        main.commit("Accepted")
    finally:
        receiver.close()
    asked = [(body["event_type"], body["committer"]) for _, body, _ in receiver.bodies]
    assert asked == [("pre-commit", "ada"), ("pre-commit", "ada"), ("post-commit", "ada")]


def test_a_hook_reads_its_script_and_nothing_else(
    folder_lake: lakebed.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_lake.repository("hooked").create().branch("main").object("script.lua").upload("print(1)")
    caller = hook_calls._Caller(backend_of(folder_lake)._catalog)
    where = {"repository": "hooked", "reference": "main", "path": "script.lua"}
    assert caller.call("get_object", where) == (200, b"print(1)")
    assert caller.call("get_object", where | {"path": "none"})[0] == 404
    assert caller.call("create_tag", {})[0] == 501
    monkeypatch.setattr(hook_calls, "OBJECT_BYTES_MAX", 7)
    assert caller.call("get_object", where)[0] == 413


def test_its_times_fit_those_of_any_server(folder_lake: lakebed.Lake) -> None:
    """It writes by short times, so it is done in time for all; it collects by long ones."""
    assert backend_of(folder_lake)._installation.settings.gc == SHORT_TIMES
    SHORT_TIMES.check(backend_of(folder_lake)._installation.settings.engine)
    repository = folder_lake.repository("times").create()
    run = repository.collect_garbage()
    assert run.began_us - run.cutoff_us >= DAY_US
    patient = repository.collect_garbage(min_age_seconds=2 * 24 * 3600)
    assert patient.began_us - patient.cutoff_us >= 2 * DAY_US


def test_commits_are_of_the_user_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lakebed.open(tmp_path) as lake:
        first = lake.repository("mine").create().branch("main").get_commit()
    assert first.committer == getpass.getuser()

    def fail() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", fail)
    with lakebed.open(tmp_path) as lake:
        commit = lake.repository("mine").branch("main").commit("In a container", allow_empty=True)
    assert commit.committer == f"uid-{os.getuid()}"


def test_repositories_have_a_place(folder_lake: lakebed.Lake) -> None:
    created = folder_lake.repository("placed").create().properties
    assert created.storage_namespace == "local://placed"


def test_words_that_are_too_long_are_refused(folder_lake: lakebed.Lake) -> None:
    repository = folder_lake.repository("wordy").create()
    main = repository.branch("main")
    main.object("a").upload(b"data")
    long = "x" * (64 * 1024 + 1)
    for words in ({"message": long}, {"message": "m", "metadata": {"a": long}}):
        with pytest.raises(lakebed.Invalid, match="at most 65536 are allowed"):
            main.commit(**words)
    assert len(list(main.log())) == 1
