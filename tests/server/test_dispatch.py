"""Operations of the API: what answers them, and how their answers are framed."""

from collections.abc import Iterator
from typing import Any, NoReturn

import falcon
import pytest

from tests.server.kit import REPOSITORY, UNTYPED, Server, server

REPO = f"/repositories/{REPOSITORY}"
OBJECTS = f"{REPO}/refs/main/objects"


@pytest.fixture(scope="module")
def lake() -> Iterator[Server]:
    with server() as found:
        found.put("a", b"some bytes")
        yield found


def test_operations_are_answered_without_falcon(
    lake: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made objects for the request and the answer, which took as long as all the rest."""

    def refuse(*_arguments: Any) -> NoReturn:
        raise AssertionError("Falcon was asked")

    monkeypatch.setattr(falcon.App, "__call__", refuse)
    monkeypatch.setattr(falcon.Request, "__init__", refuse)
    monkeypatch.setattr(falcon.Response, "__init__", refuse)
    assert lake.call("GET", "/healthcheck").status_code == 204
    assert lake.call("GET", REPO).json["id"] == REPOSITORY
    assert lake.call("GET", OBJECTS, params={"path": "a"}).content == b"some bytes"
    assert lake.call("GET", OBJECTS, params={"path": "b"}).status_code == 404
    lake.put("b")


def test_a_method_that_a_path_does_not_have_is_refused(lake: Server) -> None:
    answer = lake.call("PATCH", "/healthcheck")
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, OPTIONS"
    assert answer.json["kind"] == "no_such_method"
    answer = lake.call("OPTIONS", "/healthcheck")
    assert (answer.status_code, answer.headers["Allow"]) == (200, "GET")


def test_a_path_that_is_no_operation_is_not_found(lake: Server) -> None:
    answer = lake.call("GET", "/nothing/such")
    assert (answer.status_code, answer.json["kind"]) == (404, "no_such_path")


def test_an_answer_without_a_body_has_the_length_that_it_would_have(lake: Server) -> None:
    there = lake.call("HEAD", OBJECTS, params={"path": "a"})
    assert (there.status_code, there.content) == (200, b"")
    assert there.headers["Content-Length"] == str(len(b"some bytes"))
    missing = lake.call("GET", OBJECTS, params={"path": "c"})
    unseen = lake.call("HEAD", OBJECTS, params={"path": "c"})
    assert (unseen.status_code, unseen.content) == (404, b"")
    assert unseen.headers["Content-Length"] == missing.headers["Content-Length"]


def test_an_answer_that_cannot_have_a_body_has_neither_length_nor_type(lake: Server) -> None:
    empty = lake.call("GET", "/healthcheck")
    etag = lake.call("GET", OBJECTS, params={"path": "a"}).headers["ETag"]
    known = lake.call("GET", OBJECTS, params={"path": "a"}, headers={"If-None-Match": etag})
    assert (empty.status_code, known.status_code) == (204, 304)
    for answer in (empty, known):
        assert {"content-length", "content-type"}.isdisjoint(map(str.lower, answer.headers))


def test_an_answer_with_nothing_in_it_has_a_length_and_no_type(lake: Server) -> None:
    refused = lake.call("HEAD", OBJECTS, params={"path": "a"}, headers={"Range": "bytes=99-"})
    assert refused.status_code == 416
    assert refused.headers["Content-Length"] == "0"
    assert refused.headers["Content-Type"] == UNTYPED
