"""Statuses, types and headers of the REST API, as the clients that people have expect them."""

from collections.abc import Iterator
from typing import Any, Final

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
    shared: Server, method: str, path: str, options: dict[str, Any]
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


UNKNOWN_PATHS: Final = ["/repositories/lake/objects", "/auth/login", "/apis", "/x.php"]


@pytest.mark.parametrize("path", UNKNOWN_PATHS)
def test_unknown_paths_show_the_page_to_browsers(shared: Server, path: str) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    home = shared.request("GET", "/", headers=browser)
    answer = shared.request("GET", path, headers=browser)
    assert (answer.status_code, answer.text) == (200, home.text)
    for header in ("Content-Type", "Content-Security-Policy"):
        assert answer.headers[header] == home.headers[header]
    refused = shared.request("POST", path, headers=browser)
    assert refused.status_code == 404


@pytest.mark.parametrize("accept", [{}, {"Accept": "*/*"}])
@pytest.mark.parametrize("path", UNKNOWN_PATHS)
def test_unknown_paths_are_denied_to_others(
    shared: Server, path: str, accept: dict[str, str]
) -> None:
    """To an S3 client that does not sign, a page would pass for an object."""
    for method in ("GET", "POST"):
        answer = shared.request(method, path, headers=accept)
        assert answer.status_code == 403
        assert answer.headers["Content-Type"] == "application/xml"
        assert "<Code>AccessDenied</Code>" in answer.text


@pytest.mark.parametrize("path", ["/api/v11/repositories", "/api/v2/repositories", "/api/"])
def test_a_wrong_endpoint_of_the_api_is_the_page_to_everyone(shared: Server, path: str) -> None:
    """lakectl tells a wrong endpoint from wrong keys by the page."""
    answer = shared.request("GET", path)
    assert (answer.status_code, answer.text) == (200, shared.request("GET", "/").text)
    assert shared.request("POST", path).status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/", "/api/v1"])
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
        content: dict[str, Any] = (
            {"body": b"data"} if json is None and method == "POST" else {"json": json}
        )
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


# Smaller things


def test_a_storage_that_is_not_configured_is_refused(shared: Server) -> None:
    body = {"name": "other", "storage_namespace": "mem://lakes/other", "storage_id": "second"}
    answer = shared.call("POST", "/repositories", json=body)
    assert answer.status_code == 400
    assert "'second'" in answer.json["message"]
    assert shared.call("GET", "/repositories/other").status_code == 404


@pytest.mark.parametrize(
    ("amount", "status"), [(1001, 400), (-2, 400), (-1, 200), (0, 200), (1, 200), (1000, 200)]
)
def test_amounts_are_bounded(shared: Server, amount: int, status: int) -> None:
    for path in ("/repositories", f"{REPO}/branches", f"{REPO}/refs/main/objects/ls"):
        answer = shared.call("GET", path, params={"amount": amount})
        assert answer.status_code == status, answer.text


def test_an_amount_of_nothing_means_a_hundred(shared: Server) -> None:
    for number in range(101):
        shared.services.auth.users.create(f"many-{number:03}")
    for amount in (-1, 0):
        users = shared.call("GET", "/auth/users", params={"amount": amount, "prefix": "many-"})
        assert len(users.json["results"]) == 100


def test_a_shallow_copy_is_not_there(shared: Server) -> None:
    shared.put("deep")
    copy = f"{ON_BRANCH}/objects/copy"
    for shallow, status in ((True, 501), (False, 201)):
        body = {"src_path": "deep", "shallow": shallow}
        answer = shared.call("POST", copy, params={"dest_path": "copy"}, json=body)
        assert answer.status_code == status


def test_policies_are_checked(shared: Server) -> None:
    def body(name: str, action: str) -> dict[str, object]:
        statement = {"effect": "allow", "resource": "*", "action": [action]}
        return {"id": name, "statement": [statement]}

    unknown = shared.call("POST", "/auth/policies", json=body("odd", "nothing:Read"))
    assert unknown.status_code == 400
    assert "nothing:Read" in unknown.json["message"]
    for action in ("fs:ReadObject", "catalog:*", "*"):
        name = f"fine-{len(action)}"
        assert shared.call("POST", "/auth/policies", json=body(name, action)).status_code == 201
    another = shared.call("PUT", "/auth/policies/fine-1", json=body("fine-2", "*"))
    assert another.status_code == 400
    same = shared.call("PUT", "/auth/policies/fine-1", json=body("fine-1", "*"))
    assert same.status_code == 200


def test_a_removed_object_has_its_size_unless_the_removal_is_uncommitted(fresh: Server) -> None:
    fresh.put("short-lived", b"12345")
    fresh.call("POST", f"{ON_BRANCH}/commits", json={"message": "put"})
    fresh.call("DELETE", f"{ON_BRANCH}/objects", params={"path": "short-lived"})
    (staged,) = fresh.call("GET", f"{ON_BRANCH}/diff").json["results"]
    fresh.call("POST", f"{ON_BRANCH}/commits", json={"message": "removed"})
    (gone,) = fresh.call("GET", f"{REPO}/refs/main~1/diff/main").json["results"]
    assert (staged["type"], staged["size_bytes"]) == ("removed", 0)
    assert (gone["type"], gone["size_bytes"]) == ("removed", 5)


def test_a_restore_needs_a_bare_repository(shared: Server) -> None:
    dump = shared.call("PUT", f"{REPO}/refs/dump").json
    for method, path in (("PUT", "refs/restore"), ("POST", "restore")):
        answer = shared.call(method, f"{REPO}/{path}", json=dump)
        assert answer.status_code == 400
        assert "is not bare" in answer.json["message"]


def test_a_group_without_policies_has_no_word(shared: Server) -> None:
    shared.call("POST", "/auth/groups", json={"id": "new"})
    answer = shared.call("GET", "/auth/groups/new/acl")
    assert (answer.status_code, answer.json) == (200, {"permission": ""})


def test_only_what_a_commit_names_may_be_kept(shared: Server) -> None:
    shared.put("kept")
    head = shared.call("POST", f"{ON_BRANCH}/commits", json={"message": "keep"}).json["id"]
    shared.call("POST", f"{REPO}/tags", json={"id": "keep", "ref": head})
    kept = "private, max-age=31536000, immutable"
    found = {
        ref: shared.call(method, f"{REPO}/refs/{ref}/objects", params={"path": "kept"}).headers
        for ref in (BRANCH, "keep", head[:12], f"{BRANCH}~0", head)
        for method in ("GET", "HEAD")
    }
    short = "no-store, must-revalidate"
    wanted = {BRANCH: short, "keep": short, head[:12]: short, f"{BRANCH}~0": short, head: kept}
    assert {ref: headers["Cache-Control"] for ref, headers in found.items()} == wanted


def test_there_are_no_rules_of_retention(shared: Server) -> None:
    for path in ("settings/gc_rules", "gc/rules"):
        answer = shared.call("GET", f"{REPO}/{path}")
        assert (answer.status_code, answer.json["message"]) == (404, "not found")
    for path in ("gc/rules/set_allowed", "branch_protection/set_allowed"):
        assert shared.call("GET", f"{REPO}/{path}").status_code == 204


def test_requests_are_counted_by_month(fresh: Server) -> None:
    def counted() -> int:
        report = fresh.call("GET", "/usage-report/summary")
        assert report.status_code == 200, report.text
        assert report.json["installation_id"]
        assert all(each.keys() == {"year", "month", "count"} for each in report.json["reports"])
        return sum(each["count"] for each in report.json["reports"])

    before = counted()
    for _ in range(5):
        fresh.call("GET", "/user")
    fresh.call("GET", "/user", pair=None)  # a stranger is not counted
    assert counted() == before + 5 + 1
