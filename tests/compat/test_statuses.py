"""Statuses, types and headers of the REST API, as the clients that people have expect them."""

from collections.abc import Iterator

import pytest
from falcon.testing import Result

from lakebed.server.api.operations import ROUTES
from lakebed.server.api.routes import Route
from tests.server.kit import ADMIN, BRANCH, REPOSITORY, UNTYPED, Server, server
from tests.server.operations import BODIES, request

REPO = f"/repositories/{REPOSITORY}"
ON_BRANCH = f"{REPO}/branches/{BRANCH}"


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with server() as world:
        yield world


@pytest.fixture(scope="module")
def walked() -> Iterator[Server]:
    """A server that the walk through all operations may leave in any state."""
    with server() as world:
        yield world


@pytest.fixture
def fresh() -> Iterator[Server]:
    with server() as world:
        yield world


def assert_untyped_if_empty(answer: Result) -> None:
    if answer.content:
        assert answer.headers["Content-Type"]
        return
    assert answer.headers.get("Content-Type", UNTYPED) == UNTYPED
    assert answer.headers.get("Content-Length", "0") == "0"


@pytest.mark.parametrize(
    "route",
    [
        route
        for route in ROUTES
        if route.method != "HEAD"  # which has the headers of a GET
        and (route.body is None or route.operation in BODIES)
    ],
    ids=lambda route: route.operation,
)
def test_answers_without_a_body_have_no_type(walked: Server, route: Route) -> None:
    method, path, options = request(route)
    assert_untyped_if_empty(walked.call(method, path, **options))


@pytest.mark.parametrize(
    ("method", "path", "options"),
    [
        ("PUT", "/auth/groups/Viewers/members/admin", {}),
        ("PUT", "/auth/users/admin/policies/FSReadAll", {}),
        ("PUT", "/auth/groups/Viewers/policies/FSReadWriteAll", {}),
        ("POST", "/auth/groups/Viewers/acl", {"json": {"permission": "Read"}}),
    ],
)
def test_changes_of_permissions_answer_with_nothing(
    shared: Server, method: str, path: str, options: dict[str, object]
) -> None:
    answer = shared.call(method, path, **options)
    assert answer.status_code == 201
    assert not answer.content
    assert_untyped_if_empty(answer)
    assert answer.headers["Content-Length"] == "0"


def test_lakectl_takes_the_server_for_one_it_knows(shared: Server) -> None:
    assert shared.call("GET", "/config/version").json["version_context"] == "lakeFS"
    assert shared.call("GET", "/config").json["version_config"]["version_context"] == "lakeFS"


def test_a_new_branch_is_answered_as_plain_text(shared: Server) -> None:
    answer = shared.call("POST", f"{REPO}/branches", json={"name": "plain", "source": BRANCH})
    assert answer.status_code == 201
    assert answer.headers["Content-Type"].partition(";")[0] == "text/plain"
    assert answer.text == shared.call("GET", f"{REPO}/branches/plain").json["commit_id"]


def test_changed_metadata_is_answered_with_204(shared: Server) -> None:
    shared.put("described")
    answer = shared.call(
        "PUT",
        f"{ON_BRANCH}/objects/stat/user_metadata",
        params={"path": "described"},
        json={"set": {"colour": "blue"}},
    )
    assert answer.status_code == 204


def test_health_has_a_body(shared: Server) -> None:
    answer = shared.request("GET", "/_health")
    assert (answer.status_code, bool(answer.text)) == (200, True)


@pytest.mark.parametrize("path", ["/repositories/lake/objects", "/auth/login", "/apis", "/x.php"])
def test_unknown_paths_show_the_page(shared: Server, path: str) -> None:
    home = shared.request("GET", "/")
    answer = shared.request("GET", path)
    assert (answer.status_code, answer.text) == (200, home.text)
    for header in ("Content-Type", "Content-Security-Policy"):
        assert answer.headers[header] == home.headers[header]
    refused = shared.request("POST", path)
    assert refused.status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v2/repositories", "/api/", "/api"])
def test_unknown_paths_of_the_api_are_not_found(shared: Server, path: str) -> None:
    answer = shared.request("GET", path)
    assert answer.status_code == 404
    assert answer.json["message"] == "invalid API endpoint"
    assert answer.json["kind"] == "no_such_path"
    assert path in answer.json["detail"]


def test_a_commit_needs_no_message(shared: Server) -> None:
    shared.put("unsaid")
    answer = shared.call("POST", f"{ON_BRANCH}/commits", json={"message": ""})
    assert answer.status_code == 201, answer.text
    assert answer.json["message"] == ""


def test_force_writes_to_read_only_repositories(fresh: Server) -> None:
    """Each change is refused without `force`, and made with it."""
    fresh.call(
        "POST",
        "/repositories",
        json={"name": "closed", "storage_namespace": "mem://lakes/closed", "read_only": True},
    )
    base = "/repositories/closed"
    main = f"{base}/branches/main"
    forced = {"force": "true"}

    def change(status: int, method: str, path: str, query: dict[str, str], json: object) -> None:
        """Make a change that says `force` in its body, if it has one, else in its query."""
        content = {"body": b"data"} if json is None and method == "POST" else {"json": json}
        plain = fresh.call(method, path, params=query, **content)
        assert plain.status_code == 403, (path, plain.text)
        if isinstance(json, dict) and "paths" not in json and "type" not in json:
            content = {"json": {**json, "force": True}}
        else:
            query = query | forced
        answer = fresh.call(method, path, params=query, **content)
        assert answer.status_code == status, (path, answer.text)

    for name in ("a", "b", "c"):
        change(201, "POST", f"{main}/objects", {"path": name}, None)
    change(201, "POST", f"{main}/objects/copy", {"dest_path": "d"}, {"src_path": "a"})
    change(204, "DELETE", f"{main}/objects", {"path": "a"}, None)
    change(200, "POST", f"{main}/objects/delete", {}, {"paths": ["b", "c"]})
    change(201, "POST", f"{main}/commits", {}, {"message": "forced"})
    listed = fresh.call("GET", f"{base}/refs/main/objects/ls").json["results"]
    assert [each["path"] for each in listed] == ["d"]
    change(201, "POST", f"{base}/branches", {}, {"name": "dev", "source": "main"})
    change(201, "POST", f"{base}/tags", {}, {"id": "v1", "ref": "main"})
    change(204, "DELETE", f"{base}/tags/v1", {}, None)
    change(201, "POST", f"{base}/branches/dev/objects", {"path": "e"}, None)
    change(204, "PUT", f"{base}/branches/dev", {}, {"type": "reset"})
    change(204, "DELETE", f"{base}/branches/dev", {}, None)
    again = fresh.call("POST", f"{main}/objects", params={"path": "late"}, body=b"x", pair=ADMIN)
    assert again.status_code == 403, "what one request was allowed must not stay for the next"
