"""Names, refs and paths that nobody expects: the right thing, or a clear refusal.

The requests go out as they are drawn, byte for byte: no client puts the URL in order first.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.api_kit import Answer, RawClient, create_repository

REPOSITORIES: Final = ("names-one", "names-two")
BRANCHES: Final = ("main", "dev")
REFS: Final = (*BRANCHES, "v1", "a/tag", "ünï", "\ufffd")  # the last stands for what is no UTF-8
"""On each of them, the object `which` holds the names of repository and ref."""

ATOMS: Final = (
    *("..", ".", "/", "//", "%2F", "%2f", "%5C", "\\", "%2e%2e", "%252F", "%25", "%", "%zz"),
    *("%00", "%01", "%7f", "%0d%0a", "%20", "+", "%2B", "&", "=", ";", ":", ",", "~1", "^2"),
    *("%ff", "%C3%28", "%c0%af", "%ed%a0%80", "%F0%9F%8E%89", "%C3%BCn%C3%AF", "u%CC%88"),
    *(
        "*",
        "$",
        "@",
        "@",
        "'",
        "%22",
        "%3C",
        "{",
        "}",
        "|",
        "%3F",
        "%23",
        "a" * 2048,
        "%C3%BC" * 400,
    ),
    *("main", "dev", "v1", "which", "a/tag", "names-one", "names-two", "objects", "refs"),
)
drawn_text: Final = st.text(min_size=1, max_size=6).map(
    lambda text: "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))
)
parts: Final = st.lists(st.sampled_from(ATOMS) | drawn_text, min_size=1, max_size=4).map("".join)

unhurried: Final = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def client(sqlite_lakebed: LakebedServer) -> Iterator[RawClient]:
    """Two repositories, in which every ref has something of its own."""
    with RawClient(sqlite_lakebed) as made:
        for repository in REPOSITORIES:
            create_repository(made, repository)
            for ref in REFS:
                add_ref(made, repository, ref)
        yield made


def add_ref(client: RawClient, repository: str, ref: str) -> None:
    one = f"/repositories/{repository}"
    branch = ref if ref in BRANCHES else f"for-{REFS.index(ref)}"
    if branch != "main":
        source = {"name": branch, "source": "main"}
        assert client.post_json(f"{one}/branches", source).status == 201
    content = f"{repository} {ref}".encode()
    at = f"{one}/branches/{branch}"
    assert client.call("POST", f"{at}/objects", path="which", body=content).status == 201
    assert client.post_json(f"{at}/commits", {"message": ref}).status == 201
    if ref not in BRANCHES:
        assert client.post_json(f"{one}/tags", {"id": ref, "ref": branch}).status == 201


def is_refused(answer: Answer) -> bool:
    """Whether an answer is a clear refusal; one that is neither that nor a success fails."""
    if 200 <= answer.status < 300:
        return False
    assert 400 <= answer.status < 500, answer
    assert answer.headers["content-type"] == "application/json", answer
    assert answer.json["message"], answer
    return True


def wire(text: str) -> str:
    """Characters as the bytes that go out."""
    return text.encode().decode("latin-1")


def text_of(part: str) -> str:
    """What a part of a path means."""
    return unquote_to_bytes(part).decode()


def query_text(part: str) -> str:
    """What a value of a query means."""
    return text_of(part.partition("&")[0].replace("+", " "))


@unhurried
@given(part=parts)
@example(part="main")
@example(part="a%2Ftag")
@example(part="../names-two/refs/main")
@example(part="%EF%BF%BD")
@example(part="%ff")
def test_a_ref_is_that_ref_or_none(client: RawClient, part: str) -> None:
    at = f"/repositories/names-one/refs/{wire(part)}/objects?path=which"
    answer = client.call("GET", at)
    if not is_refused(answer):
        # An expression begins with the name of a ref, or with nothing that names another.
        base = re.split("[~^@$]", text_of(part))[0]
        assert answer.body.decode() == f"names-one {base}"


@unhurried
@given(part=parts)
@example(part="names-one")
@example(part="names-two/refs/dev/../../../names-one")
def test_a_repository_is_that_repository_or_none(client: RawClient, part: str) -> None:
    answer = client.call("GET", f"/repositories/{wire(part)}")
    if not is_refused(answer):
        found = answer.json
        # What is below a repository is found as well, by names with a slash.
        assert text_of(part).startswith(REPOSITORIES)
        assert "id" not in found or text_of(part).endswith(found["id"])
    answer = client.call("GET", f"/repositories/{wire(part)}/refs/main/objects?path=which")
    if not is_refused(answer):
        assert answer.body.decode() == f"{text_of(part)} main"


@unhurried
@given(part=parts)
@example(part="a/tag")
@example(part="a%2ftag")
@example(part="%EF%BF%BD")
@example(part="%ff")
@example(part="%C3%BCn%C3%AF")
def test_a_tag_is_that_tag_or_none(client: RawClient, part: str) -> None:
    answer = client.call("GET", f"/repositories/names-one/tags/{wire(part)}")
    if not is_refused(answer):
        assert answer.json["id"] == text_of(part)
        assert text_of(part) in REFS


@unhurried
@given(part=parts)
@example(part="folder//object")
@example(part="/leading")
@example(part="../../up")
def test_an_object_comes_back_from_its_own_path_only(client: RawClient, part: str) -> None:
    on_dev = f"/repositories/names-two/branches/dev/objects?path={wire(part)}"
    content = part.encode()
    stored = client.call("POST", on_dev, body=content)
    if is_refused(stored):
        assert is_refused(client.call("GET", on_dev.replace("/branches/", "/refs/")))
        return
    path = query_text(part)
    assert stored.json["path"] == path
    at_dev = "/repositories/names-two/refs/dev/objects"
    assert client.call("GET", at_dev, path=path).body == content
    assert client.call("GET", f"{at_dev}?path={wire(part)}").body == content
    listed = client.call("GET", f"{at_dev}/ls", prefix=path, amount=1).json["results"]
    assert [each["path"] for each in listed] == [path]
    assert client.call("GET", at_dev, path="which").body == (
        content if path == "which" else b"names-two dev"
    )
    assert client.call("DELETE", on_dev).status == 204
    assert client.call("GET", at_dev, path=path).status == 404
    if path == "which":
        again = "/repositories/names-two/branches/dev/objects"
        assert client.call("POST", again, path="which", body=b"names-two dev").status == 201


@unhurried
@given(part=parts, collection=st.sampled_from(["users", "groups", "policies"]))
def test_a_name_of_people_is_that_name_or_none(
    client: RawClient, part: str, collection: str
) -> None:
    answer = client.call("GET", f"/auth/{collection}/{wire(part)}")
    if not is_refused(answer):
        assert answer.json["id"] == text_of(part)


@unhurried
@given(
    parts=st.lists(parts, min_size=1, max_size=6), method=st.sampled_from(["GET", "PUT", "PATCH"])
)
def test_a_path_of_nothing_is_refused(client: RawClient, parts: list[str], method: str) -> None:
    is_refused(client.call(method, "/" + wire("/".join(parts))))
