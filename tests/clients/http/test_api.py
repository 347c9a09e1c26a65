"""Typed requests: the structs of the API go out, and those of the answer come back."""

import json
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from lakebed.clients.http.errors import InvalidName, Refused, UnexpectedAnswer
from lakebed.clients.http.http import Client, _Of
from lakebed.clients.http.paging import list_items, list_pages, list_some
from lakebed.wire.calls import Resource
from lakebed.wire.imports import ImportQuery
from lakebed.wire.objects import ForcePathQuery, ObjectsAPI, ReadQuery
from lakebed.wire.refs import BranchCreation, BranchesQuery, MergeResult, Ref, RefsAPI
from tests.clients.http.scripted import Answer, Numbers, Request, answer_json, scripted_client


def test_a_client_has_every_resource() -> None:
    lazy = {name: each for name, each in vars(Client).items() if isinstance(each, _Of)}
    with scripted_client(lambda _: Answer()) as client:
        found = {name: getattr(client, name) for name in lazy}
        assert all(isinstance(each, Resource) for each in found.values())
        assert type(found["objects"]) is ObjectsAPI
        assert client.objects is found["objects"], "it is made once"


def test_an_operation_sends_a_struct_and_returns_one() -> None:
    seen: list[Request] = []

    def script(request: Request) -> Answer:
        seen.append(request)
        return answer_json({"id": "a/b", "commit_id": "c1", "of_a_later_version": [1]})

    with scripted_client(script) as client:
        assert client.branches.get("lake", "a/b") == Ref(id="a/b", commit_id="c1")
        client.branches.create("lake", BranchCreation(name="dev", source="main"))
    assert seen[0].target == "/api/v1/repositories/lake/branches/a%2Fb"
    assert json.loads(seen[1].body) == {"name": "dev", "source": "main"}
    assert seen[1].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"id": 5, "commit_id": ""}'])
def test_something_else_than_the_struct_is_an_error(body: bytes) -> None:
    with (
        scripted_client(lambda _: Answer(200, body)) as client,
        pytest.raises(UnexpectedAnswer, match=r"branches/main is not from a lakeFS server"),
    ):
        client.branches.get("lake", "main")


def test_an_answer_without_a_value_may_be_empty_but_no_page_of_something_else() -> None:
    with scripted_client(lambda _: Answer(204)) as client:
        client.branches.delete("lake", "main")
    with (
        scripted_client(lambda _: Answer(200, b"<html>")) as client,
        pytest.raises(UnexpectedAnswer, match="check the endpoint"),
    ):
        client.branches.delete("lake", "main")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_part_of_the_path_never_means_another_place(name: str) -> None:
    with scripted_client(lambda _: Answer(500)) as client, pytest.raises(InvalidName):
        client.auth.delete_user(name)


def test_a_refusal_is_read_as_far_as_it_is_understood() -> None:
    said = {"message": "conflict", "kind": "merge_conflict", "conflicts": ["a"], "reference": ""}
    with (
        scripted_client(lambda _: answer_json(said, 409)) as client,
        pytest.raises(Refused) as caught,
    ):
        client.refs.merge("lake", "dev", "main")
    assert (caught.value.body.kind, caught.value.body.conflicts) == ("merge_conflict", ["a"])


def test_headers_go_out_and_come_back() -> None:
    seen: list[Request] = []

    def script(request: Request) -> Answer:
        seen.append(request)
        return answer_json({"reference": "c1"}, ETag='"x"')

    with scripted_client(script) as client:
        answer = client.ask(RefsAPI.merge.request("lake", "dev", "main"), headers={"A": "b"})
    assert answer.value == MergeResult(reference="c1")
    assert answer.headers["etag"] == '"x"'
    assert seen[0].headers["A"] == "b"


def test_bytes_stream_both_ways() -> None:
    def script(request: Request) -> Answer:
        if request.method == "POST":
            assert request.body == b"abc"
            return answer_json({"path": "x"}, 412)
        return Answer(200, b"bytes")

    with scripted_client(script) as client:
        upload = ObjectsAPI.upload.request("lake", "main", ForcePathQuery(path="x"))
        headers = {"Content-Length": "3"}
        with (
            pytest.raises(Refused),
            client.open(upload, content=iter([b"a", b"bc"]), headers=headers),
        ):
            pass
        with client.open(ObjectsAPI.get.request("lake", "main", ReadQuery(path="x"))) as response:
            assert b"".join(response.iter_raw()) == b"bytes"


# Lists


@pytest.mark.parametrize("count", [0, 1, 999, 1000, 1001, 2500])
def test_a_list_is_followed_to_its_end(count: int) -> None:
    numbers = Numbers(count)
    query = BranchesQuery(prefix="p")
    with scripted_client(numbers) as client:
        found = [item.id for item in list_items(client.branches.list, "lake", query)]
    assert found == [str(number) for number in range(1, count + 1)]
    assert len(numbers.asked) == max(1, -(-count // 1000))
    assert all(query["prefix"] == ["p"] for query in numbers.asked)
    assert query == BranchesQuery(prefix="p"), "the caller's query is not changed"


@pytest.mark.parametrize(
    ("limit", "amounts"),
    [(1, [1]), (100, [100]), (1000, [1000]), (1001, [1000, 1]), (2000, [1000, 1000])],
)
def test_no_more_is_asked_for_than_wanted(limit: int, amounts: list[int]) -> None:
    numbers = Numbers(5000)
    with scripted_client(numbers) as client:
        assert len(list(list_some(limit, client.branches.list, "lake"))) == limit
    assert [int(query.get("amount", ["100"])[0]) for query in numbers.asked] == amounts


def test_small_and_empty_pages_are_no_end() -> None:
    with scripted_client(Numbers(25, page_max=10)) as client:
        pages = list_pages(None, client.branches.list, "lake")
        assert [len(page) for page in pages] == [10, 10, 5]
    with scripted_client(Numbers(25, page_max=10)) as client:
        assert len(list(list_some(12, client.branches.list, "lake"))) == 12


def test_pages_are_fetched_when_they_are_needed() -> None:
    numbers = Numbers(5000)
    with scripted_client(numbers) as client:
        next(list_pages(None, client.branches.list, "lake", BranchesQuery(after="17")))
        assert [query["after"] for query in numbers.asked] == [["17"]]


def test_a_list_that_does_not_get_on_is_an_error() -> None:
    page = {"results": [], "pagination": {"has_more": True, "next_offset": "1"}}
    with (
        scripted_client(lambda _: answer_json(page)) as client,
        pytest.raises(UnexpectedAnswer, match="listBranches starts over at '1'"),
    ):
        list(list_items(client.branches.list, "lake"))


@pytest.mark.parametrize("page", [None, [], {}, {"results": []}, {"results": 1, "pagination": {}}])
def test_something_else_than_a_list_is_an_error(page: object) -> None:
    with (
        scripted_client(lambda _: answer_json(page)) as client,
        pytest.raises(UnexpectedAnswer, match="is not from a lakeFS server"),
    ):
        list(list_items(client.branches.list, "lake"))


def test_a_query_is_sent_in_the_words_of_the_api() -> None:
    seen: list[Request] = []

    def script(request: Request) -> Answer:
        seen.append(request)
        return answer_json({"results": [], "pagination": {"has_more": False, "next_offset": ""}})

    with scripted_client(script) as client:
        client.branches.list("lake", BranchesQuery(prefix="ä &", show_hidden=True))
    assert parse_qs(urlsplit(seen[0].target).query) == {"prefix": ["ä &"], "show_hidden": ["true"]}


def test_a_field_that_the_answer_lacks_is_named() -> None:
    with (
        scripted_client(lambda _: answer_json({"id": "main"})) as client,
        pytest.raises(UnexpectedAnswer, match=r"commit_id is missing.*version"),
    ):
        client.branches.get("lake", "main")


def test_answers_of_lakefs_lack_what_only_later_servers_say() -> None:
    storage = {
        "blockstore_type": "s3",
        "blockstore_namespace_example": "s3://lake/",
        "blockstore_namespace_ValidityRegex": "^s3://",
        "pre_sign_support": True,
        "pre_sign_support_ui": False,
        "import_support": True,
        "import_validity_regex": "^s3://",
    }
    old = {"version_config": {"version": "1.3.0"}, "storage_config": storage}
    with scripted_client(lambda _: answer_json(old)) as client:
        config = client.config.get()
    assert config.version_config.version == "1.3.0"
    assert config.storage_config.blockstore_type == "s3"
    done = {"completed": True, "update_time": "2026-01-02T03:04:05Z", "ingested_objects": 3}
    with scripted_client(lambda _: answer_json(done)) as client:
        status = client.imports.status("lake", "main", ImportQuery(id="x"))
    assert (status.ingested_objects, status.skipped_objects, status.skipped) == (3, 0, [])
    ours = {"skipped_objects": 0, "skipped": []}
    assert ours.items() <= msgspec.to_builtins(status).items(), "clients of ours read them"
