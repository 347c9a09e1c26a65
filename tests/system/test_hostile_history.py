"""Against a real server: history that others made cannot be committed, and a locked database."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.kit.s3_gateway import Gateway

pytestmark = [pytest.mark.extended, pytest.mark.slow]


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> Iterator[httpx.Client]:
    """The administrator."""
    with httpx.Client(
        base_url=f"{gateway.url}/api/v1",
        auth=(gateway.access_key, gateway.secret_key),
        timeout=120,
        trust_env=False,
    ) as client:
        yield client


def upload(api: httpx.Client, repository: str, path: str) -> httpx.Response:
    at = f"repositories/{repository}/branches/main/objects"
    return api.post(at, params={"path": path}, content=path.encode())


def commit(api: httpx.Client, repository: str, **query: str) -> httpx.Response:
    at = f"repositories/{repository}/branches/main/commits"
    return api.post(at, params=query, json={"message": "some"})


def listed(api: httpx.Client, repository: str) -> list[str]:
    answer = api.get(f"repositories/{repository}/refs/main/objects/ls")
    assert answer.status_code == 200, answer.text
    return [each["path"] for each in answer.json()["results"]]


def test_a_metarange_of_others_cannot_be_committed(api: httpx.Client) -> None:
    for name in ("mine", "theirs"):
        body = {"name": name, "storage_namespace": f"local://lakes/{name}"}
        assert api.post("repositories", json=body).status_code == 201
        assert upload(api, name, f"{name}.csv").status_code == 201
        assert commit(api, name).status_code == 201
    theirs = api.get("repositories/theirs/refs/main/commits").json()["results"][0]["meta_range_id"]
    listed(api, "theirs")
    for forged in (theirs, "0" * 64):
        answer = commit(api, "mine", source_metarange=forged)
        assert answer.status_code == 404
        assert answer.json()["detail"] == (
            f"no commit of repository mine has the metarange '{forged}': use the metarange id of"
            " one of its commits"
        )
        assert listed(api, "mine") == ["mine.csv"]
    (mine, _) = api.get("repositories/mine/refs/main/commits").json()["results"]
    assert upload(api, "mine", "more.csv").status_code == 201
    assert commit(api, "mine").status_code == 201
    assert commit(api, "mine", source_metarange=mine["meta_range_id"]).status_code == 201
    assert listed(api, "mine") == ["mine.csv"]


@contextmanager
def locked(gateway: Gateway) -> Iterator[None]:
    """Hold the lock on the database, as a program that looks into it might."""
    path = gateway.served.folder / "lakebed.db"
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_a_database_that_another_process_locks(gateway: Gateway, api: httpx.Client) -> None:
    s3 = gateway.client(retries={"total_max_attempts": 1})
    assert upload(api, "lake", "before").status_code == 201
    with locked(gateway):
        assert "before" in listed(api, "lake")
        # They come while the lock is held.
        for answer in (upload(api, "lake", "late"), commit(api, "lake")):
            assert answer.status_code == 503, answer.text
            assert answer.json() == {
                "kind": "store_locked",
                "message": (
                    "the database is locked by another process; nothing was changed, retry later"
                ),
            }
        with pytest.raises(ClientError) as caught:
            s3.put_object(Bucket="lake", Key="main/late", Body=b"late")
        assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert "the database is locked" in str(caught.value.response["Error"])
    log = gateway.served.log()
    assert "lakebed.db locked for 5 seconds: stop it, or let it finish its transaction" in log
    assert upload(api, "lake", "late").status_code == 201
    assert commit(api, "lake").status_code == 201
