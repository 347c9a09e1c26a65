"""Pages and objects that attack a server through the browser of somebody who may do more."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import boto3
import httpx
import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from lakebed.server.quickstart import WELL_KNOWN_PAIR
from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.chromium import Browser, chromium
from tests.kit.s3_gateway import Client
from tests.kit.served import PATIENCE_SECONDS, free_port

pytestmark = pytest.mark.extended

KEY: Final = WELL_KNOWN_PAIR.access_key_id
SECRET: Final = WELL_KNOWN_PAIR.secret_access_key


class Attacker:
    """A web server of somebody else, on another port of this machine."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        attacker = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = attacker.pages.get(self.path, "").encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self, html: str, host: str = "127.0.0.1") -> str:
        """Put a page up; return its URL."""
        path = f"/{len(self.pages)}"
        self.pages[path] = html
        return f"http://{host}:{self.server.server_port}{path}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def attacker() -> Iterator[Attacker]:
    started = Attacker()
    yield started
    started.server.shutdown()
    started.server.server_close()


class Target:
    """A server, its administrator, and a repository with an object in it."""

    def __init__(self, endpoint: str, keys: tuple[str, str], name: str) -> None:
        self.endpoint = endpoint
        self.name = name
        self.keys = keys
        self.api = httpx.Client(base_url=f"{endpoint}/api/v1", auth=keys, timeout=60)

    def upload(self, path: str) -> str:
        """Upload an object that an attack aims at; return its path."""
        made = self.api.post(self._objects, params={"path": path}, content=b"precious")
        assert made.status_code == 201, made.text
        return path

    def has(self, path: str) -> bool:
        found = self.api.get(f"/repositories/{self.name}/refs/main/objects", params={"path": path})
        assert found.status_code in {200, 404}, found.text
        return found.status_code == 200

    @property
    def _objects(self) -> str:
        return f"/repositories/{self.name}/branches/main/objects"

    @property
    def delete_url(self) -> str:
        return f"{self.endpoint}/api/v1{self._objects}/delete"

    @property
    def cookie(self) -> dict[str, Any]:
        """The cookie of a login, as a browser would keep it."""
        body = dict(zip(("access_key_id", "secret_access_key"), self.keys, strict=True))
        login = httpx.post(f"{self.endpoint}/api/v1/auth/login", json=body, timeout=60)
        ((name, morsel),) = SimpleCookie(login.headers["set-cookie"]).items()
        return {
            "name": name,
            "value": morsel.value,
            "url": self.endpoint,
            "httpOnly": bool(morsel["httponly"]),
            "sameSite": morsel["samesite"],
        }


@pytest.fixture(scope="module")
def lake(sqlite_lakebed: LakebedServer) -> Iterator[Target]:
    keys = sqlite_lakebed.access_key_id, sqlite_lakebed.secret_access_key
    found = Target(sqlite_lakebed.endpoint, keys, "hostile-pages")
    namespace = f"{sqlite_lakebed.namespace}/{found.name}"
    made = found.api.post(
        "/repositories", json={"name": found.name, "storage_namespace": namespace}
    )
    assert made.status_code == 201, made.text
    yield found
    found.api.close()


@contextmanager
def running_quickstart(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "lakebed", "quickstart", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(folder / "data")],
            stdout=log,
            stderr=log,
            env={**os.environ, "LAKEBED_SERVER__PROCESSES__WORKERS": "1"},
        )
    try:
        url = f"http://127.0.0.1:{port}"
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                httpx.get(f"{url}/healthcheck", timeout=60).raise_for_status()
                break
            except httpx.HTTPError:
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with running_quickstart(tmp_path_factory.mktemp("quickstart")) as url:
        found = Target(url, (KEY, SECRET), "sample")
        yield found
        found.api.close()


# A script that is stored as an object


def script(user: str) -> str:
    """A script that makes a user, if it runs in the server's origin."""
    return f"""
    fetch('/api/v1/auth/users', {{
      method: 'POST',
      headers: {{'Content-Type': 'application/json'}},
      body: JSON.stringify({{id: '{user}'}}),
    }}).finally(() => {{ document.title = 'done'; }});
    """


HTML: Final = "<title>x</title><script>{}</script>"
XHTML: Final = '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>\
<script>{}</script></body></html>'


def s3_link(lake: Target, path: str, body: str, **options: str) -> str:
    """Store an object, and return a presigned URL of it."""
    s3: Client = boto3.client(
        "s3",
        endpoint_url=lake.endpoint,
        aws_access_key_id=lake.keys[0],
        aws_secret_access_key=lake.keys[1],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )
    where = {"Bucket": lake.name, "Key": f"main/{path}"}
    s3.put_object(**where, Body=body.encode(), ContentType="text/html")
    url: str = s3.generate_presigned_url("get_object", Params={**where, **options})
    s3.close()
    return url


@pytest.mark.parametrize(
    ("name", "page", "options"),
    [
        ("html", HTML, {}),
        ("inline", HTML, {"ResponseContentDisposition": "inline"}),
        ("xhtml", XHTML, {"ResponseContentType": "application/xhtml+xml"}),
    ],
    ids=["html", "inline", "xhtml"],
)
def test_a_stored_script_does_not_run_where_the_server_is(
    lake: Target, browser: Browser, name: str, page: str, options: dict[str, str]
) -> None:
    url = s3_link(lake, f"{name}.html", page.format(script(name)), **options)
    assert browser.visit(url, cookie=lake.cookie).ended == "download"
    # Nor where something takes away that the answer is a download.
    shown = browser.visit(url, cookie=lake.cookie, without="content-disposition")
    assert shown.ended == "loaded"
    assert lake.api.get(f"/auth/users/{name}").status_code == 404


# Requests that are forged by pages of others


def deleting(url: str, path: str) -> str:
    """A page that deletes an object, by a request that browsers send without asking first."""
    return f"""<title>x</title><script>
    fetch('{url}', {{
      method: 'POST', mode: 'no-cors', credentials: 'include',
      body: new Blob(['{json.dumps({"paths": [path]})}']),
    }}).finally(() => {{ document.title = 'done'; }});
    </script>"""


def test_a_page_of_another_port_cannot_use_the_cookie_of_a_login(
    lake: Target, browser: Browser, attacker: Attacker
) -> None:
    path = lake.upload("wanted-by-another-port")
    url = attacker.page(deleting(lake.delete_url, path))
    assert browser.visit(url, cookie=lake.cookie).ended == "done"
    assert lake.has(path)


def test_a_page_of_the_server_itself_can(lake: Target, browser: Browser) -> None:
    path = lake.upload("deleted-by-our-page")
    own = f"{lake.endpoint}/page-of-this-test"
    body = json.dumps({"paths": [path]})
    page = f"""<title>x</title><script>
    fetch('{lake.delete_url}', {{
      method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: '{body}',
    }}).finally(() => {{ document.title = 'done'; }});
    </script>"""
    assert browser.visit(own, cookie=lake.cookie, pages={own: page}).ended == "done"
    assert not lake.has(path)


def test_no_page_can_use_the_keys_of_a_quickstart_in_a_url(
    quickstart: Target, browser: Browser, attacker: Attacker
) -> None:
    path = quickstart.upload("wanted-by-a-form")
    secret = SECRET.replace("/", "%2F")
    target = quickstart.delete_url.replace("http://", f"http://{KEY}:{secret}@")
    field = json.dumps({"paths": [path], "x": ""})
    before, _, after = field.partition('""')
    form = f"""<form method="post" enctype="text/plain" action="{target}">
    <input name='{before}"' value='"{after}'></form><script>document.forms[0].submit()</script>"""
    seen = browser.visit(attacker.page(form, host="localhost"))
    assert "foreign_page" in seen.text
    assert quickstart.has(path)


def test_no_page_can_sign_requests_to_a_quickstart(
    quickstart: Target, browser: Browser, attacker: Attacker
) -> None:
    path = quickstart.upload("wanted-by-a-signature")
    request = AWSRequest("POST", f"{quickstart.endpoint}/sample", params={"delete": ""})
    S3SigV4QueryAuth(Credentials(KEY, SECRET), "s3", "us-east-1").add_auth(request)
    body = f"<Delete><Object><Key>main/{path}</Key></Object></Delete>"
    page = f"""<title>x</title><script>
    fetch('{request.url}', {{method: 'POST', mode: 'no-cors', body: new Blob(['{body}'])}})
      .finally(() => {{ document.title = 'done'; }});
    </script>"""
    assert browser.visit(attacker.page(page, host="localhost")).ended == "done"
    assert quickstart.has(path)


def test_a_name_that_is_led_to_a_quickstart_opens_nothing(
    quickstart: Target, browser: Browser
) -> None:
    # The browser takes every name under .example for this machine.
    evil = quickstart.endpoint.replace("127.0.0.1", "evil.example")
    page = f"""<title>x</title><script>
    fetch('/api/v1/repositories', {{headers: {{Authorization: 'Basic ' + btoa('{KEY}:{SECRET}')}}}})
      .then((answer) => answer.text(), String)
      .then((text) => {{ document.body.textContent = text; }})
      .finally(() => {{ document.title = 'done'; }});
    </script><body></body>"""
    seen = browser.visit(f"{evil}/page", pages={f"{evil}/page": page})
    assert seen.ended == "done"
    assert "sample" not in seen.text
    assert "evil.example" in seen.text


def test_links_to_a_quickstart_still_work(
    quickstart: Target, browser: Browser, attacker: Attacker
) -> None:
    link = f'<title>x</title><a href="{quickstart.endpoint}/">x</a>\
<script>document.links[0].click()</script>'
    seen = browser.visit(attacker.page(link, host="localhost"))
    assert "Lakebed" in seen.title
