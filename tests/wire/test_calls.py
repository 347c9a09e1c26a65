"""Operations as data: requests made of them, and the same table on the server."""

import pkgutil
from importlib import import_module

import lakebed.wire
from lakebed.lake.preview import previews
from lakebed.server.api.operations import ROUTES, not_implemented
from lakebed.wire.base import Page, SkipQuery
from lakebed.wire.calls import ApiCall, Endpoint, Resource
from lakebed.wire.objects import ROWS_MAX, ObjectsAPI, ReadQuery
from lakebed.wire.refs import BranchCreation, BranchesAPI, LogCommitsQuery, Merge, Ref, RefsAPI


def calls() -> list[Endpoint]:
    """All operations that clients know."""
    modules = [each.name for each in pkgutil.iter_modules(lakebed.wire.__path__, "lakebed.wire.")]
    resources = [
        kind
        for name in modules
        for kind in vars(import_module(name)).values()
        if isinstance(kind, type) and issubclass(kind, Resource) and kind.__module__ == name
    ]
    found = [
        each for kind in resources for each in vars(kind).values() if isinstance(each, ApiCall)
    ]
    return [each.endpoint for each in found]


def test_the_server_serves_each_operation_once() -> None:
    known = [each.operation for each in calls()]
    served = [route.operation for route in ROUTES]
    missing = {route.operation for route in not_implemented.routes}
    assert set(known) <= set(served) <= {*known, *missing}
    assert (len(set(known)), len(set(served))) == (len(known), len(served))


def test_the_rows_of_a_preview_have_one_limit() -> None:
    assert ROWS_MAX == previews.ROWS_MAX


def test_a_request_is_made_of_the_path_the_query_and_the_body() -> None:
    creation = BranchCreation(name="dev", source="main")
    request = BranchesAPI.create.request("lake", creation, query=SkipQuery(skip_hooks=True))
    assert request.endpoint.method == "POST"
    assert request.segments == ("repositories", "lake", "branches")
    assert request.query == {"skip_hooks": True}
    assert request.body == b'{"name":"dev","source":"main"}'


def test_parts_may_have_slashes_and_names_of_queries_are_those_of_the_api() -> None:
    request = RefsAPI.log.request("lake", "a/b", LogCommitsQuery(limit_only=True, objects=["x"]))
    assert request.segments == ("repositories", "lake", "refs", "a/b", "commits")
    assert request.query == {"limit": True, "objects": ["x"]}
    assert request.body is None


def test_the_table_says_what_is_optional() -> None:
    assert RefsAPI.merge.endpoint.body is Merge
    assert RefsAPI.merge.endpoint.body_optional
    assert not BranchesAPI.create.endpoint.body_optional
    assert BranchesAPI.create.endpoint.answer is None
    assert BranchesAPI.list.endpoint.answer == Page[Ref]
    assert ObjectsAPI.get.endpoint.query is ReadQuery


def test_an_instance_sends_requests() -> None:
    sent = []

    def send(request: object) -> object:
        sent.append(request)
        return Ref(id="main", commit_id="c1")

    assert BranchesAPI(send).get("lake", "main").commit_id == "c1"  # type: ignore[arg-type]
    assert sent == [BranchesAPI.get.request("lake", "main")]
