"""Screenshots of all pages, in a folder: `make ui-shots` runs it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import httpx

from lakebed.testing.servers.lakebed import lakebed_server
from tests.ui.lake import REPOSITORY, collect, fill, new_server

_EXPERIMENTS: Final = {"branch_id": "exp-*", "retention_days": 7}


def main(folder: str) -> None:
    node = shutil.which("node")
    assert node is not None, "screenshots need Node"
    with (
        tempfile.TemporaryDirectory() as place,
        tempfile.TemporaryDirectory() as other_place,
        lakebed_server(Path(place)) as server,
        new_server(Path(other_place)) as waiting,
    ):
        keys = server.access_key_id, server.secret_access_key
        with httpx.Client(base_url=f"{server.endpoint}/api/v1", auth=keys, timeout=60) as api:
            lake = fill(api, server.namespace)
            rules = {"default_retention_days": 90, "branches": [_EXPERIMENTS]}
            api.put(f"/repositories/{REPOSITORY}/settings/gc_rules", json=rules).raise_for_status()
        collect(server.endpoint, keys)
        lake |= {"endpoint": server.endpoint, "key": keys[0], "secret": keys[1], "waiting": waiting}
        subprocess.run(
            [node, str(Path(__file__).with_name("shots.mjs"))],
            check=True,
            env={**os.environ, "LAKE": json.dumps(lake), "OUT": folder},
        )


if __name__ == "__main__":
    main(sys.argv[1])
