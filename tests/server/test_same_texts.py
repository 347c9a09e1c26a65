"""One error has one text: at REST, at S3, in the library, on the command line, and in records.

Exceptions, each for a reason:

- REST: `message` is lakeFS's text where scripts compare it (`_WORDS` of `server.http.errors`); the
  one text is `detail` then.
- S3: `Message` is S3's where the code has a fixed one (`ErrorCode`); the one text is `Detail` then.
- S3 alone: errors of its protocol, such as signatures and malformed XML, have texts of their own.
- Command line: `lakebed: ` before each line, and after the text the status and the command that
  lists the existing names, in parentheses; no empty lines or indents. Conflicts are listed, and a
  failed import is named, before the text. URIs and options are refused before a request.
- HTTP client: names that would change the path of a request, such as `..`, are refused before it.
- Embedded library: an error of the database or the storage is shown in full, with hosts and folders
  that a server only logs (`public_message`).
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import httpx
import pytest

import lakebed
from lakebed.auth import AlreadySetUp, KeyPair
from lakebed.base.actor import Actor, acting_as
from lakebed.base.errors import INTERNAL, LakebedError
from lakebed.block import FromOffset
from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.installation.folder import database_url
from lakebed.lake.catalog import Catalog
from lakebed.lake.commits import merge_request
from lakebed.lake.errors import NothingToImport
from lakebed.lake.imports.sources import ImportSource
from lakebed.lake.multipart.records import MultipartID, Target
from lakebed.lake.places import parse_namespace
from lakebed.server.app import build
from tests.clients.cli.kit import bare_environ
from tests.server.kit import ADMIN, Server, opened
from tests.server.s3.gateway_client import GatewayClient

LAKE: Final = RepositoryID("lake")
MAIN: Final = BranchID("main")
READER: Final = "reader"
UI: Final = Path(lakebed.__path__[0]) / "server/ui/app"
URL: Final = "http://lake"
_RUN: Final = re.compile(r"\b[0-9a-v]{20}\b")

_GATE: Final = """\
name: gate
on:
  pre-commit:
    branches: [hooked]
hooks:
  - id: shut
    type: lua
    properties:
      script: error("no commits on Sundays")
"""


@dataclass
class World:
    """One lake, reached through each API."""

    server: Server
    gateway_client: GatewayClient
    library: lakebed.Lake
    remote: lakebed.Lake
    reader: KeyPair
    cli: Callable[..., str]
    folder: Path

    @property
    def catalog(self) -> Catalog:
        return self.server.services.catalog


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path, KeyPair]]:
    folder = tmp_path_factory.mktemp("lake")
    with (
        lakebed.open(folder, committer="ann") as embedded,
        opened(
            database__url=database_url(folder),
            blockstore__type="local",
            blockstore__local__root=str(folder / "objects"),
            blockstore__default_namespace_prefix="local://",
        ) as server,
    ):
        server.services.auth.setup("admin", ADMIN)
        _fill(embedded.repository("lake"))
        embedded.repository("frozen").create(storage_namespace="local://frozen")
        server.services.foundation.engine.repositories.set_read_only(
            RepositoryID("frozen"), read_only=True
        )
        server.call(
            "PUT",
            "/repositories/lake/settings/branch_protection",
            json=[{"pattern": "guarded"}],
        )
        yield server, folder, GatewayClient(server.services).user(READER)


def _fill(repository: lakebed.Repository) -> None:
    """Make branches for each refusal: conflicts, uncommitted changes, protection, a hook."""
    repository.create(storage_namespace="local://lake")
    main = repository.branch("main")
    main.object("a").upload("1")
    main.object("_lakefs_actions/gate.yaml").upload(_GATE)
    main.commit("first")
    repository.tag("v1").create("main")
    for name in ("left", "right", "dirty", "guarded", "hooked", "merged"):
        repository.branch(name).create("main")
    for name in ("left", "right"):
        repository.branch(name).object("a").upload(name)
        repository.branch(name).commit(name)
    repository.ref("left").merge_into("merged")
    repository.branch("dirty").object("b").upload("1")
    repository.branch("hooked").object("b").upload("1")


@pytest.fixture
def world(
    lake: tuple[Server, Path, KeyPair],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[World]:
    server, folder, reader = lake
    transport = httpx.WSGITransport(app=build(server.services))
    monkeypatch.setattr(httpx.Client, "_init_transport", lambda *_, **__: transport)
    settings = {
        **bare_environ(tmp_path),
        "LAKEBED_ENDPOINT": URL,
        "LAKEBED_ACCESS_KEY_ID": ADMIN.access_key_id,
        "LAKEBED_SECRET_ACCESS_KEY": ADMIN.secret_access_key,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)

    def command(*arguments: str, pair: KeyPair = ADMIN) -> str:
        monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", pair.access_key_id)
        monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", pair.secret_access_key)
        assert running.run(cli.app, list(arguments)) != 0
        lines = capfd.readouterr().err.splitlines()
        said = [line.removeprefix("lakebed: ") for line in lines if line.startswith("lakebed: ")]
        return re.sub(r" \(\d{3}\)(?: \(see `[^`]*`\))?$", "", "\n".join(said))

    (tmp_path / "file").write_text("x")
    with (
        lakebed.open(folder, committer="ann") as embedded,
        lakebed.connect(URL, ADMIN.access_key_id, ADMIN.secret_access_key) as remote,
    ):
        yield World(
            server, GatewayClient(server.services), embedded, remote, reader, command, tmp_path
        )


@dataclass(frozen=True)
class Case:
    """One error, and the requests that meet it."""

    name: str
    domain: Callable[[Catalog], object]
    rest: tuple[str, str, dict[str, Any]] | None
    s3: tuple[str, str, dict[str, str]] | None = None
    library: Callable[[lakebed.Lake], object] | None = None
    command: str = ""


def _upload(
    repository: str = "lake", branch: str = "main", path: str = "x", **options: Any
) -> Callable[[Catalog], object]:
    return lambda catalog: catalog.uploads.upload(
        RepositoryID(repository), BranchID(branch), path.encode(), [b"x"], **options
    )


def _by_library(
    repository: str = "lake", branch: str = "main", path: str = "x", mode: str = "wb"
) -> Callable[[lakebed.Lake], object]:
    def upload(lake: lakebed.Lake) -> None:
        target = lake.repository(repository).branch(branch).object(path)
        with target.writer(mode) as file:  # type: ignore[call-overload]
            file.write(b"x")

    return upload


def _put(
    repository: str = "lake", branch: str = "main", path: str = "x", **headers: str
) -> tuple[str, str, dict[str, Any]]:
    where = f"/repositories/{repository}/branches/{branch}/objects"
    return "POST", where, {"params": {"path": path}, "headers": headers, "body": b"x"}


_REPOSITORY: Final = "/repositories/lake"
_COMMIT: Final = CommitRequest(committer="ann", message="m")
_LONG: Final = "x" * 70_000


def _merge(catalog: Catalog, source: str, branch: str, strategy: str = "") -> object:
    request = merge_request(
        source,
        branch,
        committer="ann",
        message="",
        metadata={},
        strategy=strategy,
        squash=False,
        allow_empty=False,
    )
    return catalog.commits.merge(LAKE, source, BranchID(branch), request)


CASES: Final = [
    Case(
        "repository not found",
        lambda catalog: catalog.repositories.get(RepositoryID("nowhere")),
        ("GET", "/repositories/nowhere", {}),
        ("GET", "/nowhere/main/a", {}),
        lambda lake: lake.repository("nowhere").properties,
        "branch list lakefs://nowhere",
    ),
    Case(
        "branch not found",
        lambda catalog: catalog.refs.get_branch(LAKE, BranchID("none")),
        ("GET", f"{_REPOSITORY}/branches/none", {}),
        ("PUT", "/lake/none/x", {}),
        lambda lake: lake.repository("lake").branch("none").commit("m"),
        "branch show lakefs://lake/none",
    ),
    Case(
        "tag not found",
        lambda catalog: catalog.refs.get_tag(LAKE, "none"),  # type: ignore[arg-type]
        ("GET", f"{_REPOSITORY}/tags/none", {}),
        None,
        lambda lake: lake.repository("lake").tag("none").delete(),
        "tag show lakefs://lake/none",
    ),
    Case(
        "ref not found",
        lambda catalog: catalog.refs.get_commit(LAKE, "none"),
        ("GET", f"{_REPOSITORY}/commits/none", {}),
        ("GET", "/lake/none/a", {}),
        lambda lake: lake.repository("lake").ref("none").get_commit(),
        "show commit lakefs://lake/none",
    ),
    Case(
        "object not found",
        lambda catalog: catalog.objects.stat(LAKE, "main", b"no/x  y"),
        ("GET", f"{_REPOSITORY}/refs/main/objects/stat", {"params": {"path": "no/x  y"}}),
        ("GET", "/lake/main/no/x%20%20y", {}),
        lambda lake: lake.repository("lake").ref("main").object("no/x  y").stat(),
        "fs stat {object}",
    ),
    Case(
        "repository exists",
        lambda catalog: catalog.repositories.create(
            "lake", parse_namespace("local://other"), committer="ann"
        ),
        (
            "POST",
            "/repositories",
            {"json": {"name": "lake", "storage_namespace": "local://other"}},
        ),
        ("PUT", "/lake", {}),
        lambda lake: lake.repository("lake").create(storage_namespace="local://other"),
        "repo create lakefs://lake local://other",
    ),
    Case(
        "branch exists",
        lambda catalog: catalog.ref_changes.create_branch(LAKE, "left", "main"),
        ("POST", f"{_REPOSITORY}/branches", {"json": {"name": "left", "source": "main"}}),
        None,
        lambda lake: lake.repository("lake").branch("left").create("main"),
        "branch create lakefs://lake/left --source lakefs://lake/main",
    ),
    Case(
        "tag exists",
        lambda catalog: catalog.ref_changes.create_tag(LAKE, "v1", "main"),
        ("POST", f"{_REPOSITORY}/tags", {"json": {"id": "v1", "ref": "main"}}),
        None,
        lambda lake: lake.repository("lake").tag("v1").create("main"),
        "tag create lakefs://lake/v1 lakefs://lake/main",
    ),
    Case(
        "invalid repository name",
        lambda catalog: catalog.repositories.create(
            "Bad_Name", parse_namespace("local://bad"), committer="ann"
        ),
        (
            "POST",
            "/repositories",
            {"json": {"name": "Bad_Name", "storage_namespace": "local://bad"}},
        ),
        ("PUT", "/Bad_Name", {}),
        lambda lake: lake.repository("Bad_Name").create(storage_namespace="local://bad"),
        "repo create lakefs://Bad_Name local://bad",
    ),
    Case(
        "invalid branch name",
        lambda catalog: catalog.ref_changes.create_branch(LAKE, "-x", "main"),
        ("POST", f"{_REPOSITORY}/branches", {"json": {"name": "-x", "source": "main"}}),
        None,
        lambda lake: lake.repository("lake").branch("-x").create("main"),
        "branch create lakefs://lake/-x --source lakefs://lake/main",
    ),
    Case(
        "invalid tag name",
        lambda catalog: catalog.ref_changes.create_tag(LAKE, "v*", "main"),
        ("POST", f"{_REPOSITORY}/tags", {"json": {"id": "v*", "ref": "main"}}),
        None,
        lambda lake: lake.repository("lake").tag("v*").create("main"),
        "tag create lakefs://lake/v* lakefs://lake/main",
    ),
    Case(
        "invalid ref",
        lambda catalog: catalog.refs.get_commit(LAKE, "main^x"),
        ("GET", f"{_REPOSITORY}/commits/main^x", {}),
        ("GET", "/lake/main%5Ex/a", {}),
        lambda lake: lake.repository("lake").ref("main^x").get_commit(),
        "show commit lakefs://lake/main^x",
    ),
    Case(
        "path too long",
        _upload(path="p" * 2000),
        _put(path="p" * 2000),
        ("PUT", f"/lake/main/{'p' * 2000}", {}),
        _by_library(path="p" * 2000),
        f"fs upload -s {{file}} lakefs://lake/main/{'p' * 2000}",
    ),
    Case("path empty", _upload(path=""), _put(path=""), None, _by_library(path="")),
    Case(
        "protected branch",
        _upload(branch="guarded"),
        _put(branch="guarded"),
        ("PUT", "/lake/guarded/x", {}),
        _by_library(branch="guarded"),
        "fs upload -s {file} lakefs://lake/guarded/x",
    ),
    Case(
        "commit to a protected branch",
        lambda catalog: catalog.commits.commit(LAKE, BranchID("guarded"), _COMMIT),
        ("POST", f"{_REPOSITORY}/branches/guarded/commits", {"json": {"message": "m"}}),
        None,
        lambda lake: lake.repository("lake").branch("guarded").commit("m"),
        "commit lakefs://lake/guarded -m m",
    ),
    Case(
        "read-only repository",
        _upload("frozen"),
        _put("frozen"),
        ("PUT", "/frozen/main/x", {}),
        _by_library("frozen"),
        "fs upload -s {file} lakefs://frozen/main/x",
    ),
    Case(
        "precondition failed",
        _upload(path="a", condition=lambda found: found is None),
        _put(path="a", **{"If-None-Match": "*"}),
        ("PUT", "/lake/main/a", {"if-none-match": "*"}),
        _by_library(path="a", mode="xb"),
    ),
    Case(
        "merge conflict",
        lambda catalog: _merge(catalog, "left", "right"),
        ("POST", f"{_REPOSITORY}/refs/left/merge/right", {}),
        None,
        lambda lake: lake.repository("lake").ref("left").merge_into("right"),
        "merge lakefs://lake/left lakefs://lake/right",
    ),
    Case(
        "dirty branch",
        lambda catalog: _merge(catalog, "left", "dirty"),
        ("POST", f"{_REPOSITORY}/refs/left/merge/dirty", {}),
        None,
        lambda lake: lake.repository("lake").ref("left").merge_into("dirty"),
        "merge lakefs://lake/left lakefs://lake/dirty",
    ),
    Case(
        "invalid strategy",
        lambda catalog: _merge(catalog, "left", "right", "mine"),
        ("POST", f"{_REPOSITORY}/refs/left/merge/right", {"json": {"strategy": "mine"}}),
        None,
        lambda lake: (
            lake.repository("lake")
            .ref("left")
            .merge_into(
                "right",
                strategy="mine",  # type: ignore[arg-type]
            )
        ),
    ),
    Case(
        "nothing to merge",
        lambda catalog: _merge(catalog, "main", "left"),
        ("POST", f"{_REPOSITORY}/refs/main/merge/left", {}),
        None,
        lambda lake: lake.repository("lake").ref("main").merge_into("left"),
        "merge lakefs://lake/main lakefs://lake/left",
    ),
    Case(
        "nothing to commit",
        lambda catalog: catalog.commits.commit(LAKE, MAIN, _COMMIT),
        ("POST", f"{_REPOSITORY}/branches/main/commits", {"json": {"message": "m"}}),
        None,
        lambda lake: lake.repository("lake").branch("main").commit("m"),
        "commit lakefs://lake/main -m m",
    ),
    Case(
        "message too long",
        lambda catalog: catalog.commits.commit(
            LAKE, MAIN, CommitRequest(committer="ann", message=_LONG)
        ),
        ("POST", f"{_REPOSITORY}/branches/main/commits", {"json": {"message": _LONG}}),
        None,
        lambda lake: lake.repository("lake").branch("main").commit(_LONG),
        f"commit lakefs://lake/main -m {_LONG}",
    ),
    Case(
        "reserved metadata",
        lambda catalog: catalog.commits.commit(
            LAKE, MAIN, CommitRequest(committer="ann", message="m", metadata={".lakebed.x": "1"})
        ),
        (
            "POST",
            f"{_REPOSITORY}/branches/main/commits",
            {"json": {"message": "m", "metadata": {".lakebed.x": "1"}}},
        ),
        None,
        lambda lake: (
            lake.repository("lake").branch("main").commit("m", metadata={".lakebed.x": "1"})
        ),
        "commit lakefs://lake/main -m m --meta .lakebed.x=1",
    ),
    Case(
        "default branch",
        lambda catalog: catalog.ref_changes.delete_branch(LAKE, MAIN),
        ("DELETE", f"{_REPOSITORY}/branches/main", {}),
        None,
        lambda lake: lake.repository("lake").branch("main").delete(),
        "branch delete lakefs://lake/main --yes",
    ),
    Case(
        "parent of a merge",
        lambda catalog: catalog.commits.revert(LAKE, MAIN, "merged", _COMMIT),
        (
            "POST",
            f"{_REPOSITORY}/branches/main/revert",
            {"json": {"ref": "merged", "parent_number": 0}},
        ),
        None,
        lambda lake: lake.repository("lake").branch("main").revert("merged"),
        "branch revert lakefs://lake/main merged --yes",
    ),
    Case(
        "hook refused",
        lambda catalog: catalog.commits.commit(LAKE, BranchID("hooked"), _COMMIT),
        ("POST", f"{_REPOSITORY}/branches/hooked/commits", {"json": {"message": "m"}}),
        None,
        lambda lake: lake.repository("lake").branch("hooked").commit("m"),
        "commit lakefs://lake/hooked -m m",
    ),
    Case(
        "range",
        lambda catalog: catalog.objects.read(
            catalog.objects.stat(LAKE, "main", b"a"),
            byte_range=FromOffset(9),
        ),
        (
            "GET",
            f"{_REPOSITORY}/refs/main/objects",
            {"params": {"path": "a"}, "headers": {"Range": "bytes=9-"}},
        ),
        ("GET", "/lake/main/a", {"range": "bytes=9-"}),
    ),
    Case(
        "multipart upload not found",
        lambda catalog: catalog.multiparts.abort(Target(LAKE, MAIN, b"a", MultipartID("a" * 32))),
        None,
        ("DELETE", f"/lake/main/a?uploadId={'a' * 32}", {}),
    ),
    Case(
        "sources of an import overlap",
        lambda catalog: catalog.imports.start(
            LAKE,
            MAIN,
            [
                ImportSource.of_prefix(parse_namespace("local://one/"), b"p/"),
                ImportSource.of_prefix(parse_namespace("local://two/"), b"p/q/"),
            ],
            committer="ann",
            message="m",
        ),
        (
            "POST",
            f"{_REPOSITORY}/branches/main/import",
            {
                "json": {
                    "paths": [
                        {"type": "common_prefix", "path": "local://one/", "destination": "p/"},
                        {"type": "common_prefix", "path": "local://two/", "destination": "p/q/"},
                    ],
                    "commit": {"message": "m"},
                }
            },
        ),
        None,
        lambda lake: (
            lake.repository("lake")
            .branch("main")
            .import_data("m", prefixes={"local://one/": "p/", "local://two/": "p/q/"})
        ),
    ),
    Case(
        "pull request not found",
        lambda catalog: catalog.pulls.get(LAKE, "4pi3sa85p80htbg1mll0"),  # type: ignore[arg-type]
        ("GET", f"{_REPOSITORY}/pulls/4pi3sa85p80htbg1mll0", {}),
        None,
        None,
        "pr show lakefs://lake 4pi3sa85p80htbg1mll0",
    ),
]


def by_rest(world: World, call: tuple[str, str, dict[str, Any]], pair: KeyPair = ADMIN) -> str:
    """Return `detail`, or `message` without one."""
    method, path, options = call
    body = world.server.call(method, path, pair=pair, **options).json
    return str(body.get("detail", body["message"]))


def by_s3(world: World, call: tuple[str, str, dict[str, str]], pair: KeyPair = ADMIN) -> str:
    """Return `Detail`, or `Message` without one."""
    method, target, headers = call
    body = b"x" if method == "PUT" and target.count("/") > 1 else b""
    error = ET.fromstring(
        world.gateway_client.ask(method, target, body, pair=pair, headers=headers).body
    )
    return error.findtext("Detail") or error.findtext("Message") or ""


def by_library(lake: lakebed.Lake, call: Callable[[lakebed.Lake], object]) -> str:
    with pytest.raises(lakebed.LakeError) as refused:
        call(lake)
    return str(refused.value)


def plain(text: str) -> str:
    """Return a text without the id of a run, which each refusal of a hook has its own of."""
    return _RUN.sub("RUN", text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_error_has_one_text(world: World, case: Case) -> None:
    with acting_as(Actor(user="ann")), pytest.raises(LakebedError) as refused:
        case.domain(world.catalog)
    text = plain(str(refused.value))
    found = {}
    if case.rest is not None:
        found["REST"] = by_rest(world, case.rest)
    if case.s3 is not None:
        found["S3"] = by_s3(world, case.s3)
    if case.library is not None:
        found["embedded library"] = by_library(world.library, case.library)
        found["library over HTTP"] = by_library(world.remote, case.library)
    if case.command:
        names = {"file": str(world.folder / "file"), "object": "lakefs://lake/main/no/x  y"}
        found["command line"] = world.cli(
            *(word.format_map(names) for word in case.command.split(" "))
        )
    expected = dict.fromkeys(found, text)
    if case.command:
        expected["command line"] = "\n".join(filter(None, map(str.strip, text.splitlines())))
    assert {api: plain(said) for api, said in found.items()} == expected


def test_a_permission_and_keys_have_one_text(world: World) -> None:
    get = ("GET", f"{_REPOSITORY}/refs/main/objects/stat", {"params": {"path": "a"}})
    for pair in (world.reader, KeyPair(access_key_id="AKIANOBODY", secret_access_key="x")):
        remote = lakebed.connect(URL, pair.access_key_id, pair.secret_access_key)
        with remote:
            found = {
                "REST": by_rest(world, get, pair),
                "S3": by_s3(world, ("GET", "/lake/main/a", {}), pair),
                "library": by_library(
                    remote, lambda lake: lake.repository("lake").ref("main").object("a").stat()
                ),
                "command line": world.cli("fs", "stat", "lakefs://lake/main/a", pair=pair),
            }
        assert found == dict.fromkeys(found, found["REST"])
        assert re.search("ask an administrator|check the access key id", found["REST"])


def test_the_record_of_an_import_has_the_text(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a database in a file, the background process of the server runs imports.
    monkeypatch.setattr(world.catalog.imports, "_on_start", world.catalog.import_runner.run_waiting)
    place = "local://nothing/"
    text = str(NothingToImport(place))
    body = {
        "paths": [{"type": "common_prefix", "path": place, "destination": "p/"}],
        "commit": {"message": "m"},
    }
    started = world.server.call("POST", f"{_REPOSITORY}/branches/main/import", json=body).json
    status = world.server.call(
        "GET", f"{_REPOSITORY}/branches/main/import", params={"id": started["id"]}
    ).json
    assert status["error"]["message"] == text
    for lake in (world.library, world.remote):
        branch = lake.repository("lake").branch("main")
        with pytest.raises(lakebed.Invalid) as refused:
            branch.import_data("m", prefixes={place: "p/"})
        assert str(refused.value) == text
    said = world.cli(
        "import", "--from", place, "--to", "lakefs://lake/main/p/", "-m", "m", "--no-progress"
    )
    assert said.rstrip().endswith(f" failed: {text}")


def test_a_failed_deletion_among_several_has_the_text(world: World) -> None:
    body = {"paths": ["p" * 2000]}
    [failed] = world.server.call(
        "POST", f"{_REPOSITORY}/branches/main/objects/delete", json=body
    ).json["errors"]
    for lake in (world.library, world.remote):
        branch = lake.repository("lake").branch("main")
        assert by_library(lake, lambda _: branch.delete_objects(body["paths"])) == failed["message"]  # noqa: B023


def test_the_second_setup_has_the_text(world: World) -> None:
    call = ("POST", "/setup_lakefs", {"json": {"username": "bob"}})
    assert by_rest(world, call) == world.cli("setup").rstrip() == str(AlreadySetUp())


def test_an_unexpected_error_names_no_host_at_any_api(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("db.internal")

    monkeypatch.setattr(world.catalog.objects, "stat", fail)
    get = ("GET", f"{_REPOSITORY}/refs/main/objects/stat", {"params": {"path": "a"}})
    said = by_rest(world, get)
    assert said == by_s3(world, ("GET", "/lake/main/a", {})) == INTERNAL.format("request")


@pytest.mark.slow  # needs Node
def test_the_web_ui_shows_the_text() -> None:
    body = {"message": "uncommitted changes (dirty branch)", "kind": "dirty_branch"}
    for detail in ("branch b has uncommitted changes: commit or reset them first", ""):
        answer = json.dumps({**body, "detail": detail})
        program = f"""
            import {{ ApiError, explain }} from "{(UI / "api.js").as_uri()}";
            const statuses = [400, 401, 403, 404, 409, 429, 500, 503];
            const shown = statuses.map((each) => explain(new ApiError(each, {answer})));
            console.log(JSON.stringify(shown));
        """
        shown = subprocess.run(
            ["node", "--input-type=module", "-e", program],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        text = detail or body["message"]
        assert set(json.loads(shown)) == {text[0].upper() + text[1:]}
