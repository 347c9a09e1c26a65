import pytest

from lakebed.client.errors import UnexpectedAnswer
from lakebed.client.paging import list_items, list_pages
from tests.client.scripted import Numbers, answer_json, scripted_client


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
        pytest.raises(UnexpectedAnswer, match="is not a list"),
    ):
        list(list_items(client, "x"))
