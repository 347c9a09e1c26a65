"""Pages of the origins in the settings may use the REST API and S3; others may not."""

from collections.abc import Iterator

import pytest

from lakebed.server.quickstart import WELL_KNOWN_PAIR
from tests.server.kit import REPOSITORY, Server, opened, server

APP = "https://app.example"
OBJECT = f"/{REPOSITORY}/main/a"
API = f"/api/v1/repositories/{REPOSITORY}"


def preflight(world: Server, path: str, origin: str) -> tuple[int, dict[str, str]]:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "authorization, x-amz-date",
    }
    answer = world.request("OPTIONS", path, headers=headers)
    found = {name.lower(): value for name, value in answer.headers.items()}
    return answer.status_code, {
        name: value for name, value in found.items() if name.startswith("access-control-")
    }


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server(**{"listen.cors_origins": ("http://localhost:3000", APP)}) as found:
        yield found


@pytest.mark.parametrize("path", [OBJECT, API, "/presigned/x"])
@pytest.mark.parametrize("origin", [APP, "http://localhost:3000"])
def test_a_preflight_of_an_allowed_origin_is_answered(
    world: Server, path: str, origin: str
) -> None:
    status, headers = preflight(world, path, origin)
    assert status == 204
    assert headers["access-control-allow-origin"] == origin
    assert "PUT" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "authorization, x-amz-date"
    assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize("origin", ["https://other.example", "https://app.example:444", "null"])
def test_other_origins_are_told_nothing(world: Server, origin: str) -> None:
    for path in (OBJECT, API):
        assert preflight(world, path, origin)[1] == {}
    answer = world.request("GET", "/api/v1/healthcheck", headers={"Origin": origin})
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


def test_answers_can_be_read_by_the_page_even_refusals(world: Server) -> None:
    for path, status in ((OBJECT, 403), ("/api/v1/repositories", 401), ("/_health", 200)):
        answer = world.request("GET", path, headers={"Origin": APP})
        assert answer.status_code == status
        assert answer.headers["Access-Control-Allow-Origin"] == APP
        assert answer.headers["Vary"] == "Origin"


def test_without_the_setting_there_are_no_headers() -> None:
    with server() as found:
        assert preflight(found, API, APP)[1] == {}


def test_a_server_with_the_keys_that_everyone_knows_obeys_the_origins_in_its_settings() -> None:
    with opened(**{"listen.cors_origins": (APP,)}) as found:
        found.services.auth.setup("admin", WELL_KNOWN_PAIR)
        for origin, status in ((APP, 200), ("https://other.example", 403)):
            answer = found.call(
                "GET", "/repositories", pair=WELL_KNOWN_PAIR, headers={"Origin": origin}
            )
            assert answer.status_code == status
