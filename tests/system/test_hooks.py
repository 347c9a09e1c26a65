"""Hooks that come after operations, on a server that is killed while they run."""

from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from lakebed.testing.servers.lakebed import LakebedServer, end, lakebed_server, launch
from tests.kit.receiver import Receiver
from tests.kit.served import eventually

pytestmark = [pytest.mark.extended, pytest.mark.slow]

ACTION = """
name: after
on: {{post-commit: }}
hooks:
  - {{id: tell, type: webhook, properties: {{url: "{url}/after"}}}}
"""


def family(server: LakebedServer) -> list[psutil.Process]:
    parent = psutil.Process(server.process.pid)
    return [parent, *parent.children(recursive=True)]


def test_a_server_that_is_killed_while_a_hook_runs_tells_it_again(tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.gate.clear()
    settings: dict[str, dict[str, Any]] = {
        "hooks": {"allow_private_networks": True},
        "gc": {"task_heartbeat_seconds": 2.0},
    }
    with (
        lakebed_server(tmp_path, settings=settings) as server,
        httpx.Client(
            base_url=f"{server.endpoint}/api/v1",
            auth=(server.access_key_id, server.secret_access_key),
            trust_env=False,
            timeout=60,
        ) as api,
    ):
        body = {"name": "lake", "storage_namespace": "local://lakes/lake"}
        api.post("/repositories", json=body).raise_for_status()
        api.post(
            "/repositories/lake/branches/main/objects",
            params={"path": "_lakefs_actions/after.yaml"},
            content=ACTION.format(url=receiver.url).encode(),
        ).raise_for_status()
        # It is answered before the hook is.
        made = api.post("/repositories/lake/branches/main/commits", json={"message": "m"})
        made.raise_for_status()
        eventually(lambda: receiver.bodies)
        for process in family(server):
            process.kill()
        server.process.wait()
        receiver.gate.set()
        same = yaml.safe_load((tmp_path / "lakebed.yaml").read_text())
        again = launch(tmp_path, same, "-m", "lakebed", "run", "--config")
        try:
            eventually(lambda: len(receiver.bodies) == 2)
            first, second = receiver.bodies
            assert first[1]["commit_id"] == second[1]["commit_id"] == made.json()["id"]
            run_id = second[2]["X-Lakebed-Run-Id"]
            assert first[2]["X-Lakebed-Run-Id"] == run_id

            def status() -> object:
                answer = api.get(f"/repositories/lake/actions/runs/{run_id}")
                return answer.json()["status"] if answer.is_success else None

            assert eventually(status) == "completed"
        finally:
            end(again)
            receiver.close()
