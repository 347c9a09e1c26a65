"""The page at ``/docs`` shows every operation, and loads nothing but a style of this server."""

import re

import falcon
import falcon.testing
import pytest

from lakebed.server.api.operations import ROUTES
from lakebed.server.ui import pages
from lakebed.server.ui.api_page import render
from lakebed.server.ui.assets import PREFIX


@pytest.fixture(scope="module")
def client() -> falcon.testing.TestClient:
    app = falcon.App()
    description = pages._Description(ROUTES, "/api/v1")
    app.add_route("/docs", description, suffix="page")
    app.add_route(f"{PREFIX}/{{digest}}/{{name:path}}", pages._File())
    return falcon.testing.TestClient(app)


def test_every_operation_is_shown(client: falcon.testing.TestClient) -> None:
    text = client.simulate_get("/docs").text
    for route in ROUTES:
        assert f'<details id="{route.operation}">' in text
    ids = set(re.findall(r' id="([^"]+)"', text))
    targets = re.findall(r'href="#([^"]+)"', text)
    assert targets
    assert [target for target in targets if target not in ids] == []


def test_it_loads_a_style_and_nothing_else(client: falcon.testing.TestClient) -> None:
    answer = client.simulate_get("/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert re.findall(r"<script|style=|\son\w+=|https?://", answer.text) == []
    (style,) = re.findall(r'<link rel="stylesheet" href="([^"]+)">', answer.text)
    assert client.simulate_get(style).headers["content-type"].startswith("text/css")


def test_names_are_text() -> None:
    operation = {
        "operationId": "<b>",
        "tags": ["<i>"],
        "summary": "<script>",
        "parameters": [
            {"name": "<u>", "in": "query", "required": True, "schema": {"type": "<q>"}},
        ],
        "responses": {"200": {"description": "OK"}},
    }
    page = render(
        {
            "info": {"title": "<h1>", "version": "1"},
            "paths": {"/<s>": {"get": operation}},
            "components": {"schemas": {"<em>": {"description": "<dl>", "type": "object"}}},
        }
    ).decode()
    for tag in ("<b>", "<i>", "<script>", "<u>", "<s>", "<q>", "<em>", "<dl>", "<h1><"):
        assert tag not in page
