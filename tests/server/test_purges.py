"""Purges as tasks of the API."""

from typing import Any

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.engine.model import RepositoryID
from lakebed.kv.records import Records
from lakebed.lake.keys import TASKS
from tests.server.kit import REPOSITORY, server

PURGES = f"/repositories/{REPOSITORY}/purges"


def test_the_progress_of_a_purge_is_shown_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are deleted by then, and the second search begins a quarter of an hour later."""
    shown: list[Any] = []
    with server() as world:
        world.put("a", b"data")
        repository = world.services.catalog.repositories.get(RepositoryID(REPOSITORY))

        def look(_runtime: ThreadRuntime, _seconds: float) -> None:
            store = world.services.foundation.store
            (task,) = Records(store, TASKS, repository.partition).scan()
            shown.append(world.call("GET", f"{PURGES}/{task.name.decode()}").json)

        monkeypatch.setattr(ThreadRuntime, "sleep", look)
        begun = world.call("POST", PURGES, json={"path": "a", "reason": "r", "confirm": True})
        assert begun.status_code == 202, begun.text
        done = world.call("GET", f"{PURGES}/{begun.json['id']}").json
    (waiting,) = shown
    assert (waiting["id"], waiting["completed"]) == (begun.json["id"], False)
    progress = waiting["progress"]
    assert (progress["step"], progress["report"]["deleted"]) == ("waiting", 1)
    assert progress["searches_again"] > waiting["update_time"]
    assert (done["completed"], done["result"]["deleted"]) == (True, 1)
