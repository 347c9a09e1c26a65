"""`lakebed migrate`, as people call it: from a server, and from PostgreSQL."""

import json
from datetime import UTC, datetime

import psycopg
import pytest

from tests.clients.migrate.commands import LAST, Commands
from tests.clients.migrate.lakes import FakeLakeFS, entry_of
from tests.clients.migrate.served import served
from tests.kit.permissions import open_to_others, usual_umask
from tests.kit.postgresql import conninfo

SCHEMA = """
CREATE TABLE graveler_repositories (id text, storage_namespace text,
    creation_date timestamptz, default_branch text);
CREATE TABLE graveler_branches (repository_id text, id text, staging_token text, commit_id text);
CREATE TABLE graveler_commits (repository_id text, id text, committer text, message text,
    creation_date timestamptz, meta_range_id text, metadata jsonb, parents text[], version int,
    generation int);
CREATE TABLE graveler_tags (repository_id text, id text, commit_id text);
CREATE TABLE graveler_staging_kv (staging_token text, key bytea, identity bytea, data bytea);
"""


@pytest.fixture
def lake() -> FakeLakeFS:
    made = FakeLakeFS(namespace="local://old/lake")
    first = made.commit({b"a/%d" % number: number for number in range(20)})
    second = made.commit({b"a/%d" % number: number for number in range(5, 30)}, first)
    third = made.commit({b"b": 1}, first)
    merged = made.commit({b"a/7": 7, b"b": 1}, second, third, swapped=True)
    made.heads = {"main": merged, "side": third}
    made.tagged = {"v1": first}
    made.staged = {"side": {b"b": None, b"n/ew": 7}, "main": {b"b": 9}}
    made.protected = ["main", "side"]
    return made


def test_a_repository_moves_in_by_rounds(lake: FakeLakeFS, commands: Commands) -> None:
    commands.store_objects(lake)
    with served(lake) as endpoint:
        dry = commands.move(endpoint, "--dry-run")
        assert "4 commits, 2 branches and 1 tags would be migrated" in dry.stdout
        done = commands.move(endpoint, "--verify", "-1")
        assert done.exit_code == 0, done.stderr
        assert "Migrated 4 commits (0 already present), 2 branches and 1 tags" in done.stdout
        assert "Compared 4 commits with lakeFS: 0 differ" in done.stdout
        lake.heads["main"] = lake.commit({b"c": 3}, lake.heads["main"])
        commands.store_objects(lake)
        lake.protected += ["*", "{main,side}"]  # lakeFS is frozen; braces cannot be written here
        early = commands.move(endpoint, "--uncommitted")
        assert "--uncommitted needs --last" in early.stderr
        last = commands.move(endpoint, "--last", "--verify", "-1", "--uncommitted")
        assert "Staged 3 uncommitted changes" in last.stdout
        assert "Migrated 1 commits (4 already present), 1 branches and 0 tags" in last.stdout
        assert "is writable now" in last.stdout
        assert "Skipped protection rule '*', which protects every branch" in last.stdout
        assert "Skipped protection rule {main,side}: " in last.stdout
        assert "Protected branches: main, side" in last.stdout
        assert last.exit_code == 1, "a rule could not be moved"
        assert commands.damages() == 0
        assert commands.staged() == {b"b": None, b"n/ew": "local://old/lake/data/6e2f6577-7"}
        again = commands.move(endpoint)
        assert again.exit_code == 1
        assert "its last round is over" in again.stderr


def test_other_users_of_the_machine_cannot_read_what_is_written(
    lake: FakeLakeFS, commands: Commands
) -> None:
    commands.store_objects(lake)
    with usual_umask(), served(lake) as endpoint:
        commands.blocks.chmod(0o755)
        assert commands.move(endpoint).exit_code == 0
    assert (commands.blocks / "new" / "lake").is_dir()
    assert open_to_others(commands.blocks / "new") == []
    assert [each for each in open_to_others(commands.config.parent) if "lakebed.db" in each] == []


def test_from_the_storage_no_metadata_file_is_asked_of_the_server(
    lake: FakeLakeFS, commands: Commands
) -> None:
    with served(lake) as endpoint:
        folder = commands.blocks / "old" / "lake" / "_lakefs"
        folder.mkdir(parents=True)
        commands.store_objects(lake)
        for name, data in lake.files.items():
            (folder / name).write_bytes(data)
        before = set(lake.files)
        done = commands.move(endpoint, "--from-storage")
        assert done.exit_code == 0, done.stderr
        assert not before & set(lake.read)


def test_rules_of_garbage_collection_stop_it(lake: FakeLakeFS, commands: Commands) -> None:
    with served(lake, gc_rules=True) as endpoint:
        refused = commands.move(endpoint)
        assert refused.exit_code == 2
        assert "lakeFS has garbage collection rules for lake" in refused.stderr
        commands.store_objects(lake)
        assert commands.move(endpoint, "--gc-is-stopped").exit_code == 0


@pytest.mark.slow
def test_a_repository_moves_in_from_postgresql(
    lake: FakeLakeFS,
    commands: Commands,
    postgresql_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands.store_objects(lake)
    folder = commands.blocks / "old" / "lake" / "_lakefs"
    folder.mkdir(parents=True)
    for name, data in lake.files.items():
        (folder / name).write_bytes(data)
    with psycopg.connect(conninfo(postgresql_url)) as connection:
        connection.execute(SCHEMA)
        fill(connection, lake)
        damaged = "INSERT INTO graveler_staging_kv VALUES ('token-side', 'odd', 'x', '\\xff')"
        connection.execute(damaged)
        damaged = "INSERT INTO graveler_commits (repository_id, id) VALUES ('lake', 'broken')"
        connection.execute(damaged)
        connection.execute("INSERT INTO graveler_tags VALUES ('lake', 'lost', 'broken')")
        connection.execute("INSERT INTO graveler_tags VALUES ('lake', 'no-tag', NULL)")
        connection.execute("INSERT INTO graveler_branches VALUES ('lake', 'none', 'token', NULL)")
    monkeypatch.setenv("LAKEBED_MIGRATE_DSN", conninfo(postgresql_url))
    to = "local://new/lake"
    done = commands.run("migrate", "sql", "lakefs://lake", "--to", to, "--verify", "-1", *LAST)
    assert "Staged 3 uncommitted changes" in done.stdout
    assert "could not read graveler_staging_kv 'odd'" in done.stdout
    assert commands.staged() == {b"b": None, b"n/ew": "local://old/lake/data/6e2f6577-7"}
    assert "Migrated 4 commits" in done.stdout
    assert "Compared 4 commits with lakeFS: 0 differ" in done.stdout
    assert "could not read graveler_commits broken" in done.stdout
    assert "could not read graveler_branches none: its commit_id is None" in done.stdout
    assert "could not read graveler_tags no-tag: its commit_id is None" in done.stdout
    assert "Skipped tag lost: commit broken is missing" in done.stdout
    assert done.exit_code == 1
    assert commands.damages() == 0


def fill(connection: psycopg.Connection, lake: FakeLakeFS) -> None:
    """Write the rows that lakeFS would have."""
    now = datetime.now(UTC)
    repository = ("lake", lake.namespace, now, "main")
    connection.execute("INSERT INTO graveler_repositories VALUES (%s, %s, %s, %s)", repository)
    for name, head in lake.heads.items():
        row = ("lake", name, f"token-{name}", head)
        connection.execute("INSERT INTO graveler_branches VALUES (%s, %s, %s, %s)", row)
    for name, head in lake.tagged.items():
        connection.execute("INSERT INTO graveler_tags VALUES ('lake', %s, %s)", (name, head))
    for branch, changes in lake.staged.items():
        for key, number in changes.items():
            identity, data = (None, None) if number is None else entry_of(key, number)
            connection.execute(
                "INSERT INTO graveler_staging_kv VALUES (%s, %s, %s, %s)",
                (f"token-{branch}", key, identity, data),
            )
    for commit in lake.history.values():
        created = datetime.fromtimestamp(commit.created_us / 1_000_000, UTC)
        parents = list(commit.parents[::-1] if commit.swapped else commit.parents) or None
        version = 0 if commit.swapped else 1
        connection.execute(
            "INSERT INTO graveler_commits VALUES ('lake', %s, %s, %s, %s, %s, %s, %s, %s, NULL)",
            (
                commit.id, commit.committer, commit.message, created, commit.metarange_id,
                json.dumps(dict(commit.metadata)), parents, version,
            ),
        )  # fmt: skip


def test_addresses_of_a_disk_become_those_of_the_storage(commands: Commands) -> None:
    """lakeFS names imported and uncommitted objects of local storage by their paths on disk."""
    lake = FakeLakeFS(namespace="local://old/lake")
    inside, elsewhere = f"local://{commands.blocks}/in/a b", "local:///mnt/lakefs/in/c"
    lake.imported = {(b"i", 3): inside, (b"j", 4): elsewhere, (b"s", 5): inside + "2"}
    first = lake.commit({b"a": 1, b"i": 3})
    lake.heads = {"main": first}
    lake.staged = {"main": {b"s": 5}}
    commands.store_objects(lake)
    with served(lake) as endpoint:
        done = commands.move(endpoint, "--verify", "-1")
        assert done.exit_code == 0, done.stdout + done.stderr
        assert "Read 2 objects (all) from the storage: 0 unreadable" in done.stdout
        lake.heads["main"] = lake.commit({b"a": 1, b"j": 4}, first)
        refused = commands.move(endpoint)
        assert refused.exit_code == 1
        assert "'j' has the address 'local:///mnt/lakefs/in/c'" in refused.stderr
        assert "--lakefs-root" in refused.stderr
        (commands.blocks / "in" / "c").write_bytes(b"four")
        root = ("--lakefs-root", "/mnt/lakefs")
        done = commands.move(endpoint, *root, "--verify", "-1", *LAST)
        assert done.exit_code == 0, done.stdout + done.stderr
    assert commands.staged("main") == {b"s": "local://in/a b2"}
    assert commands.damages(commits=2) == 0


def test_objects_that_cannot_be_read_are_named(lake: FakeLakeFS, commands: Commands) -> None:
    commands.store_objects(lake)
    lost, grown = (lake.entry(b"a/%d" % number, number).address for number in (3, 4))
    for address in (lost, grown):
        file = commands.blocks / address.removeprefix("local://")
        file.unlink()
        if address == grown:
            file.write_bytes(b"five!")
    with served(lake) as endpoint:
        done = commands.move(endpoint, "--verify", "-1")
    assert done.exit_code == 1
    first = next(iter(lake.history))
    assert f"commit {first}: cannot read 'a/3': no object exists at {lost}" in done.stdout
    assert f"cannot read 'a/4': {grown} has 5 bytes instead of 4" in done.stdout
    assert "from the storage: 2 unreadable" in done.stdout


def test_uncommitted_objects_that_cannot_be_read_are_named(
    lake: FakeLakeFS, commands: Commands
) -> None:
    commands.store_objects(lake)
    lost = lake.entry(b"n/ew", 7).address
    (commands.blocks / lost.removeprefix("local://")).unlink()
    with served(lake) as endpoint:
        done = commands.move(endpoint, *LAST)
    assert done.exit_code == 1
    assert f"branch side: cannot read 'n/ew': no object exists at {lost}" in done.stdout
    assert "branch main" not in done.stdout


def test_a_lake_that_moved_in_is_adopted_once_lakefs_is_off(
    lake: FakeLakeFS, commands: Commands
) -> None:
    commands.store_objects(lake)
    adopt = ("migrate", "adopt", "lakefs://lake")
    with served(lake) as endpoint:
        commands.move(endpoint)
        early = commands.run(*adopt, "--lakefs-is-off")
        assert early.exit_code == 1
        assert "it is read-only" in early.stderr
        assert commands.move(endpoint, "--last").exit_code == 0
        refused = commands.run(*adopt)
        assert refused.exit_code == 2
        assert "--lakefs-is-off" in refused.stderr
        for _ in range(2):
            done = commands.run(*adopt, "--lakefs-is-off")
            assert done.exit_code == 0, done.stderr
            assert "has adopted the objects below local://old/lake/data/" in done.stdout
        again = commands.move(endpoint, "--as", "again")
        assert again.exit_code == 1
        assert "repository lake has adopted its objects" in again.stderr
