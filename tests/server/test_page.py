"""The document and the files of the web UI."""

import gzip
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import falcon
import falcon.testing
import pytest

from lakebed.lake.hooks.settings import HookLimits
from lakebed.server.api.operations import ROUTES
from lakebed.server.settings import ReclaimSettings, ServerSettings
from lakebed.server.ui import pages
from lakebed.server.ui.pages import API, INDEX, PREFIX, load_assets

APP = Path(pages.__file__).with_name("app")
PACKED_BYTES_MAX = 60_000


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.inline: list[str] = []
        self._script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value or "" for name, value in attrs if name in {"href", "src"}]
        self.inline += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        self._script = tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if self._script and data.strip():
            self.inline.append(data)


@pytest.fixture(scope="module")
def client() -> falcon.testing.TestClient:
    app = falcon.App()
    features = pages.features_of(ROUTES, ServerSettings())
    app.add_route("/", pages._Document(INDEX, pages.DOCUMENT_HEADERS, features))
    app.add_route("/docs", pages._Document(API, pages.API_HEADERS))
    app.add_route(f"{PREFIX}/{{digest}}/{{name:path}}", pages._File())
    return falcon.testing.TestClient(app)


def document(client: falcon.testing.TestClient, address: str = "/") -> tuple[str, list[str]]:
    text = client.simulate_get(address).text
    links = Links()
    links.feed(text)
    assert links.inline == []
    return text, links.targets


@pytest.mark.parametrize("address", ["/", "/docs"])
def test_a_document_loads_files_of_this_server_and_nothing_else(
    address: str, client: falcon.testing.TestClient
) -> None:
    text, targets = document(client, address)
    assert "{{" not in text
    assert targets
    for target in targets:
        if target == "/openapi.json":  # for those without scripts
            continue
        answer = client.simulate_get(target)
        assert answer.status_code == 200, target
        assert "immutable" in answer.headers["cache-control"]


def test_every_import_is_there_and_those_of_the_objects_page_are_named_in_the_document(
    client: falcon.testing.TestClient,
) -> None:
    """A browser that had to read a module to find the next would need a round trip for each."""
    _, targets = document(client)
    assets = load_assets()
    for name in assets.needed_by(["main.js", "pages/objects.js"]):
        assert f"{PREFIX}/{assets.digest}/{name}" in targets
    for name, asset in assets.by_name.items():
        if name.startswith("vendor/"):
            continue
        wanted = re.findall(r'(?:from|import\() ?"(\.[^"]+)"', asset.plain.decode())
        for each in wanted:
            assert (APP / name).parent.joinpath(each).is_file(), f"{name} imports {each}"
    assert not [name for name in assets.by_name if name.endswith(".ts")]


@pytest.mark.parametrize("page", sorted(path.name for path in (APP / "pages").iterdir()))
def test_the_app_is_small_whatever_page_is_opened(page: str) -> None:
    assets = load_assets()
    names = assets.needed_by(["main.js", "pages/objects.js", f"pages/{page}"])
    packed = sum(len(assets.by_name[name].packed) for name in {*names, "style.css", "logo.svg"})
    assert packed < PACKED_BYTES_MAX


def test_nothing_makes_markup_or_code_of_text() -> None:
    """The policy of the page would stop it; it should not even be tried."""
    for name, asset in load_assets().by_name.items():
        if name.startswith("vendor/"):
            continue
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function",
            asset.plain.decode(),
        )
        assert found == [], name


@pytest.mark.parametrize(("address", "cleaners"), [("/", "'none'"), ("/docs", "dompurify")])
def test_the_policy_is_strict(
    address: str, cleaners: str, client: falcon.testing.TestClient
) -> None:
    headers = client.simulate_get(address).headers
    policy = dict(
        part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert policy["trusted-types"] == cleaners
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"


def test_a_document_that_is_known_is_not_sent_again(client: falcon.testing.TestClient) -> None:
    etag = client.simulate_get("/").headers["etag"]
    again = client.simulate_get("/", headers={"If-None-Match": etag})
    assert again.status_code == 304
    assert "content-security-policy" in again.headers


@pytest.mark.parametrize("address", ["/", "/docs"])
def test_one_may_ask_for_the_head_alone(address: str, client: falcon.testing.TestClient) -> None:
    whole, head = client.simulate_get(address), client.simulate_head(address)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["etag"] == whole.headers["etag"]


def test_files_are_packed_for_those_who_can_unpack(client: falcon.testing.TestClient) -> None:
    _, targets = document(client)
    target = next(each for each in targets if each.endswith("/main.js"))
    packed = client.simulate_get(target, headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    plain = client.simulate_get(target)
    assert "content-encoding" not in plain.headers
    assert len(packed.content) < len(plain.content)


def test_compressed_pages_are_decompressed_for_clients_without_support(
    client: falcon.testing.TestClient,
) -> None:
    _, targets = document(client, "/docs")
    target = next(each for each in targets if each.endswith("/swagger-ui-bundle.js"))
    packed = client.simulate_get(target, headers={"Accept-Encoding": "gzip"})
    assert packed.content == (APP / "vendor/swagger-ui-bundle.js.gz").read_bytes()
    plain = client.simulate_get(target)
    assert plain.content == gzip.decompress(packed.content)
    assert plain.headers["content-type"] == packed.headers["content-type"]


@pytest.mark.parametrize(
    "path", ["other-digest/main.js", "{digest}/index.html", "{digest}/../pages.py", "{digest}/x"]
)
def test_other_files_are_not_served(path: str, client: falcon.testing.TestClient) -> None:
    filled = path.format(digest=load_assets().digest)
    assert client.simulate_get(f"{PREFIX}/{filled}").status_code == 404


def test_the_vendored_files_are_what_their_checksums_say() -> None:
    lines = (APP / "vendor/SHA256SUMS").read_text().splitlines()
    wanted = {name: digest for digest, name in (line.split() for line in lines)}
    vendored = [each for each in (APP / "vendor").iterdir() if each.suffix in {".js", ".gz"}]
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in vendored}
    assert found == wanted
    licenses = (APP / "vendor/LICENSE.txt").read_text()
    assert [name for name in wanted if name not in licenses] == []


def test_pages_of_what_is_not_there_are_not_offered(client: falcon.testing.TestClient) -> None:
    text, _ = document(client)
    (found,) = re.findall('name="lakebed-features" content="([^"]*)"', text)
    assert set(found.split()) == {"actions", "gc-runs", "import", "pulls", "retention"}
    less = [route for route in ROUTES if route.operation != "importStart"]
    settings = ServerSettings(
        hooks=HookLimits(enabled=False), reclaim=ReclaimSettings(enabled=True)
    )
    assert pages.features_of(less, settings) == {"gc-runs", "pulls", "reclaim", "retention"}
