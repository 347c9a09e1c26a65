import base64
import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client.errors import Misuse, Refused, UnexpectedAnswer, Unreachable
from lakebed.client.http import Client, _joined
from lakebed.client.paging import list_items, list_pages
from lakebed.client.settings import ClientSettings
from tests.cli.scripted import Answer, Numbers, Request, answer_json, scripted_client

ODD_PATH = "a b/ä%2F+&=?#//./~\\\n"


def test_a_request_says_who_asks_for_what() -> None:
    seen: list[Request] = []

    def script(request: Request) -> Answer:
        seen.append(request)
        return answer_json({"fine": True})

    with scripted_client(script) as client:
        answer = client.call(
            "POST",
            "repositories",
            "repo",
            "refs",
            "a/b~1 %",
            query={"path": ODD_PATH, "no": None, "yes": True, "many": ["x", "y"], "n": 5},
            body={"name": "ä"},
        )
    assert answer == {"fine": True}
    [request] = seen
    parts = urlsplit(request.target)
    assert parts.path == "/api/v1/repositories/repo/refs/a%2Fb~1%20%25"
    assert parse_qs(parts.query) == {
        "path": [ODD_PATH],
        "yes": ["true"],
        "many": ["x", "y"],
        "n": ["5"],
    }
    assert request.body == '{"name":"ä"}'.encode()
    assert request.headers["Authorization"] == (
        "Basic " + base64.b64encode(b"AKIAIOSFOLQUICKSTART:secret").decode()
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_segments_stay_whole(segments: list[str]) -> None:
    if {".", ".."} & set(segments):
        with pytest.raises(Misuse):
            _joined(tuple(segments))
    else:
        assert [unquote(part) for part in _joined(tuple(segments)).split("/")] == segments


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_never_means_another_place(name: str) -> None:
    with (
        scripted_client(lambda _: Answer(500)) as client,
        pytest.raises(Misuse, match="is not a name"),
    ):
        client.call("DELETE", "auth", "users", name)


def test_the_message_of_the_server_is_the_error() -> None:
    with (
        scripted_client(lambda _: answer_json({"message": "not\nfound"}, 404)) as client,
        pytest.raises(Refused) as caught,
    ):
        client.get("x")
    assert str(caught.value) == "not found (404)"
    assert caught.value.body == {"message": "not\nfound"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 5}', b"\xff"])
def test_without_a_message_the_status_speaks(body: bytes) -> None:
    with (
        scripted_client(lambda _: Answer(502, body)) as client,
        pytest.raises(Refused, match=r"^bad gateway \(502\)$"),
    ):
        client.get("x")


def test_a_redirect_is_no_success() -> None:
    with (
        scripted_client(lambda _: Answer(302, b"", {"Location": "/elsewhere"})) as client,
        pytest.raises(Refused, match="302"),
    ):
        client.get("x")


def test_something_else_than_json_names_the_endpoint() -> None:
    with (
        scripted_client(lambda _: Answer(200, b"<html>hello")) as client,
        pytest.raises(UnexpectedAnswer, match=r"api/v1/x does not answer as a lakeFS server"),
    ):
        client.get("x", query={"secret": "hush"})


class Busy:
    """Busy for so many requests."""

    def __init__(self, times: int, *, status: int = 503, retry_after: str | None = "2") -> None:
        self.requests = 0
        self.waited: list[float] = []
        self._times = times
        self._status = status
        self._retry_after = retry_after

    def __call__(self, _: Request) -> Answer:
        self.requests += 1
        if self.requests > self._times:
            return answer_json("done")
        headers = {} if self._retry_after is None else {"Retry-After": self._retry_after}
        return Answer(self._status, b'{"message": "slow down"}', headers)


@pytest.mark.parametrize("status", [429, 503])
def test_a_read_comes_back_when_it_is_told_to(status: int) -> None:
    busy = Busy(3, status=status)
    with scripted_client(busy, sleep=busy.waited.append) as client:
        assert client.get("x") == "done"
    assert busy.waited == [2, 2, 2]


@pytest.mark.parametrize(
    ("retry_after", "requests"), [("2", 5), ("0", 5), ("12", 3), ("31", 1), (None, 1), ("soon", 1)]
)
def test_patience_ends(retry_after: str | None, requests: int) -> None:
    busy = Busy(1000, retry_after=retry_after)
    with (
        scripted_client(busy, sleep=busy.waited.append) as client,
        pytest.raises(Refused, match=r"^slow down \(503\)$"),
    ):
        client.get("x")
    assert busy.requests == requests
    assert sum(busy.waited) <= 30


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_change_is_asked_for_once(method: str) -> None:
    busy = Busy(1)
    with scripted_client(busy) as client, pytest.raises(Refused):
        client.call(method, "x")
    assert busy.requests == 1


def test_other_errors_are_not_repeated() -> None:
    busy = Busy(1, status=500)
    with scripted_client(busy) as client, pytest.raises(Refused):
        client.get("x")
    assert busy.requests == 1


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody can take."""
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_a_server_that_is_not_there_is_named(closed_port: int) -> None:
    settings = ClientSettings(f"http://127.0.0.1:{closed_port}", "key", "secret")
    with closing(Client(settings)) as client, pytest.raises(Unreachable) as caught:
        client.get("x")
    message = str(caught.value)
    assert message.startswith(f"cannot reach http://127.0.0.1:{closed_port} (")
    assert "refused" in message
    assert "may or may not" not in message


def test_an_answer_that_breaks_off_leaves_doubt_about_a_change() -> None:
    with scripted_client(lambda _: Answer(200, b'{"a": 1}', cut=3)) as client:
        with pytest.raises(Unreachable, match=r"broke .*may or may not have been made"):
            client.call("POST", "x")
        with pytest.raises(Unreachable, match="broke") as caught:
            client.get("x")
        assert "may or may not" not in str(caught.value)


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
def test_a_list_is_followed_to_its_end(count: int) -> None:
    numbers = Numbers(count)
    with scripted_client(numbers) as client:
        found = [item["id"] for item in list_items(client, "x", query={"prefix": "p"})]
    assert found == list(range(1, count + 1))
    assert len(numbers.asked) == max(1, -(-count // 1000))
    assert all(query["prefix"] == ["p"] for query in numbers.asked)


@pytest.mark.parametrize(
    ("limit", "amounts"), [(1, [1]), (1000, [1000]), (1001, [1000, 1]), (2000, [1000, 1000])]
)
def test_no_more_is_asked_for_than_wanted(limit: int, amounts: list[int]) -> None:
    numbers = Numbers(5000)
    with scripted_client(numbers) as client:
        assert len(list(list_items(client, "x", limit=limit))) == limit
    assert [int(query["amount"][0]) for query in numbers.asked] == amounts


def test_small_and_empty_pages_are_no_end() -> None:
    with scripted_client(Numbers(25, page_max=10)) as client:
        assert [len(page) for page in list_pages(client, "x")] == [10, 10, 5]
    with scripted_client(Numbers(25, page_max=10)) as client:
        assert len(list(list_items(client, "x", limit=12))) == 12


def test_pages_are_fetched_when_they_are_needed() -> None:
    numbers = Numbers(5000)
    with scripted_client(numbers) as client:
        pages = list_pages(client, "x")
        next(pages)
        assert len(numbers.asked) == 1


def test_a_list_that_does_not_get_on_is_an_error() -> None:
    page = {"results": [{"id": 1}], "pagination": {"has_more": True, "next_offset": "1"}}
    with (
        scripted_client(lambda _: answer_json(page)) as client,
        pytest.raises(UnexpectedAnswer, match="begins again at '1'"),
    ):
        list(list_items(client, "x"))


@pytest.mark.parametrize("page", [None, [], {}, {"results": []}, {"results": 1, "pagination": {}}])
def test_something_else_than_a_list_is_an_error(page: object) -> None:
    with (
        scripted_client(lambda _: answer_json(page)) as client,
        pytest.raises(UnexpectedAnswer, match="something else than a list"),
    ):
        list(list_items(client, "x"))
