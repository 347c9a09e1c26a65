"""A quickstart, and people who want more than they may: other users of the machine, and its own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from lakebed.server.quickstart import SAMPLE, WELL_KNOWN_PAIR
from lakebed.testing.servers.lakebed import lakebed_server
from tests.kit.permissions import FOR_EVERYONE, open_to_others, usual_umask
from tests.kit.served import eventually, free_port
from tests.system.api_kit import RawClient, create_repository

pytestmark = pytest.mark.extended

ADMIN: Final = (WELL_KNOWN_PAIR.access_key_id, WELL_KNOWN_PAIR.secret_access_key)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an earlier version left files that everyone may read."""
    data = tmp_path_factory.mktemp("quickstart") / "data"
    (data / "objects").mkdir(parents=True)
    (data / "lakebed.log").touch()
    for path, mode in ((data / "objects", 0o755), (data / "lakebed.log", 0o644)):
        path.chmod(mode)
    return data


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    """The administrator of a quickstart that runs."""
    port = free_port()
    command = [sys.executable, "-m", "lakebed", "quickstart", "--port", str(port)]
    with subprocess.Popen(
        [*command, "--data-dir", str(folder)], stdout=subprocess.DEVNULL, umask=FOR_EVERYONE
    ) as process:
        base = f"http://127.0.0.1:{port}/api/v1"
        with httpx.Client(base_url=base, auth=ADMIN, timeout=60, trust_env=False) as opened:
            eventually(lambda: answers(opened))
            yield opened
        process.terminate()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthcheck").is_success
    except httpx.TransportError:
        return False


def done(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def new_user(client: httpx.Client, name: str, *actions: str) -> tuple[str, str]:
    """The keys of a user who may do just this."""
    statement = {"effect": "allow", "resource": "*", "action": list(actions)}
    done(client.post("/auth/policies", json={"id": name, "statement": [statement]}))
    done(client.post("/auth/users", json={"id": name}))
    done(client.put(f"/auth/users/{name}/policies/{name}"))
    made = done(client.post(f"/auth/users/{name}/credentials"))
    return made["access_key_id"], made["secret_access_key"]


def test_other_users_of_the_machine_read_nothing(client: httpx.Client, folder: Path) -> None:
    on_branch = f"/repositories/{SAMPLE}/branches/main"
    done(client.post(f"{on_branch}/objects", params={"path": "private/x"}, content=b"data"))
    done(client.post(f"{on_branch}/commits", json={"message": "m"}))
    assert open_to_others(folder) == []
    names = {path.name for path in folder.iterdir()}
    assert names >= {"objects", "lakebed.db", "lakebed.log", "secret.key"}


def test_other_users_of_the_machine_read_nothing_of_any_server(tmp_path: Path) -> None:
    with usual_umask():
        data = tmp_path / "data"
        settings: dict[str, dict[str, Any]] = {
            "database": {"url": f"sqlite:///{data}/lakebed.db"},
            "blockstore": {"local": {"root": str(data / "objects")}},
            "cache": {"disk_folder": str(data / "cache")},
            "logging": {"file": str(data / "logs" / "lakebed.log")},
        }
        with lakebed_server(tmp_path, settings=settings) as server, RawClient(server) as client:
            create_repository(client, "lake")
            at = "/repositories/lake/branches/main"
            assert client.call("POST", f"{at}/objects", body=b"data", path="a/b").status == 201
            assert client.post_json(f"{at}/commits", {"message": "m"}).status == 201
            assert {path.name for path in data.iterdir()} >= {"objects", "lakebed.db", "logs"}
            assert open_to_others(data) == []


def test_a_listing_gives_no_urls_to_those_who_may_only_list(client: httpx.Client) -> None:
    lister = new_user(client, "lister", "fs:ListObjects")
    path = f"/repositories/{SAMPLE}/refs/main/objects/ls"

    def addresses(auth: tuple[str, str]) -> list[str]:
        page = done(client.get(path, params={"presign": True}, auth=auth))
        return [each["physical_address"] for each in page["results"]]

    assert all(each.startswith("local://") for each in addresses(lister))
    urls = addresses(ADMIN)
    assert all(httpx.get(each, trust_env=False, timeout=60).is_success for each in urls[:1])


def test_the_key_of_the_server_cannot_be_staged(client: httpx.Client) -> None:
    writer = new_user(client, "writer", "fs:WriteObject", "fs:ReadObject", "fs:ImportFromStorage")
    on_branch = f"/repositories/{SAMPLE}/branches/main/objects"
    for address in ("local://../secret.key", "local://x/../../secret.key", "local:///secret.key"):
        body = {"physical_address": address, "checksum": "0", "size_bytes": 43}
        answer = client.put(on_branch, params={"path": "stolen"}, json=body, auth=writer)
        assert answer.status_code == 400, answer.text


def test_a_logout_counts_on_every_worker(client: httpx.Client) -> None:
    pair = new_user(client, "visitor", "fs:ListRepositories")
    body = {"access_key_id": pair[0], "secret_access_key": pair[1]}
    token = done(client.post("/auth/login", json=body))["token"]
    headers = {"Authorization": f"Bearer {token}"}

    def status() -> int:
        # A connection of its own, and so any of the workers.
        return httpx.get(
            f"{client.base_url}user", headers=headers, trust_env=False, timeout=60
        ).status_code

    assert {status() for _ in range(8)} == {200}
    done(httpx.post(f"{client.base_url}auth/logout", headers=headers, trust_env=False, timeout=60))
    eventually(lambda: {status() for _ in range(8)} == {401}, seconds=20)
