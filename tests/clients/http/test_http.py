import base64
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.clients.http.errors import InvalidName, Refused, UnexpectedAnswer, Unreachable
from lakebed.clients.http.http import Client, _joined, checks_certificates
from lakebed.clients.http.settings import ClientSettings
from tests.clients.http.scripted import (
    Answer,
    Request,
    answer_json,
    asked,
    scripted_client,
    scripted_server,
)

ODD_PATH = "a b/ä%2F+&=?#//./~\\\n"


def test_a_request_says_who_asks_for_what() -> None:
    seen: list[Request] = []

    def script(request: Request) -> Answer:
        seen.append(request)
        return answer_json({"fine": True})

    with scripted_client(script) as client:
        query = {"path": ODD_PATH, "yes": True, "many": ["x", "y"], "n": 5}
        path = ("repositories", "repo", "refs", "a/b~1 %")
        answer = client.send(asked("POST", *path, query=query, body={"name": "ä"}))
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
    assert json.loads(request.body) == {"name": "ä"}
    assert request.headers["Authorization"] == (
        "Basic " + base64.b64encode(b"AKIAIOSFOLQUICKSTART:secret").decode()
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_segments_stay_whole(segments: list[str]) -> None:
    if {".", ".."} & set(segments):
        with pytest.raises(InvalidName):
            _joined(tuple(segments))
    else:
        assert [unquote(part) for part in _joined(tuple(segments)).split("/")] == segments


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_never_means_another_place(name: str) -> None:
    with (
        scripted_client(lambda _: Answer(500)) as client,
        pytest.raises(InvalidName, match="is not a valid name"),
    ):
        client.send(asked("DELETE", "auth", "users", name))


def test_the_message_of_the_server_is_the_error() -> None:
    with (
        scripted_client(lambda _: answer_json({"message": "not  found"}, 404)) as client,
        pytest.raises(Refused) as caught,
    ):
        client.send(asked("GET", "x"))
    assert str(caught.value) == "not  found (404)"
    assert caught.value.body.message == "not  found"


def test_messages_keep_their_lines() -> None:
    said = {"message": "hook aborted:\n\n\t* no  tmp files\r\noutput: x"}
    with (
        scripted_client(lambda _: answer_json(said, 412)) as client,
        pytest.raises(Refused) as caught,
    ):
        client.send(asked("GET", "x"))
    assert str(caught.value) == f"{said['message']} (412)"


def test_the_detail_says_more_than_the_message() -> None:
    said = {"message": "branch not found", "detail": "branch not found: dev", "kind": "x"}
    with (
        scripted_client(lambda _: answer_json(said, 404)) as client,
        pytest.raises(Refused) as caught,
    ):
        client.send(asked("GET", "x"))
    assert str(caught.value) == "branch not found: dev (404)"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"message": 5}', b"\xff"])
def test_without_a_message_the_status_speaks(body: bytes) -> None:
    with (
        scripted_client(lambda _: Answer(502, body)) as client,
        pytest.raises(Refused, match=r"^bad gateway \(502\)$"),
    ):
        client.send(asked("GET", "x"))


def test_https_to_a_server_without_tls_names_the_cause() -> None:
    with scripted_server(lambda _: Answer(500)) as plain:
        endpoint = plain.replace("http://", "https://")
        settings = ClientSettings(endpoint=endpoint, access_key_id="a", secret_access_key="b")
        with closing(Client(settings)) as client, pytest.raises(Unreachable) as caught:
            client.send(asked("GET", "x"))
    assert str(caught.value) == (
        f"{endpoint} does not answer by TLS: if the server has no certificate, use the endpoint"
        f" {plain}"
    )


def test_an_error_that_is_not_of_the_api_names_the_endpoint() -> None:
    with (
        scripted_client(
            lambda _: Answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        ) as client,
        pytest.raises(Refused, match=r"^forbidden, but .* check the endpoint http://.* \(403\)$"),
    ):
        client.send(asked("GET", "x"))


def test_the_error_of_a_presigned_url_does_not_show_it() -> None:
    with (
        scripted_client(lambda _: Answer(403, b"<Error/>")) as client,
        pytest.raises(Refused, match=r"^forbidden \(403\)$"),
        client.stream_url("GET", f"{client.endpoint}/presigned/secret"),
    ):
        pass


def test_a_redirect_is_no_success() -> None:
    with (
        scripted_client(lambda _: Answer(302, b"", {"Location": "/elsewhere"})) as client,
        pytest.raises(Refused, match="302"),
    ):
        client.send(asked("GET", "x"))


def test_something_else_than_json_names_the_endpoint() -> None:
    with (
        scripted_client(lambda _: Answer(200, b"<html>hello")) as client,
        pytest.raises(UnexpectedAnswer, match=r"api/v1/x is not from a lakeFS server"),
    ):
        client.send(asked("GET", "x", query={"secret": "hush"}))


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody can take."""
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_a_server_that_is_not_there_is_named(closed_port: int) -> None:
    settings = ClientSettings(f"http://127.0.0.1:{closed_port}", "key", "secret")
    with closing(Client(settings)) as client, pytest.raises(Unreachable) as caught:
        client.send(asked("GET", "x"))
    message = str(caught.value)
    assert message.startswith(f"cannot reach http://127.0.0.1:{closed_port} (")
    assert "refused" in message
    assert "may or may not" not in message


def test_an_answer_that_breaks_off_leaves_doubt_about_a_change() -> None:
    with scripted_client(lambda _: Answer(200, b'{"a": 1}', cut=3)) as client:
        with pytest.raises(Unreachable, match=r"broke .*outcome of the change is unknown"):
            client.send(asked("POST", "x"))
        with pytest.raises(Unreachable, match="broke") as caught:
            client.send(asked("GET", "x"))
        assert "may or may not" not in str(caught.value)


def test_requests_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lakebed.clients.http")
    with scripted_client(lambda _: answer_json({})) as client:
        client.send(asked("POST", "repositories", query={"token": "hush"}, body={"secret": "hush"}))
    assert caplog.messages == ["POST /api/v1/repositories: 200"]


def test_traffic_is_logged_for_who_asks_for_it_and_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    presigned = {"physical_address": "https://s3/b?X-Amz-Signature=hush", "session_token": "hush"}
    answer = answer_json(presigned, Set_Cookie="hush", Content_Type="application/json")
    caplog.set_level(logging.DEBUG, "lakebed.clients.http.traffic")
    with scripted_client(lambda _: answer) as client:
        query, body = {"token": "hush", "prefix": "p"}, {"keys": [{"Secret": "hush"}]}
        client.send(asked("POST", "a", query=query, body=body))
        with client.stream_url("GET", f"{client.endpoint}/o?X-Amz-Signature=hush"):
            pass
    said = "\n".join(caplog.messages)
    assert "hush" not in said
    assert "/api/v1/a?token=********&prefix=p" in said
    assert '> {"keys": [{"Secret": "********"}]}' in said
    assert '< {"physical_address": "https://s3/b?********", "session_token": "********"}' in said
    assert said.count("> authorization: ********") == 1, "the storage gets no credentials"


@pytest.mark.parametrize(
    ("endpoint", "is_checked"),
    [
        ("http://h", False),
        ("HTTP://h", False),
        ("https://h", True),
        ("HTTPS://h", True),
        ("Https://h:1/", True),
    ],
)
def test_certificates_are_checked_wherever_there_are_some(
    endpoint: str, *, is_checked: bool
) -> None:
    assert checks_certificates(endpoint) == is_checked
