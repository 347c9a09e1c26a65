"""The web UI as people use it: a real browser, a real server, real data."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.ui.lake import collect, fill, new_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ui")]

_PROGRAM: Final = Path(__file__).with_name("visitor.mjs")
_PIXEL: Final = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf50000004020181"
    "c3a1d8d20000000049454e44ae426082"
)

_GATE: Final = b"""\
name: gate
on:
  pre-commit:
hooks:
  - id: wait
    type: lua
    properties:
      script: |
        local lakefs, time = require("lakefs"), require("time")
        print("waiting for the gate")
        for _ = 1, 1000 do
          if lakefs.stat_object(action.repository_id, "gate", "gate.txt") == 200 then
            print("the gate is open")
            return
          end
          time.sleep(100 * 1000 * 1000)
        end
        error("the gate stayed shut")
"""


class Visitor:
    """A person with a browser."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.scenarios: list[str] = self._answer()["scenarios"]

    def play(self, scenario: str, lake: dict[str, Any]) -> Any:
        """Play a scenario; it fails if the page had a fault or its policy had to stop something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"scenario": scenario, "lake": lake}) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert "error" not in answer, answer["error"]
        assert answer["violations"] == []
        assert answer["faults"] == []
        return answer["found"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(
            self._process.stdout.readline() or '{"error": "the browser has ended"}'
        )
        return answer


@contextmanager
def visitor() -> Iterator[Visitor]:
    node = shutil.which("node")
    assert node is not None, "the tests with a browser need Node"
    process = subprocess.Popen(
        [node, str(_PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Visitor(process)
    finally:
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def person() -> Iterator[Visitor]:
    with visitor() as found:
        yield found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, person: Visitor) -> Iterator[dict[str, Any]]:
    """A server that was set up in the browser, with a lake in it."""
    folder = tmp_path_factory.mktemp("ui")
    with new_server(folder) as endpoint:
        keys = person.play("setUp", {"endpoint": endpoint})
        pair = keys["key"], keys["secret"]
        with httpx.Client(base_url=f"{endpoint}/api/v1", auth=pair, timeout=60) as api:
            found = fill(api, "local://lakes")
            more = _more(api)
        collect(endpoint, pair)
        outside = folder / "objects" / "outside"
        outside.mkdir()
        (outside / "old.csv").write_text("a,b\n1,2\n")
        yield {
            **found,
            **keys,
            "endpoint": endpoint,
            "reader": more,
            "importable": "local://outside/",
            "droppable": _on_the_desktop(folder / "desktop"),
        }


def _on_the_desktop(folder: Path) -> list[str]:
    """A folder and a file, to be dropped on a page."""
    (folder / "survey" / "deep").mkdir(parents=True)
    (folder / "survey" / "first.txt").write_text("one")
    (folder / "survey" / "deep" / "second.txt").write_text("two")
    (folder / "levels.csv").write_text("id,level\n1,370\n")
    return [str(folder / "survey"), str(folder / "levels.csv")]


def _more(api: httpx.Client) -> dict[str, str]:
    """Objects that cannot be shown, a branch with a change, and somebody who may only read."""
    base = "/repositories/lakes/branches"
    assert api.post(base, json={"name": "draft", "source": "main"}).status_code == 201
    for name in ("gate", "watched"):
        assert api.post(base, json={"name": name, "source": "main"}).status_code == 201
    for branch, path, data, kind in (
        ("main", "broken.parquet", b"PAR1 but no more than that", "application/octet-stream"),
        ("main", "picture.png", _PIXEL, "image/png"),
        ("main", "proposed.csv", b"id,level\n1,370\n", "text/csv"),
        ("main", "large.csv", _numbers(25_000), "text/csv"),
        ("draft", "new.txt", b"new", "text/plain"),
        ("watched", "_lakefs_actions/gate.yaml", _GATE, "text/yaml"),
    ):
        made = api.post(
            f"{base}/{branch}/objects",
            params={"path": path},
            content=data,
            headers={"Content-Type": kind},
        )
        assert made.status_code == 201, made.text
    done = api.post(f"{base}/main/commits", json={"message": "More to look at"})
    assert done.status_code == 201, done.text
    assert api.post(base, json={"name": "proposal", "source": "main"}).status_code == 201
    proposed = b"id,level\n1,370\n2,371\n"
    api.post(f"{base}/proposal/objects", params={"path": "proposed.csv"}, content=proposed)
    done = api.post(f"{base}/proposal/commits", json={"message": "One level more"})
    assert done.status_code == 201, done.text
    assert api.post(base, json={"name": "shrunk", "source": "main"}).status_code == 201
    api.post(f"{base}/shrunk/objects", params={"path": "large.csv"}, content=_numbers(24_000))
    done = api.post(f"{base}/shrunk/commits", json={"message": "A thousand rows less"})
    assert done.status_code == 201, done.text
    assert api.post("/auth/users", json={"id": "reader"}).status_code == 201
    assert api.put("/auth/users/reader/policies/FSReadAll").status_code == 201
    keys = api.post("/auth/users/reader/credentials").json()
    return {"key": keys["access_key_id"], "secret": keys["secret_access_key"]}


def _numbers(count: int) -> bytes:
    return "\n".join(["id", *map(str, range(count))]).encode()


PATHS: Final = (
    "logInAndOut",
    "repositories",
    "objects",
    "search",
    "dropping",
    "previews",
    "changes",
    "history",
    "branchesAndTags",
    "pullRequests",
    "compareAndMerge",
    "largeTables",
    "actions",
    "watching",
    "settings",
    "garbage",
    "imports",
    "administration",
    "readerIsRefused",
    "keyboard",
    "links",
    "apiPage",
)


# The way of a first visit, which `make test` plays.
FIRST: Final = ("logInAndOut", "repositories", "objects", "changes", "compareAndMerge")


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(path, marks=() if path in FIRST else pytest.mark.extended) for path in PATHS],
)
def test_each_page_does_its_work_and_answers_mistakes_with_advice(
    scenario: str, person: Visitor, lake: dict[str, Any]
) -> None:
    person.play(scenario, lake)


def test_objects_are_painted_after_one_round_trip(person: Visitor, lake: dict[str, Any]) -> None:
    asked = person.play("firstPaint", lake)["asked"]
    assert sum(path.endswith("/objects/ls") for path in asked) == 1, asked


@pytest.mark.extended
def test_every_page_is_accessible_and_fits_a_phone(person: Visitor, lake: dict[str, Any]) -> None:
    assert person.play("everyPage", lake) == {"faults": [], "wide": []}


def test_every_scenario_is_played(person: Visitor) -> None:
    others = {"setUp", "firstPaint", "everyPage"}
    assert set(person.scenarios) == {*PATHS, *others}
