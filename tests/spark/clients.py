"""A client of a real server, for tests of garbage collection."""

from pathlib import Path

import httpx
import pytest

from lakebed.testing.servers.lakebed import LakebedServer

MIN_AGE_SECONDS = 8
SKEW_SECONDS = 1
HASTY: dict[str, dict[str, object]] = {
    "engine": {"grace_seconds": 5, "scan_limit_seconds": 2},
    "limits": {"request_seconds": 4, "transfer_seconds": 4},
    "gc": {
        "gap_seconds": 4,
        "min_age_seconds": MIN_AGE_SECONDS,
        "link_life_seconds": 4,
        "presign_life_seconds": 4,
        "copy_window_seconds": 4,
        "longest_request_seconds": 4,
        "skew_seconds": SKEW_SECONDS,
        "task_heartbeat_seconds": 4,
    },
}
"""A server under which garbage is ripe within seconds."""


class Client:
    """Requests to a server about one repository."""

    def __init__(self, server: LakebedServer, repository: str) -> None:
        self.repository = repository
        self.prefix = ""
        """Of the keys of its objects, where they are in a bucket."""
        self._http = httpx.Client(
            base_url=f"{server.endpoint}/api/v1/",
            auth=(server.access_key_id, server.secret_access_key),
            timeout=60,
        )
        body = {"name": repository, "storage_namespace": f"{server.namespace}/{repository}"}
        self.send("POST", "repositories", json=body)

    def send(self, method: str, path: str, **options: object) -> httpx.Response:
        response = self._http.request(method, path, **options)  # type: ignore[arg-type]
        response.raise_for_status()
        return response

    def upload(self, path: str, text: str) -> None:
        self.send(
            "POST",
            f"repositories/{self.repository}/branches/main/objects",
            params={"path": path},
            content=text.encode(),
            headers={"Content-Type": "application/octet-stream"},
        )

    def commit(self) -> None:
        path = f"repositories/{self.repository}/branches/main/commits"
        self.send("POST", path, json={"message": "m"})

    def read(self, path: str) -> str:
        objects = f"repositories/{self.repository}/refs/main/objects"
        return self.send("GET", objects, params={"path": path}).text

    def answers(self) -> bool:
        """Whether the server does."""
        try:
            return self.send("GET", "healthcheck").is_success
        except httpx.HTTPError:
            return False

    def close(self) -> None:
        self._http.close()


def sign_in(server: LakebedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line talk to a server, as its administrator."""
    monkeypatch.setenv("LAKEBED_ENDPOINT", server.endpoint)
    monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", server.access_key_id)
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", server.secret_access_key)


def root(server: LakebedServer) -> Path:
    return server.folder / "objects"


def folder_of(server: LakebedServer, repository: str) -> Path:
    """The storage namespace of a repository on the disk."""
    return root(server) / server.namespace.removeprefix("local://") / repository


def files(server: LakebedServer, repository: str) -> list[Path]:
    """The objects of a repository."""
    folder = folder_of(server, repository) / "repos"
    return sorted(path for path in folder.rglob("*") if path.is_file())
