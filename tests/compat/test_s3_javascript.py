"""The AWS SDK for JavaScript, and pages in a browser, against a real server."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.kit.chromium import Browser, chromium
from tests.kit.s3_gateway import Gateway, start
from tests.kit.served import Servers

PROGRAM: Final = Path(__file__).with_name("s3_sdk.mjs")
APP: Final = "http://app.example"


def scenario(gateway: Gateway, name: str) -> Any:
    node = shutil.which("node")
    assert node is not None, "the tests of the SDK for JavaScript need Node"
    result = subprocess.run(
        [node, PROGRAM],
        input=name.encode(),
        env={**os.environ, **gateway.environment, "AWS_REGION": gateway.region},
        capture_output=True,
        timeout=100,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


def test_an_upload_of_a_stream_tells_its_url(gateway: Gateway) -> None:
    done = scenario(gateway, "uploads")
    assert done == {"location": f"{gateway.url}/lake/main/js/stream", "same": True}


def test_tags_are_kept_changed_and_copied(gateway: Gateway) -> None:
    expected = [{"a": "b c"}, {"d": "e"}, {"d": "e"}, {"f": "g"}, 1]
    assert scenario(gateway, "tags") == expected


def test_deletes_are_made_if_the_etag_matches(gateway: Gateway) -> None:
    assert scenario(gateway, "deletes") == {
        "refused": "PreconditionFailed",
        "deleted": ["main/js/a"],
        "errors": [["main/js/b", "PreconditionFailed"]],
        "left": "b",
    }


def test_a_form_is_posted_within_its_policy(gateway: Gateway) -> None:
    assert scenario(gateway, "posts") == [204, 400, "a,b"]


def test_buckets_are_listed_in_pages(gateway: Gateway) -> None:
    keys = (gateway.access_key, gateway.secret_key)
    with httpx.Client(base_url=f"{gateway.url}/api/v1", auth=keys, timeout=60) as api:
        found = api.get("/repositories").json()["results"]
    assert scenario(gateway, "buckets") == [[each["id"]] for each in found]


@pytest.fixture(scope="module")
def open_to_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    servers = Servers(tmp_path_factory.mktemp("cors"), [])
    yield start(servers, listen={"cors_origins": [APP]})
    servers.end()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.extended
@pytest.mark.parametrize(("origin", "allowed"), [(APP, True), ("http://other.example", False)])
def test_a_page_of_an_allowed_origin_uses_s3_and_the_api(
    open_to_app: Gateway, browser: Browser, origin: str, allowed: bool
) -> None:
    s3 = open_to_app.client(signature_version="s3v4")
    where = {"Bucket": "lake", "Key": "main/from-a-page"}
    put, get = (s3.generate_presigned_url(f"{each}_object", where) for each in ("put", "get"))
    keys = {"access_key_id": open_to_app.access_key, "secret_access_key": open_to_app.secret_key}
    login = httpx.post(f"{open_to_app.url}/api/v1/auth/login", json=keys, timeout=60)
    script = f"""
    const api = '{open_to_app.url}/api/v1/repositories';
    const headers = {{Authorization: 'Bearer {login.json()["token"]}'}};
    const read = async () => {{
      await fetch('{put}', {{method: 'PUT', body: 'from a page'}});
      const answer = await fetch('{get}');
      const list = await (await fetch(api, {{headers}})).json();
      return [answer.headers.get('ETag'), await answer.text(), list.results[0].id].join(' ');
    }};
    read().then(String, String)
      .then((text) => {{ document.body.textContent = text; document.title = 'done'; }});
    """
    page = f"<title>x</title><body></body><script>{script}</script>"
    seen = browser.visit(f"{origin}/page", pages={f"{origin}/page": page})
    assert seen.ended == "done"
    etag, _, rest = seen.text.strip().partition(" ")
    assert rest == ("from a page lake" if allowed else "Failed to fetch")
    assert etag == (s3.head_object(**where)["ETag"] if allowed else "TypeError:")
