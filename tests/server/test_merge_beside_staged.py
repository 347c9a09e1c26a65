"""Merges that leave alone what is staged on the branch."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.kit import REPOSITORY, Server, server

HOME = f"/repositories/{REPOSITORY}"


@pytest.fixture
def lake() -> Iterator[Server]:
    with server() as made:
        for path in ("both", "gone", "kept"):
            made.put(path, b"old")
        call(made, 201, "POST", f"{HOME}/branches/main/commits", json={"message": "first"})
        call(made, 201, "POST", f"{HOME}/branches", json={"name": "dev", "source": "main"})
        made.put("both", b"theirs", "dev")
        made.put("new", b"theirs", "dev")
        call(made, 204, "DELETE", f"{HOME}/branches/dev/objects", params={"path": "gone"})
        call(made, 201, "POST", f"{HOME}/branches/dev/commits", json={"message": "dev"})
        yield made


def call(made: Server, status: int, *request: str, **options: Any) -> Any:
    answer = made.call(*request, **options)
    assert answer.status_code == status, answer.text
    return answer.json if answer.content and status != 201 else answer.text


def merge(made: Server, status: int) -> Any:
    body = {"keep_staged": True, "squash_merge": True}
    return call(made, status, "POST", f"{HOME}/refs/dev/merge/main", json=body)


def read(made: Server, path: str, ref: str = "main") -> bytes | None:
    answer = made.call("GET", f"{HOME}/refs/{ref}/objects", params={"path": path})
    return answer.content if answer.status_code == 200 else None


def staged(made: Server) -> list[str]:
    found = call(made, 200, "GET", f"{HOME}/branches/main/diff")
    return [item["path"] for item in found["results"]]


def test_staged_entries_stay_and_are_not_in_the_merge(lake: Server) -> None:
    lake.put("other", b"staged")
    call(lake, 204, "DELETE", f"{HOME}/branches/main/objects", params={"path": "kept"})
    call(lake, 400, "POST", f"{HOME}/refs/dev/merge/main")  # as ever
    made = merge(lake, 200)["reference"]
    assert staged(lake) == ["kept", "other"]
    assert [read(lake, path) for path in ("both", "new", "other")] == [
        b"theirs",
        b"theirs",
        b"staged",
    ]
    assert [read(lake, path, made) for path in ("gone", "kept", "other")] == [None, b"old", None]
    call(lake, 201, "POST", f"{HOME}/branches/main/commits", json={"message": "staged"})
    assert [read(lake, path, "main@") for path in ("both", "gone", "kept", "new", "other")] == [
        b"theirs",
        None,
        None,
        b"theirs",
        b"staged",
    ]


@pytest.mark.parametrize("path", ["both", "gone", "new"])
def test_a_staged_change_of_what_is_merged_is_a_conflict(lake: Server, path: str) -> None:
    lake.put("a", b"staged")
    lake.put(path, b"staged")
    lake.put("z", b"staged")
    before = call(lake, 200, "GET", f"{HOME}/branches/main")["commit_id"]
    assert merge(lake, 409)["conflicts"] == [path]
    assert call(lake, 200, "GET", f"{HOME}/branches/main")["commit_id"] == before
    assert read(lake, path) == b"staged"
    assert staged(lake) == sorted(["a", path, "z"])


def test_staged_entries_equal_to_merged_ones_are_no_conflict(lake: Server) -> None:
    call(lake, 204, "DELETE", f"{HOME}/branches/main/objects", params={"path": "gone"})
    lake.put("new", b"theirs")
    merge(lake, 200)
    assert staged(lake) == []
