"""The few routes of lakeFS that moving in asks for, over a real connection."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from lakebed.clients.migrate import lakefs_pb2 as pb
from tests.clients.migrate.lakes import FakeLakeFS
from tests.kit.lakefs_tables import table, value


def dump(lake: FakeLakeFS) -> dict[str, str]:
    """Write the refs as lakeFS dumps them: three metaranges."""
    branches = [pb.BranchData(id=name, commit_id=head) for name, head in lake.heads.items()]
    tags = [pb.TagData(id=name, commit_id=head) for name, head in lake.tagged.items()]
    commits = []
    for commit in lake.history.values():
        message = pb.CommitData(
            id=commit.id,
            committer=commit.committer,
            message=commit.message,
            meta_range_id=commit.metarange_id,
            metadata=commit.metadata,
            parents=commit.parents[::-1] if commit.swapped else commit.parents,
            version=0 if commit.swapped else 1,
        )
        message.creation_date.FromMicroseconds(commit.created_us)
        commits.append(message)

    def write(messages: list[Any]) -> str:
        rows = sorted((each.id.encode(), each.SerializeToString()) for each in messages)
        ranges = [lake.close([(key, value(b"", data)) for key, data in rows])] if rows else []
        return lake.store(table(ranges))

    return {
        "branches_meta_range_id": write(branches),
        "tags_meta_range_id": write(tags),
        "commits_meta_range_id": write(commits),
    }


def page(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {"results": results, "pagination": {"has_more": False, "next_offset": ""}}


def diff(lake: FakeLakeFS, branch: str) -> list[dict[str, Any]]:
    return [
        {
            "path": key.decode(),
            "type": "removed" if number is None else "changed",
            "path_type": "object",
        }
        for key, number in lake.staged.get(branch, {}).items()
    ]


def stat(lake: FakeLakeFS, rest: str) -> dict[str, Any]:
    path = parse_qs(rest.partition("?")[2])["path"][0]
    number = lake.staged[rest.split("/")[2]][path.encode()]
    assert number is not None
    entry = lake.entry(path.encode(), number)
    return {
        "path": path,
        "path_type": "object",
        "physical_address": entry.address,
        "size_bytes": entry.size,
        "checksum": entry.checksum,
        "mtime": int(entry.mtime.timestamp()),
        "metadata": dict(entry.metadata),
        "content_type": entry.content_type,
    }


def changing(lake: FakeLakeFS, rest: str) -> Any:
    """What is asked of protection rules and uncommitted changes, if it is that."""
    if rest == "/settings/branch_protection":
        return [{"pattern": each} for each in lake.protected]
    if rest.startswith("/branches?"):
        heads = lake.heads.items()
        return page([{"id": name, "commit_id": head} for name, head in heads])
    if "/diff?" in rest:
        return page(diff(lake, rest.split("/")[2]))
    return stat(lake, rest) if "/objects/stat?" in rest else None


@contextmanager
def served(lake: FakeLakeFS, *, gc_rules: bool = False) -> Iterator[str]:
    """Serve a repository called `lake`; yield the endpoint."""

    settings: dict[str, Any] = {
        "": {
            "id": "lake",
            "creation_date": 0,
            "storage_namespace": lake.namespace,
            "default_branch": "main",
        },
        "/metadata": {"team": "blue"},
    }
    if gc_rules:
        settings["/settings/gc_rules"] = {"default_retention_days": 7, "new": 1}

    def answer(method: str, path: str) -> tuple[int, Any]:
        rest = path.removeprefix("/api/v1/repositories/lake")
        if method == "POST":
            return 202, {"id": "task"}
        if rest.startswith("/metadata/object/"):
            name = rest.rpartition("/")[2]
            lake.read.append(name)
            return 200, lake.files[name]
        if rest.startswith("/dump"):
            made = {"id": "task", "done": True, "update_time": "2026-01-01T00:00:00.123456789Z"}
            return 200, {**made, "refs": dump(lake)}
        found = settings.get(rest, changing(lake, rest))
        return (404, {"message": "not found"}) if found is None else (200, found)

    with answering(answer) as endpoint:
        yield endpoint


@contextmanager
def answering(answer: Callable[[str, str], tuple[int, Any]]) -> Iterator[str]:
    """Serve the statuses and bodies of answers by method and path; yield the endpoint."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            status = 401
            body: Any = {"message": "no key"}
            if self.headers.get("Authorization", "").startswith("Basic "):
                status, body = answer(self.command, self.path)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
