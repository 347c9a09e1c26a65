"""How long messages and metadata of commits and repositories may be, over the API."""

from collections.abc import Iterator
from typing import Any

import pytest

from lakebed.engine.model import WORDS_BYTES_MAX, RepositoryID
from tests.server.kit import REPOSITORY, Server, server

BRANCHES = f"/repositories/{REPOSITORY}/branches"
LONG = "\N{SNOWMAN}" * (WORDS_BYTES_MAX // 3 + 1)
"""Of fewer characters than the bound has bytes."""


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        found.services.catalog.ref_changes.create_branch(RepositoryID(REPOSITORY), "dev", "main")
        for branch in ("main", "dev"):
            found.put(f"of {branch}", b"data", branch)
            made = found.call("POST", f"{BRANCHES}/{branch}/commits", json={"message": "m"})
            assert made.status_code == 201, made.text
        found.put("staged", b"data", "main")
        yield found


def head(world: Server) -> str:
    found: str = world.call("GET", f"{BRANCHES}/main").json["commit_id"]
    return found


SOURCE = {"type": "common_prefix", "path": "local://elsewhere/", "destination": ""}
REQUESTS: dict[str, Any] = {
    "commit": (f"{BRANCHES}/main/commits", lambda words: words),
    "merge": (f"/repositories/{REPOSITORY}/refs/dev/merge/main", lambda words: words),
    "revert": (
        f"{BRANCHES}/main/revert",
        lambda words: {"ref": "main", "parent_number": 0, "commit_overrides": words},
    ),
    "cherry-pick": (
        f"{BRANCHES}/main/cherry-pick",
        lambda words: {"ref": "dev", "commit_overrides": words},
    ),
    "import": (
        f"{BRANCHES}/main/import",
        lambda words: {"paths": [SOURCE], "commit": {"message": "m", **words}},
    ),
}


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"message": LONG}, "the commit message has"),
        (
            {"message": "m", "metadata": {"a": "x" * (WORDS_BYTES_MAX - 1), "b": ""}},
            "the commit metadata has",
        ),
        ({"message": "m", "metadata": {LONG: ""}}, "the commit metadata has"),
    ],
    ids=["message", "values", "name"],
)
def test_words_of_a_commit_that_are_too_long_are_refused(
    world: Server, kind: str, words: dict[str, Any], said: str
) -> None:
    path, body = REQUESTS[kind]
    before = head(world)
    answer = world.call("POST", path, json=body(words))
    assert (answer.status_code, answer.json["kind"]) == (400, "invalid_metadata")
    assert answer.json["message"].startswith(said)
    assert head(world) == before


def test_the_longest_words_of_a_commit_are_kept(world: Server) -> None:
    words = {"message": "x" * WORDS_BYTES_MAX, "metadata": {"a": "x" * (WORDS_BYTES_MAX - 1)}}
    world.put("long", b"data", "dev")
    made = world.call("POST", f"{BRANCHES}/dev/commits", json=words)
    assert made.status_code == 201, made.text
    assert (made.json["message"], made.json["metadata"]) == (words["message"], words["metadata"])
    picked = world.call("POST", f"{BRANCHES}/dev/cherry-pick", json={"ref": "dev"})
    assert picked.status_code == 201, "words of an earlier commit are not the client's"


def test_metadata_of_a_repository_is_bounded_as_a_whole(world: Server) -> None:
    path = f"/repositories/{REPOSITORY}/metadata"
    most = {"metadata": {"a": "x" * (WORDS_BYTES_MAX - 1)}}
    assert world.call("POST", path, json=most).status_code == 204
    answer = world.call("POST", path, json={"metadata": {"b": ""}})
    assert answer.status_code == 400
    assert "would have 65537 bytes, names and values together: the limit is 65536" in answer.text
    assert set(world.call("GET", path).json) == {"a"}
    assert world.call("DELETE", path, json={"keys": ["a"]}).status_code == 204
    assert world.call("POST", path, json={"metadata": {"b": ""}}).status_code == 204
