"""Recorder of a lakeFS: fills a repository by its API, and keeps its files and its answers.

Run `python -m tests.clients.migrate.recorded.record --help`; README.md says how to get a lakeFS.
"""

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import boto3
import httpx
import psycopg
from botocore.config import Config

from lakebed.testing.servers.object_stores import free_ports
from tests.clients.migrate.recorded.replay import FOLDER, name_of

REPOSITORY: Final = "/repositories/lake"
KEY_ID, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
_PATIENCE_SECONDS: Final = 60.0
_PAGE: Final = {"amount": 1000}


class LakeFS:
    """A running lakeFS, and the answers that it gave."""

    def __init__(self, endpoint: str, root: Path) -> None:
        self.endpoint = endpoint
        self.root = root
        self.http = httpx.Client(
            base_url=f"{endpoint}/api/v1", auth=(KEY_ID, SECRET), trust_env=False, timeout=60
        )
        self.answers: dict[str, dict[str, Any]] = {}

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Make a request that must succeed."""
        answer = self.http.request(method, path, **options)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content[:1] in {b"{", b"["} else None

    def record(self, path: str, method: str = "GET", /, **query: Any) -> Any:
        """Make a request, and keep its answer, whatever it is."""
        base = "" if path.startswith("/auth/") else REPOSITORY
        answer = self.http.request(method, f"{base}{path}", params={**_PAGE, **query})
        body = answer.json()
        assert not body.get("pagination", {}).get("has_more") if isinstance(body, dict) else True
        self.answers[name_of(method, path, query)] = {"status": answer.status_code, "body": body}
        return body

    def upload(
        self, branch: str, path: str, data: str, content_type: str = "text/csv", **headers: str
    ) -> None:
        self.call(
            "POST",
            f"{REPOSITORY}/branches/{branch}/objects",
            params={"path": path},
            files={"content": ("file", data.encode(), content_type)},
            headers=headers,
        )

    def delete(self, branch: str, path: str) -> None:
        self.call("DELETE", f"{REPOSITORY}/branches/{branch}/objects", params={"path": path})

    def commit(self, branch: str, message: str, **more: Any) -> str:
        where = f"{REPOSITORY}/branches/{branch}/commits"
        return str(self.call("POST", where, json={"message": message, **more})["id"])

    def branch(self, name: str, source: str, **more: Any) -> None:
        body = {"name": name, "source": source, **more}
        answer = self.http.post(f"{REPOSITORY}/branches", json=body)
        assert answer.is_success, answer.text

    def merge(self, source: str, message: str, **more: Any) -> str:
        where = f"{REPOSITORY}/refs/{source}/merge/main"
        return str(self.call("POST", where, json={"message": message, **more})["reference"])


# What is recorded


def fill_first(lake: LakeFS) -> None:
    """Make the history that the first round finds."""
    body = {"name": "lake", "storage_namespace": "local://old/lake", "default_branch": "main"}
    lake.call("POST", "/repositories", json=body)
    lake.call("POST", f"{REPOSITORY}/metadata", json={"metadata": {"team": "blue"}})
    for number in range(24):
        lake.upload("main", f"tables/{number:02}.csv", f"{number},first\n" * (number + 1))
    lake.upload("main", "in/dir//x.csv", "an empty segment\n")
    lake.upload("main", "/leading", "begins with a slash\n")
    lake.upload("main", "folder/", "")
    lake.upload("main", "kľúč/%41 b+c?.csv", "odd names\n")
    lake.upload("main", "described", "has metadata\n", **{"x-lakefs-meta-Owner": "Ada"})
    lake.upload("main", "typed.json", "{}", "application/json")
    first = lake.commit(
        "main", "First tables\n\nSecond paragraph, Ω", metadata={"run": "1", "a": ""}
    )
    lake.call("POST", f"{REPOSITORY}/tags", json={"id": "v1", "ref": first})
    for name in ("moves", "release.v1-0"):
        lake.call("POST", f"{REPOSITORY}/tags", json={"id": name, "ref": first})
    lake.branch("side", "main")
    lake.branch("dropped", "main")
    lake.upload("side", "tables/03.csv", "3,changed on a branch\n")
    lake.delete("side", "tables/05.csv")
    lake.commit("side", "Change tables", date=1_600_000_000)
    lake.upload("main", "tables/30.csv", "30,on main\n")
    lake.commit("main", "Add a table")
    lake.merge("side", "Merge the branch", metadata={"merged": "yes"})
    lake.call("PUT", f"{REPOSITORY}/settings/gc_rules", json=GC_RULES)


GC_RULES: Final = {
    "default_retention_days": 21,
    "branches": [{"branch_id": "main", "retention_days": 30}],
}
_ACTION: Final = """\
name: check
on:
  pre-commit:
    branches: [main]
hooks:
  - id: say
    type: lua
    properties:
      script: print("checked")
"""


def fill_last(lake: LakeFS) -> None:
    """Go on until lakeFS is frozen."""
    lake.upload("main", "_lakefs_actions/check.yaml", _ACTION)
    lake.commit("main", "Check commits by a hook")
    for number in (1, 2):
        lake.upload("main", "rewritten", f"{number}\n")
        lake.commit("main", f"Write version {number}")
    lake.upload("main", "tables/31.csv", "31,mistake\n")
    mistake = lake.commit("main", "Add a mistake")
    lake.call("POST", f"{REPOSITORY}/branches/main/revert", json=_by_first_parent(mistake))
    lake.branch("picked", "v1")
    picking = {"ref": mistake}
    lake.call("POST", f"{REPOSITORY}/branches/picked/cherry-pick", json=picking)
    lake.commit("picked", "Nothing", allow_empty=True)
    lake.branch("hidden", "v1", hidden=True)
    _import(lake)
    lake.branch("pruned", "main")
    for number in range(5, 31):  # all to the end, so whole ranges
        lake.delete("pruned", f"tables/{number:02}.csv")
    lake.delete("pruned", "typed.json")
    lake.commit("pruned", "Remove tables")
    lake.branch("squashed", "main")
    for number in (1, 2):
        lake.upload("squashed", f"squash/{number}", f"{number}\n")
        lake.commit("squashed", f"Part {number}")
    lake.merge("squashed", "Squash", squash_merge=True)
    lake.call("DELETE", f"{REPOSITORY}/branches/dropped")
    lake.call("DELETE", f"{REPOSITORY}/tags/moves")
    lake.call("POST", f"{REPOSITORY}/tags", json={"id": "moves", "ref": "main"})
    _pull(lake, "merged")
    _pull(lake, "open")
    _stage(lake)
    lake.http.post(f"{REPOSITORY}/gc/prepare_commits")  # writes files, though it is answered 400
    _begin_multipart(lake)
    protected = [{"pattern": each} for each in ("main", "release-*", "*")]
    lake.call("PUT", f"{REPOSITORY}/settings/branch_protection", json=protected)


TABLES: Final = (
    "graveler_repositories",
    "graveler_branches",
    "graveler_commits",
    "graveler_tags",
    "graveler_staging_kv",
)


def fill_old(lake: LakeFS) -> None:
    """Make a history and users by the API of old versions."""
    body = {"name": "lake", "storage_namespace": "local://old/lake", "default_branch": "main"}
    lake.call("POST", "/repositories", json=body)
    for number in range(16):
        lake.upload("main", f"tables/{number:02}.csv", f"{number},first\n" * (number + 1))
    lake.upload("main", "in/dir//x.csv", "an empty segment\n")
    lake.upload("main", "kľúč/%41 b+c?.csv", "odd names\n")
    first = lake.commit("main", "First tables, Ω", metadata={"run": "1", "a": ""})
    lake.call("POST", f"{REPOSITORY}/tags", json={"id": "v1", "ref": first})
    lake.branch("side", "main")
    lake.upload("side", "tables/03.csv", "3,changed on a branch\n")
    lake.delete("side", "tables/05.csv")
    lake.commit("side", "Change tables", date=1_600_000_000)
    lake.upload("main", "tables/30.csv", "30,mistake\n")
    mistake = lake.commit("main", "Add a mistake")
    lake.merge("side", "Merge the branch")
    lake.call("POST", f"{REPOSITORY}/branches/main/revert", json=_by_first_parent(mistake))
    lake.upload("main", "tables/00.csv", "0,uncommitted\n")
    lake.delete("main", "tables/07.csv")
    lake.upload("main", "passing", "removed before it is committed\n")
    lake.delete("main", "passing")
    (lake.root / "in").mkdir()
    (lake.root / "in" / "staged").write_text("staged\n")
    staged = {"physical_address": "local://in/staged", "checksum": "0" * 32, "size_bytes": 7}
    where = f"{REPOSITORY}/branches/side/objects"
    lake.call("PUT", where, params={"path": "staged"}, json=staged)
    rule = {"pattern": "main"}
    lake.call("POST", f"{REPOSITORY}/branch_protection", json=rule)
    lake.call("POST", f"{REPOSITORY}/gc/rules", json=GC_RULES)
    _add_users(lake)


def _add_users(lake: LakeFS) -> None:
    read = {"effect": "allow", "action": ["fs:ReadObject"], "resource": "*"}
    lake.call("POST", "/auth/policies", json={"id": "ReadLake", "statement": [read]})
    lake.call("POST", "/auth/groups", json={"id": "Readers"})
    lake.call("POST", "/auth/users", json={"id": "ada"})
    lake.call("POST", "/auth/users", json={"id": "bob"})
    lake.call("PUT", "/auth/groups/Readers/policies/ReadLake")
    lake.call("PUT", "/auth/groups/Readers/members/ada")
    lake.call("PUT", "/auth/users/bob/policies/FSReadAll")


def record_users(lake: LakeFS) -> dict[str, Any]:
    """Keep the answers about users, groups and policies."""
    lake.answers = {}
    lake.record("/auth/policies")
    for group in lake.record("/auth/groups")["results"]:
        for kind in ("policies", "members"):
            lake.record(f"/auth/groups/{group['id']}/{kind}")
    for user in lake.record("/auth/users")["results"]:
        lake.record(f"/auth/users/{user['id']}/policies")
    return lake.answers


def _by_first_parent(commit_id: str) -> dict[str, Any]:
    return {"ref": commit_id, "parent_number": 1}


def _import(lake: LakeFS) -> None:
    source = lake.root / "in"
    (source / "sub").mkdir(parents=True)
    for name in ("a b.csv", "sub/c.csv", "single", "sub/linked"):
        (source / name).write_text(f"imported {name}\n")
    paths = [
        {"type": "common_prefix", "path": f"local://{source}/sub/", "destination": "imported/"},
        {"type": "object", "path": f"local://{source}/single", "destination": "one"},
        {"type": "object", "path": f"local://{source}/a b.csv", "destination": "a b"},
    ]
    body = {"paths": paths, "commit": {"message": "Import", "metadata": {"from": "disk"}}}
    task = lake.call("POST", f"{REPOSITORY}/branches/main/import", json=body)
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        status = lake.call("GET", f"{REPOSITORY}/branches/main/import", params=task)
        assert "error" not in status, status
        if status["completed"]:
            return
        assert time.monotonic() < until
        time.sleep(0.2)


def _pull(lake: LakeFS, name: str) -> None:
    lake.branch(f"pull-{name}", "main")
    lake.upload(f"pull-{name}", f"pulls/{name}", f"{name}\n")
    lake.commit(f"pull-{name}", f"Propose {name}")
    body = {"title": name, "source_branch": f"pull-{name}", "destination_branch": "main"}
    made = lake.call("POST", f"{REPOSITORY}/pulls", json=body)
    if name == "merged":
        lake.call("PUT", f"{REPOSITORY}/pulls/{made['id']}/merge")


def _stage(lake: LakeFS) -> None:
    """Leave changes uncommitted: new, replaced, removed, linked, staged and described ones."""
    lake.upload("main", "tables/00.csv", "0,uncommitted\n")
    lake.upload("main", "new//uncommitted", "new\n", **{"x-lakefs-meta-k": "v"})
    lake.upload("main", "passing", "removed before it is committed\n")
    lake.delete("main", "passing")
    lake.delete("main", "tables/07.csv")
    lake.upload("side", "tables/07.csv", "7,uncommitted\n")
    lake.delete("side", "described")
    lake.upload("hidden", "tables/08.csv", "8,uncommitted\n")
    where = f"{REPOSITORY}/branches/main/staging/backing"
    linked = lake.call("GET", where, params={"path": "linked"})
    file = lake.root / linked["physical_address"].removeprefix("local://")  # absolute, or below it
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("linked\n")
    checksum = hashlib.md5(b"linked\n").hexdigest()
    body = {"staging": linked, "checksum": checksum, "size_bytes": 7, "content_type": "text/plain"}
    lake.call("PUT", where, params={"path": "linked"}, json=body)
    (lake.root / "in" / "staged").write_text("staged\n")
    address = f"local://{lake.root}/in/staged"
    staged = {"physical_address": address, "checksum": "0" * 32, "size_bytes": 7}
    lake.call("PUT", f"{REPOSITORY}/branches/main/objects", params={"path": "staged"}, json=staged)
    copy = {"src_path": "typed.json", "src_ref": "v1"}
    where = f"{REPOSITORY}/branches/main/objects/copy"
    lake.call("POST", where, params={"dest_path": "copied.json"}, json=copy)


def _begin_multipart(lake: LakeFS) -> None:
    client: Any = boto3.client(
        "s3",
        endpoint_url=lake.endpoint,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    place = {"Bucket": "lake", "Key": "main/unfinished"}
    upload_id = client.create_multipart_upload(**place)["UploadId"]
    client.upload_part(**place, UploadId=upload_id, PartNumber=1, Body=b"part\n")


# Answers


def record_for_migration(lake: LakeFS) -> dict[str, Any]:
    """Keep the answers that a round asks for."""
    lake.answers = {}
    for path in ("", "/metadata", "/settings/branch_protection", "/settings/gc_rules"):
        lake.record(path)
    task = lake.record("/dump", "POST")["id"]
    until = time.monotonic() + _PATIENCE_SECONDS
    while not lake.record("/dump", task_id=task)["done"]:
        assert time.monotonic() < until
        time.sleep(0.2)
    lake.record("/branches")
    for branch in lake.record("/branches", show_hidden="true")["results"]:
        name = branch["id"]
        for change in lake.record(f"/branches/{name}/diff")["results"]:
            if change["type"] != "removed":
                lake.record(f"/refs/{name}/objects/stat", path=change["path"])
    return lake.answers


def record_truth(lake: LakeFS) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the answers that Lakebed must give too, and checksums of all objects."""
    lake.answers, checksums = {}, {}
    branches = lake.record("/branches", show_hidden="true")["results"]
    lake.record("/branches")
    tags = lake.record("/tags")["results"]
    refs = [each["id"] for each in (*branches, *tags)]
    commits: dict[str, None] = {}
    for ref in refs:
        log = lake.record(f"/refs/{ref}/commits")["results"]
        commits.update(dict.fromkeys(each["id"] for each in log))
    for commit_id in commits:
        lake.record(f"/commits/{commit_id}")
    lake.record("/refs/main/diff/v1")
    lake.record("/refs/v1/diff/side")
    for ref in (*refs, *commits):
        listed = lake.record(f"/refs/{ref}/objects/ls")["results"]
        for each in listed:
            where = f"{REPOSITORY}/refs/{ref}/objects"
            found = lake.http.get(where, params={"path": each["path"]})
            assert found.status_code == httpx.codes.OK, found.text
            checksums[f"{ref}:{each['path']}"] = hashlib.sha256(found.content).hexdigest()
    return lake.answers, checksums


# The server


_COMMON: Final = {
    "BLOCKSTORE_TYPE": "local",
    # Several ranges a commit, though it has few entries.
    "COMMITTED_PERMANENT_RANGE_RAGGEDNESS_ENTRIES": "5",
    "AUTH_ENCRYPT_SECRET_KEY": "a key for tests only",
    "STATS_ENABLED": "false",
    "LOGGING_LEVEL": "WARN",
}


@contextmanager
def running(program: Path, folder: Path, **settings: str) -> Iterator[LakeFS]:
    """Run a lakeFS on local storage, with an administrator."""
    port, root, work = free_ports(1)[0], folder / "objects", folder / "work"
    settings |= _COMMON | {
        "LISTEN_ADDRESS": f"127.0.0.1:{port}",
        "BLOCKSTORE_LOCAL_PATH": str(root),
        "COMMITTED_LOCAL_CACHE_DIR": str(work / "cache"),
    }
    environment = {"HOME": str(work), "PATH": os.defpath}
    environment |= {f"LAKEFS_{name}": value for name, value in settings.items()}
    with (work / "log").open("ab") as log:
        process = subprocess.Popen(
            [program.absolute(), "run"], cwd=work, env=environment, stdout=log, stderr=log
        )
    lake = LakeFS(f"http://127.0.0.1:{port}", root)
    try:
        _wait(lake, process, work / "log")
        key = {"access_key_id": KEY_ID, "secret_access_key": SECRET}
        lake.call("POST", "/setup_lakefs", json={"username": "admin", "key": key})
        yield lake
    finally:
        process.terminate()
        process.wait()


def _wait(lake: LakeFS, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        with suppress(httpx.TransportError):
            if lake.http.get("/healthcheck").is_success:
                return
        assert time.monotonic() < until, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)


def record_api(program: Path, folder: Path) -> None:
    """Record a lakeFS that has an API for all."""
    settings = {
        "DATABASE_TYPE": "local",
        "DATABASE_LOCAL_PATH": str(folder / "work" / "metadata"),
        "BLOCKSTORE_LOCAL_IMPORT_ENABLED": "true",
        "BLOCKSTORE_LOCAL_ALLOWED_EXTERNAL_PREFIXES": str(folder / "objects"),
        "EMAIL_SUBSCRIPTION_ENABLED": "false",
        "SECURITY_CHECK_LATEST_VERSION": "false",
    }
    with running(program, folder, **settings) as lake:
        version = lake.call("GET", "/config")["version_config"]["version"]
        fill_first(lake)
        recorded = {"first": record_for_migration(lake)}
        fill_last(lake)
        recorded["last"] = record_for_migration(lake)
        recorded["truth"], recorded["sha256"] = record_truth(lake)
    write(version, recorded, folder)


def record_sql(program: Path, folder: Path, database: str) -> None:
    """Record a lakeFS that keeps refs in tables of PostgreSQL."""
    with running(program, folder, DATABASE_CONNECTION_STRING=database) as lake:
        version = lake.call("GET", "/config/version")["version"]
        fill_old(lake)
        recorded: dict[str, Any] = {"users": record_users(lake)}
        recorded["truth"], recorded["sha256"] = record_truth(lake)
    with psycopg.connect(database) as connection:
        recorded["tables"] = [dump_table(connection, name) for name in TABLES]
    write(version, recorded, folder)


def dump_table(connection: psycopg.Connection[Any], name: str) -> dict[str, str]:
    """Return the definition and the rows of a table."""
    columns = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        [name],
    ).fetchall()
    listed = ", ".join(f"{column} {kind}" for column, kind in columns)
    with connection.cursor().copy(f"COPY (SELECT * FROM {name}) TO STDOUT") as copied:
        rows = b"".join(copied).decode()
    return {"name": name, "create": f"CREATE TABLE {name} ({listed})", "rows": rows}


def write(version: str, recorded: dict[str, Any], folder: Path) -> None:
    """Write an archive of the answers and of the storage."""
    root = folder / "objects"
    recorded = {"version": version, "root": str(root), **recorded}
    with tarfile.open(FOLDER / f"lakefs-{version}.tar.xz", "w:xz", preset=9) as archive:
        text = json.dumps(recorded, indent=0, ensure_ascii=False).encode()
        info = tarfile.TarInfo("recorded.json")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
        archive.add(root, "objects", filter=_anonymous)


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.isdir() else 0o644
    return info


def main() -> None:
    """Record by the command line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("program", type=Path, help="lakeFS's server")
    parser.add_argument("--database", help="of an old lakeFS: URL of an empty database")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/lakefs-recorded"))
    given = parser.parse_args()
    for each in ("objects", "work"):
        (given.folder / each).mkdir(parents=True)
    try:
        if given.database is None:
            record_api(given.program, given.folder)
        else:
            record_sql(given.program, given.folder, given.database)
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
