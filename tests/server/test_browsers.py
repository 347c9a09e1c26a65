"""What browsers may be made to do, by the headers that they send: tables without a browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from lakebed.auth import KeyPair
from lakebed.lake.places import parse_namespace
from lakebed.lake.tasks import run_inline
from lakebed.server.app import open_services
from lakebed.server.config_files import load
from lakebed.server.http.dispositions import safe_disposition
from lakebed.server.quickstart import WELL_KNOWN_PAIR
from tests.server.kit import ADMIN, REPOSITORY, Server, server

HOST: Final = "lake.example:8000"
OWN: Final = f"http://{HOST}"
DELETE: Final = f"/repositories/{REPOSITORY}/branches/main/objects/delete"
SAFE: Final = {
    "content-security-policy": "sandbox; default-src 'none'",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        found.put("page.html", b"<script>1</script>")
        yield found


def login(world: Server, **headers: str) -> str:
    body = {"access_key_id": ADMIN.access_key_id, "secret_access_key": ADMIN.secret_access_key}
    answer = world.call("POST", "/auth/login", pair=None, json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    cookie: str = answer.headers["set-cookie"]
    return cookie


# Requests with a cookie


def own(value: str) -> dict[str, str]:
    return {"Sec-Fetch-Site": value}


FROM: Final[list[tuple[dict[str, str], bool]]] = [
    ({}, False),
    (own("same-origin"), True),
    (own("same-site"), False),
    (own("cross-site"), False),
    (own("none"), False),
    ({"Origin": OWN}, True),
    ({"Origin": f"https://{HOST}"}, True),  # nobody told the server of the proxy's TLS
    ({"Origin": "http://lake.example:8001"}, False),
    ({"Origin": "http://lake.example"}, False),
    ({"Origin": "http://evil.example"}, False),
    ({"Origin": f"http://evil.example/{HOST}"}, False),
    ({"Origin": f"http://{HOST}.evil.example"}, False),
    ({"Origin": f"http://{HOST}@evil.example"}, False),
    ({"Origin": "null"}, False),
    ({"Origin": ""}, False),
    ({"Origin": "http://lake.example:x"}, False),
    ({"Origin": "http://lake.example:x", "Host": "lake.example:x"}, False),
    ({"Referer": f"{OWN}/repositories"}, True),
    ({"Referer": f"http://evil.example/?{OWN}"}, False),
    ({"Referer": "https://audit.example.org/hadoop/1/op_list/"}, False),
    ({"Origin": "http://evil.example", "Referer": OWN}, False),
    ({"Origin": OWN} | own("cross-site"), False),
    # A proxy that gave the request another Host tells the one that the client knows.
    ({"Origin": "https://public.example", "X-Forwarded-Host": "public.example"}, True),
    # The browser itself says so, whatever a proxy did to the Host.
    ({"Origin": "https://public.example"} | own("same-origin"), True),
]


@pytest.mark.parametrize(("headers", "is_allowed"), FROM)
def test_a_cookie_changes_things_only_from_our_own_pages(
    world: Server, headers: dict[str, str], is_allowed: bool
) -> None:
    cookie = login(world).partition(";")[0]
    sent = {"Cookie": cookie, "Host": HOST, **headers}
    answer = world.call("POST", DELETE, pair=None, headers=sent, json={"paths": ["never"]})
    assert answer.status_code == (200 if is_allowed else 403), answer.text
    if not is_allowed:
        assert answer.json["kind"] == "foreign_page"
        assert "must come from a page of this server" in answer.json["message"]
    # Looking is allowed: the browser does not show other pages what came.
    assert world.call("GET", "/repositories", pair=None, headers=sent).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": OWN}, 200),
        (own("same-origin"), 200),
        ({"Origin": "http://evil.example"}, 403),
        (own("cross-site"), 403),
        (own("same-site"), 403),
    ],
)
def test_a_password_that_a_browser_keeps_is_not_used_by_pages_of_others(
    world: Server, headers: dict[str, str], status: int
) -> None:
    sent = {"Host": HOST, **headers}
    answer = world.call("POST", DELETE, headers=sent, json={"paths": ["never"]})
    assert answer.status_code == status, answer.text


def test_a_token_is_sent_by_nobody_but_its_owner(world: Server) -> None:
    token = login(world).partition(";")[0].partition("=")[2]
    sent = {"Authorization": f"Bearer {token}", "Host": HOST, "Origin": "https://app.example"}
    answer = world.call("POST", DELETE, pair=None, headers=sent, json={"paths": ["never"]})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("headers", "asks"), [({}, True), (own("same-origin"), False), (own("cross-site"), True)]
)
def test_browsers_ask_for_no_password_on_behalf_of_our_pages(
    world: Server, headers: dict[str, str], asks: bool
) -> None:
    """At this header they would, and keep it, whatever the page does to log somebody in."""
    answer = world.call("GET", "/repositories", pair=None, headers=headers)
    assert answer.status_code == 401
    assert ("www-authenticate" in answer.headers) == asks


def test_refusals_are_counted(world: Server) -> None:
    def counted() -> float:
        labels = {"kind": "forged_origin"}
        return REGISTRY.get_sample_value("lakebed_http_refusals_total", labels) or 0.0

    before = counted()
    sent = {"Host": HOST, "Origin": "http://evil.example"}
    world.call("POST", DELETE, headers=sent, json={"paths": ["never"]})
    assert counted() == before + 1


@pytest.mark.parametrize(("method", "path"), [("GET", "/logout"), ("POST", "/api/v1/auth/logout")])
def test_no_page_of_others_logs_anybody_out(world: Server, method: str, path: str) -> None:
    sent = {"Cookie": login(world).partition(";")[0], "Host": HOST}

    def is_logged_in() -> bool:
        return world.call("GET", "/user", pair=None, headers=sent).status_code == 200

    assert world.request(method, path, headers=sent | own("same-site")).status_code == 403
    assert is_logged_in()
    assert world.request(method, path, headers=sent | own("same-origin")).status_code in {204, 303}
    assert not is_logged_in()


@pytest.mark.parametrize(
    ("headers", "is_secure"),
    [
        ({}, False),
        ({"X-Forwarded-Proto": "http"}, False),
        ({"X-Forwarded-Proto": "https"}, True),
        ({"X-Forwarded-Proto": "HTTPS, http"}, True),
        ({"Origin": "https://lake.example"}, True),
    ],
)
def test_cookies(world: Server, headers: dict[str, str], is_secure: bool) -> None:
    parts = [part.strip() for part in login(world, **headers).split(";")]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert ("Secure" in parts) is is_secure
    assert not [part for part in parts if part.startswith("Domain")]


# Bodies


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON;charset=UTF-8", 200),
        ("application/merge-patch+json", 200),
        (None, 415),
        ("text/plain", 415),
        ("text/plain; x=application/json", 415),
        ("text/plain, application/json", 415),
        ("application/json, text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
def test_a_body_must_say_that_it_is_json(
    world: Server, content_type: str | None, status: int
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = world.call("POST", DELETE, headers=headers, body='{"paths": ["never"]}')
    assert answer.status_code == status, answer.text
    if status == 415:
        assert answer.json["kind"] == "not_json"
        assert "Content-Type: application/json" in answer.json["message"]


def test_no_body_needs_no_type(world: Server) -> None:
    made = world.call("POST", f"/repositories/{REPOSITORY}/gc/prepare_uncommited")
    assert made.status_code == 201, made.text


# Answers with the bytes of objects


def test_answers_are_no_documents_of_the_server(world: Server) -> None:
    objects = f"/repositories/{REPOSITORY}/refs/main/objects"
    where = {"path": "page.html"}
    stat = world.call("GET", f"{objects}/stat", params=where | {"presign": "true"})
    link = urlsplit(stat.json["physical_address"]).path
    commits = f"/repositories/{REPOSITORY}/branches/main/commits"
    file = world.call("POST", commits, json={"message": "x"}).json["meta_range_id"]
    for answer in (
        world.call("GET", f"/repositories/{REPOSITORY}/metadata/object/meta_range/{file}"),
        world.call("GET", objects, params=where),
        world.call("GET", objects, params=where, headers={"Range": "bytes=0-3"}),
        world.request("GET", link),
        world.request("GET", link, headers={"Range": "bytes=0-3"}),
    ):
        assert answer.status_code in {200, 206}
        assert answer.headers["content-disposition"].startswith("attachment")
        assert {name: answer.headers[name] for name in SAFE} == SAFE
    # What holds no object's bytes may still quote what somebody wrote.
    for answer in (
        stat,
        world.request("GET", "/api/v1/<script>"),
        world.request("GET", "/metrics"),
    ):
        assert {name: answer.headers[name] for name in SAFE} == SAFE
    page = world.request("GET", "/")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("content_type", "wanted", "found"),
    [
        ("text/plain", None, None),
        ("text/plain; charset=utf-8", "inline", "inline"),
        ("IMAGE/PNG", None, None),
        ("text/csv", "attachment; filename=a.csv", "attachment; filename=a.csv"),
        ("text/html", None, "attachment"),
        ("text/html", "inline", "attachment"),
        ("text/html", 'INLINE; filename="a.html"', 'attachment; filename="a.html"'),
        ("text/html", "inline, attachment", "attachment"),
        ("text/html", "", "attachment"),
        ("text/html", "attachments", "attachment"),
        ("text/html", "Attachment ;filename=a", "Attachment ;filename=a"),
        ("image/svg+xml", None, "attachment"),
        ("text/xml", None, "attachment"),
        ("application/xhtml+xml", None, "attachment"),
        ("application/pdf", "inline", "attachment"),
        ("application/octet-stream", None, "attachment"),
        ("", None, "attachment"),
        # Browsers take the last of several types.
        ("text/plain, text/html", None, "attachment"),
        ("text/plain;charset=x, text/html", None, "attachment"),
        ("text/plain\t", None, "attachment"),
    ],
)
def test_what_is_shown_and_what_is_saved(
    content_type: str, wanted: str | None, found: str | None
) -> None:
    assert safe_disposition(content_type, wanted) == found


@given(st.text(max_size=30), st.none() | st.text(max_size=30))
def test_html_is_saved_whatever_is_asked_for(suffix: str, wanted: str | None) -> None:
    found = safe_disposition("text/html" + suffix, wanted)
    assert found is not None
    assert found.partition(";")[0].strip().lower() == "attachment"


# A server whose keys everyone knows


@contextmanager
def opened(pair: KeyPair | None, **flags: object) -> Iterator[Server]:
    settings = load(
        environment={},
        flags={
            "database.url": "memory://",
            "blockstore.type": "memory",
            "auth.secret_key": "0123456789abcdef0123456789abcdef",
            **flags,
        },
    )
    services = open_services(settings, run_in_background=run_inline)
    if pair is not None:
        services.auth.setup("admin", pair)
        services.catalog.repositories.create(
            REPOSITORY, parse_namespace("mem://lakes/lake"), committer="admin"
        )
    yield Server(services)
    services.close()


@pytest.fixture(scope="module")
def quickstart() -> Iterator[Server]:
    with opened(WELL_KNOWN_PAIR) as found:
        yield found


NAVIGATION: Final = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
LOCAL: Final = "localhost:8000"


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        (LOCAL, True),
        ("LOCALHOST", True),
        ("lake.localhost:1", True),
        ("127.0.0.1:8000", True),
        ("127.1.2.3", True),
        ("[::1]:8000", True),
        ("s3.local.lakefs.io:8000", True),
        ("lake.s3.local.lakefs.io", True),
        ("evil.example:8000", False),
        ("localhost.evil.example", False),
        ("evillocalhost", False),
        ("evils3.local.lakefs.io", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.1:8000", False),
        ("0.0.0.0:8000", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_quickstart_answers_to_names_of_this_machine(
    quickstart: Server, host: str, is_known: bool
) -> None:
    answer = quickstart.call("GET", "/repositories", pair=WELL_KNOWN_PAIR, headers={"Host": host})
    assert (answer.status_code == 403) is not is_known, answer.text
    if not is_known:
        assert answer.json["kind"] == "foreign_host"
        assert "connection" not in answer.headers  # there is no body that was not read
    signed = quickstart.request("GET", "/?X-Amz-Signature=x", headers={"Host": host})
    assert ("use a name of this machine" in signed.text) is not is_known
    probe = quickstart.request("GET", "/healthcheck", headers={"Host": host})
    assert probe.status_code == 204 or "s3.local.lakefs.io" in host


@pytest.mark.parametrize(
    ("headers", "path", "kind"),
    [
        # programs, and our own pages
        ({}, "/api/v1/repositories", None),
        (own("same-origin"), "/api/v1/repositories", None),
        ({"Origin": f"http://{LOCAL}"}, "/api/v1/repositories", None),
        # Spark's S3A, which is no browser
        ({"Referer": "https://audit.example.org/hadoop/1/op_list/"}, "/api/v1/repositories", None),
        ({"Referer": "bytes=0-65535"}, "/api/v1/repositories", None),
        # pages of others
        (
            {"Referer": "https://audit.example.org.evil/hadoop/"},
            "/api/v1/repositories",
            "foreign_page",
        ),
        ({"Origin": "http://localhost:8888"}, "/api/v1/repositories", "foreign_page"),
        ({"Origin": "null"}, "/api/v1/repositories", "foreign_page"),
        ({"Referer": "http://evil.example/"}, "/api/v1/repositories", "foreign_page"),
        (own("same-site"), "/api/v1/repositories", "foreign_page"),
        (own("cross-site"), "/api/v1/repositories", "foreign_page"),
        (own("cross-site"), "/", "foreign_page"),
        (own("cross-site") | {"Sec-Fetch-Mode": "no-cors"}, "/metrics", "foreign_page"),
        # links and bookmarks
        (own("cross-site") | NAVIGATION, "/", None),
        (own("none") | NAVIGATION, "/", None),
        (own("cross-site") | NAVIGATION | {"Sec-Fetch-Dest": "iframe"}, "/", "foreign_page"),
        (own("cross-site") | NAVIGATION, "/api/v1/repositories", "foreign_page"),
    ],
)
def test_a_quickstart_and_pages_of_others(
    quickstart: Server, headers: dict[str, str], path: str, kind: str | None
) -> None:
    sent = {"Host": LOCAL, **headers}
    answer = quickstart.request("GET", path, headers=sent)
    assert (answer.status_code == 403) is (kind is not None), answer.text
    if kind is not None:
        assert answer.json["kind"] == kind
    assert quickstart.request("POST", path, headers=sent).status_code != 200


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({}, False),
        (own("same-origin") | {"Sec-Fetch-Mode": "cors"}, False),
        (own("none") | NAVIGATION, True),
        (own("cross-site") | NAVIGATION, True),
        ({"Upgrade-Insecure-Requests": "1"}, True),
    ],
)
def test_a_quickstart_takes_no_keys_from_an_address_line(
    quickstart: Server, headers: dict[str, str], is_refused: bool
) -> None:
    sent = {"Host": LOCAL, "Authorization": "Basic eDp5", **headers}
    answer = quickstart.request("GET", "/", headers=sent)
    assert answer.status_code == (403 if is_refused else 200)
    if is_refused:
        assert answer.json["kind"] == "keys_in_url"


def test_a_preflight_to_a_quickstart_is_refused(quickstart: Server) -> None:
    sent = {"Host": LOCAL, "Origin": "http://evil.example"}
    assert quickstart.call("OPTIONS", DELETE, pair=None, headers=sent).status_code == 403


def test_links_to_objects_of_a_quickstart_work(quickstart: Server) -> None:
    quickstart.call(
        "POST",
        f"/repositories/{REPOSITORY}/branches/main/objects",
        pair=WELL_KNOWN_PAIR,
        headers={"Host": LOCAL},
        params={"path": "a"},
        body=b"data",
    )
    stat = quickstart.call(
        "GET",
        f"/repositories/{REPOSITORY}/refs/main/objects/stat",
        pair=WELL_KNOWN_PAIR,
        headers={"Host": LOCAL},
        params={"path": "a", "presign": "true"},
    )
    link = urlsplit(stat.json["physical_address"]).path
    for headers in ({}, own("cross-site") | NAVIGATION):
        answer = quickstart.request("GET", link, headers={"Host": LOCAL, **headers})
        assert answer.content == b"data"


def test_other_servers_answer_to_any_name_and_any_page(world: Server) -> None:
    for headers in ({"Host": "lake.example"}, own("cross-site"), own("none") | NAVIGATION):
        assert world.call("GET", "/repositories", headers=headers).status_code == 200


def test_a_server_is_guarded_from_when_it_takes_the_keys_that_everyone_knows() -> None:
    with opened(None) as found:
        headers = {"Host": "lake.example"}
        assert found.request("GET", "/", headers=headers).status_code == 200
        pair = {
            "access_key_id": WELL_KNOWN_PAIR.access_key_id,
            "secret_access_key": WELL_KNOWN_PAIR.secret_access_key,
        }
        body = {"username": "admin", "key": pair}
        made = found.call("POST", "/setup_lakefs", pair=None, json=body, headers=headers)
        assert made.status_code == 200, made.text
        assert found.request("GET", "/", headers=headers).status_code == 403


# A second origin, for objects


def test_an_origin_for_objects_serves_objects_and_nothing_else() -> None:
    origin = "https://objects.example"
    with opened(ADMIN, **{"listen.objects_origin": origin}) as found:
        found.put("a")
        stat = found.call(
            "GET",
            f"/repositories/{REPOSITORY}/refs/main/objects/stat",
            params={"path": "a", "presign": "true"},
        )
        url = stat.json["physical_address"]
        assert url.startswith(f"{origin}/presigned/")
        link = urlsplit(url).path
        there = {"Host": "objects.example"}
        assert found.request("GET", link, headers=there).content == b"data"
        for path, headers, message in (
            (link, {"Host": HOST}, f"objects are served at {origin}"),
            ("/", there, f"{origin} serves only objects"),
            ("/api/v1/repositories", there, f"{origin} serves only objects"),
        ):
            answer = found.request("GET", path, headers=headers)
            assert answer.status_code == 403
            assert answer.json == {"message": message, "kind": "wrong_origin"}
