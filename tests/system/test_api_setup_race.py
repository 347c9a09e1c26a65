"""Setup happens once, also when many ask for it at the same time, of several processes."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import httpx
import pytest

from tests.kit.served import Servers, eventually

pytestmark = pytest.mark.extended

CLIENTS = 16


def test_one_of_many_sets_an_installation_up(servers: Servers) -> None:
    settings = servers.settings(processes={"workers": 2})
    port = settings["listen"]["port"]
    servers.launch(settings, "-m", "lakebed", "run", "--config")
    url = f"http://127.0.0.1:{port}/api/v1"
    client = httpx.Client(
        timeout=60, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
    )

    def answers() -> bool:
        try:
            return client.get(f"{url}/healthcheck").status_code == 204
        except httpx.TransportError:
            return False

    eventually(answers, seconds=110)
    barrier = Barrier(CLIENTS)

    def set_up(number: int) -> httpx.Response:
        barrier.wait()
        return client.post(f"{url}/setup_lakefs", json={"username": f"admin{number}"})

    with closing(client), ThreadPoolExecutor(CLIENTS) as pool:
        made = list(pool.map(set_up, range(CLIENTS)))
        assert sorted(answer.status_code for answer in made) == [200] + [409] * (CLIENTS - 1)
        (pair,) = (answer.json() for answer in made if answer.status_code == 200)
        keys = (pair["access_key_id"], pair["secret_access_key"])
        users = client.get(f"{url}/auth/users", auth=keys).json()["results"]
        winner = made.index(next(each for each in made if each.status_code == 200))
        assert [user["id"] for user in users] == [f"admin{winner}"]
        state = client.get(f"{url}/setup_lakefs").json()["state"]
    assert state == "initialized"
