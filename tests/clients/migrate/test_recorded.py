"""What real versions of lakeFS wrote moves in: see recorded/README.md."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from lakebed.block import LocalSettings, open_block
from lakebed.clients.http.http import Client
from lakebed.clients.http.paging import list_items
from lakebed.clients.http.settings import ClientSettings
from lakebed.clients.migrate.users import migrate_users
from lakebed.kv import open_store
from lakebed.reclaim.collector.job import CollectorOptions
from lakebed.reclaim.references import PurgeQuery
from lakebed.reclaim.retention import RetentionRules
from lakebed.testing.servers.lakebed import lakebed_server
from tests.clients.migrate.commands import LAST, Commands
from tests.clients.migrate.recorded.replay import NAMESPACE, Recording
from tests.kit.lake import open_lake_on
from tests.kit.postgresql import conninfo
from tests.server.kit import ADMIN, Server, opened
from tests.spark.lakes import GCLake

NEWEST, OLD = "lakefs-1.84.0.tar.xz", "lakefs-0.70.0.tar.xz"
_REPOSITORY: Final = "/repositories/lake"


@pytest.fixture
def recording(commands: Commands) -> Recording:
    return unpacked(NEWEST, commands)


def unpacked(name: str, commands: Commands) -> Recording:
    """A recording whose storage is that of the installation."""
    made = Recording(name, commands.blocks.parent)
    made.objects.rename(commands.blocks)
    made.objects = commands.blocks
    return made


def move(
    commands: Commands, recording: Recording, endpoint: str, *more: str, reads: str = "-1"
) -> str:
    """Run a round that must succeed; return what it printed."""
    common = ("--lakefs-root", recording.root, "--gc-is-stopped", "--verify", reads)
    done = commands.move(endpoint, *common, *more)
    assert done.exit_code == 0, done.stdout + done.stderr
    return done.stdout


def move_all(commands: Commands, recording: Recording) -> None:
    with recording.served() as endpoint:
        move(commands, recording, endpoint, *LAST, reads="0")


@contextmanager
def server_of(commands: Commands) -> Iterator[Server]:
    """A server on the installation."""
    with opened(
        database__url=f"sqlite:///{commands.config.parent}/lakebed.db",
        blockstore__type="local",
        blockstore__local__root=str(commands.blocks),
    ) as server:
        yield server


@contextmanager
def lake_of(commands: Commands) -> Iterator[GCLake]:
    """The installation on a clock that tests can turn."""
    settings = LocalSettings(commands.blocks)
    url = f"sqlite:///{commands.config.parent}/lakebed.db"
    with open_store(url) as store, open_block(settings) as block:
        yield GCLake(open_lake_on(store, block), settings, None)


def test_its_rules_of_garbage_collection_stop_a_migration(
    commands: Commands, recording: Recording
) -> None:
    with recording.served() as endpoint:
        refused = commands.move(endpoint, "--lakefs-root", recording.root)
    assert refused.exit_code == 2
    assert "lakeFS has garbage collection rules for lake" in refused.stderr


@pytest.mark.parametrize("source", [(), ("--from-storage",)], ids=["api", "storage"])
def test_it_moves_in_by_rounds(
    source: tuple[str, ...], commands: Commands, recording: Recording
) -> None:
    with recording.served() as endpoint:
        recording.phase = "first"
        said = move(commands, recording, endpoint, *source)
        assert "0 differ" in said
        assert "0 unreadable" in said
        recording.phase = "last"
        said = move(commands, recording, endpoint, *source, *LAST)
    assert "deleted 1 branches and 0 tags" in said, "tag `moves` is set again"
    assert "0 differ" in said
    assert "0 unreadable" in said
    assert "does not match its fields" not in said
    assert f"Staged {len(list(changes(recording)))} uncommitted changes" in said
    assert "Skipped protection rule '*', which protects every branch" in said
    (protected,) = (line for line in said.splitlines() if line.startswith("Protected branches: "))
    assert set(protected.partition(": ")[2].split(", ")) == {"main", "release-*"}
    files = [each for each in recording.asked if "/metadata/object/" in each]
    assert bool(files) or bool(source)
    assert commands.damages(commits=len(commits(recording))) == 0
    with server_of(commands) as server:
        check_answers(server, recording)
        check_rules(server)


def changes(recording: Recording) -> Iterator[tuple[str, dict[str, Any]]]:
    """The uncommitted changes of all branches."""
    for name, answer in recording.told["last"].items():
        if "/diff?" in name:
            for each in answer["body"]["results"]:
                yield name, each


def commits(recording: Recording) -> set[str]:
    """The ids of all commits that refs lead to."""
    begin = "GET /commits/"
    return {
        name.removeprefix(begin).removesuffix("?")
        for name in recording.truth
        if name.startswith(begin)
    }


def check_answers(server: Server, recording: Recording) -> None:
    """Ask what lakeFS was asked, and compare."""
    compared = 0
    server.services.auth.setup("admin", ADMIN)
    for name, answer in recording.truth.items():
        path, _, query = name.removeprefix("GET ").partition("?")
        found = server.call("GET", _REPOSITORY + path, query_string=f"{query}&amount=1000")
        assert found.status_code == answer["status"], (name, found.text)
        ours, told = found.json, answer["body"]
        if "/diff/" in path:  # sizes: of either side, depending on the version
            told["results"] = [each | {"size_bytes": None} for each in told["results"]]
            ours["results"] = [each | {"size_bytes": None} for each in ours["results"]]
        if path.endswith("/commits"):  # lakeFS sorts them by date, also before their parents
            for page in (ours, told):
                page["results"].sort(key=itemgetter("id"))
        assert list(differences(ours, told, recording, name)) == []
        compared += 1
    assert compared > len(commits(recording))
    for place, checksum in recording.sha256.items():
        ref, _, path = place.partition(":")
        where = f"{_REPOSITORY}/refs/{ref}/objects"
        found = server.call("GET", where, params={"path": path})
        assert hashlib.sha256(found.content).hexdigest() == checksum, place


def differences(ours: Any, told: Any, recording: Recording, place: str) -> Iterator[str]:
    """Yield where an answer lacks what lakeFS told, but for ids of files and unlike spellings."""
    if isinstance(told, list) and isinstance(ours, list) and len(ours) == len(told):
        for number, (one, other) in enumerate(zip(ours, told, strict=True)):
            yield from differences(one, other, recording, f"{place}[{number}]")
    elif isinstance(told, dict) and isinstance(ours, dict):
        for key in told.keys() - _OF_ITS_OWN:
            other = told[key]
            if key == "physical_address":
                other = recording.canonical(other)
            if key == "content_type" and not ours[key]:
                ours[key] = "application/octet-stream"  # lakeFS's word for none
            yield from differences(ours.get(key), other, recording, f"{place}.{key}")
    elif ours != told and (ours or told is not None):  # null for nothing, in old versions
        yield f"{place}: {ours!r} instead of {told!r}"


_OF_ITS_OWN: Final = {"generation", "meta_range_id", "pagination", "version"}
"""Generations are counted anew: lakeFS also counts the source of a squash merge."""


def check_rules(server: Server) -> None:
    def upload(branch: str) -> int:
        where = f"{_REPOSITORY}/branches/{branch}/objects"
        return server.call("POST", where, params={"path": "x"}, body=b"x").status_code

    assert upload("main") == 403
    assert upload("side") == 201
    source = {"name": "release-1", "source": "main"}
    server.call("POST", f"{_REPOSITORY}/branches", json=source)
    assert upload("release-1") == 403


def files_below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def addresses(recording: Recording, *refs: str) -> set[str]:
    """Paths in the namespace of what lakeFS listed at refs, but for imported objects."""
    start = f"local://{NAMESPACE}/"
    listed = (
        recording.canonical(each["physical_address"])
        for ref in refs
        for each in recording.results(f"/refs/{ref}/objects/ls")
    )
    return {each.removeprefix(start) for each in listed if each.startswith(start)}


def refs_of(recording: Recording) -> list[str]:
    """Branches with their uncommitted changes, and what they and tags lead to."""
    branches = recording.results("/branches", show_hidden="true")
    tags = recording.results("/tags")
    return [*(each["id"] for each in branches), *(each["commit_id"] for each in branches + tags)]


def test_only_unreferenced_objects_are_deleted_after_its_adoption(
    commands: Commands, recording: Recording
) -> None:
    move_all(commands, recording)
    folder = commands.blocks / NAMESPACE
    before = files_below(folder)
    live = addresses(recording, *refs_of(recording))
    expiring = addresses(recording, *commits(recording)) - live
    garbage = {each for each in before if each.startswith("data/")} - live - expiring
    assert live
    assert expiring
    assert garbage, "replaced uploads and parts of a multipart upload"
    with lake_of(commands) as lake:
        lake.lake.reclaim.retention.set_rules(lake.lake.name, RetentionRules(2))
        for _ in range(3):
            lake.later(24 * 9)
            assert lake.run(CollectorOptions(max_share=1.0)).left_alone == f"local://{NAMESPACE}/"
    assert files_below(folder) == before
    adopted = commands.run("migrate", "adopt", "lakefs://lake", "--lakefs-is-off")
    assert adopted.exit_code == 0, adopted.stderr
    with lake_of(commands) as lake:
        for _ in range(4):
            lake.later(24 * 9)
            lake.run(CollectorOptions(max_share=1.0))
    after = files_below(folder)
    assert before - after == expiring | garbage
    assert after - before == {"data/_lakebed/owner"}
    assert (commands.blocks / "in" / "single").exists(), "imported objects stay foreign"
    assert commands.damages(commits=1) == 0


def test_its_objects_are_purged_after_the_adoption(
    commands: Commands, recording: Recording
) -> None:
    move_all(commands, recording)
    folder = commands.blocks / NAMESPACE
    before = files_below(folder)
    query = PurgeQuery("prefix", b"tables/0")
    listed = {
        recording.canonical(each["physical_address"]).removeprefix(f"local://{NAMESPACE}/")
        for ref in [*refs_of(recording), *commits(recording)]
        for each in recording.results(f"/refs/{ref}/objects/ls")
        if each["path"].startswith("tables/0")
    }
    with lake_of(commands) as lake:
        plan = lake.lake.reclaim.purges.plan(lake.lake.name, query)
        assert (plan.objects, plan.elsewhere.count) == (0, len(listed))
        assert f"objects of lakeFS below local://{NAMESPACE}/ were kept" in plan.adoptable
    commands.run("migrate", "adopt", "lakefs://lake", "--lakefs-is-off")
    with lake_of(commands) as lake:
        lake.lake.reclaim.purges._settle_seconds = 0.01
        done = lake.lake.reclaim.purges.purge(
            lake.lake.name, query, reason="asked for", username="ada"
        )
        assert (done.deleted, done.failed.count) == (len(listed), 0)
    assert before - files_below(folder) == listed


@pytest.mark.slow
def test_an_old_one_moves_in_from_postgresql(
    commands: Commands, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = unpacked(OLD, commands)
    with psycopg.connect(conninfo(postgresql_url)) as connection, connection.cursor() as cursor:
        for table in recording.told["tables"]:
            cursor.execute(table["create"])
            with cursor.copy(f"COPY {table['name']} FROM STDIN") as copy:
                copy.write(table["rows"])
    monkeypatch.setenv("LAKEBED_MIGRATE_DSN", conninfo(postgresql_url))
    common = ("--to", "local://new/lake", "--lakefs-root", recording.root, "--verify", "-1")
    done = commands.run("migrate", "sql", "lakefs://lake", *common, *LAST)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "0 differ" in done.stdout
    assert "0 unreadable" in done.stdout
    assert "does not match its fields" not in done.stdout
    assert "Staged 3 uncommitted changes" in done.stdout
    assert commands.damages(commits=len(commits(recording))) == 0
    with server_of(commands) as server:
        check_answers(server, recording)


@pytest.mark.slow
def test_users_of_an_old_one_are_made(tmp_path: Path) -> None:
    recording = Recording(OLD, tmp_path)
    recording.phase = "users"
    with ExitStack() as stack:
        endpoint = stack.enter_context(recording.served())
        server = stack.enter_context(lakebed_server(tmp_path))
        source = stack.enter_context(closing(Client(ClientSettings(endpoint, "k", "s"))))
        keys = ClientSettings(server.endpoint, server.access_key_id, server.secret_access_key)
        target = stack.enter_context(closing(Client(keys)))
        moved = migrate_users(source, target)
        members = [each.id for each in list_items(target.auth.list_members, "Readers")]
        of_bob = [each.id for each in list_items(target.auth.list_user_policies, "bob")]
        of_group = [each.id for each in list_items(target.auth.list_group_policies, "Readers")]
    assert moved.problems == []
    assert [name for name, _, _ in moved.keys] == ["ada", "bob"]
    assert (members, of_bob, of_group) == (["ada"], ["FSReadAll"], ["ReadLake"])
