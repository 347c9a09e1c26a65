"""A server in this process, on data in a folder, with the settings that a test gives it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakebed.server.app import open_services
from lakebed.server.config_files import load
from tests.server.kit import ADMIN, BRANCH, REPOSITORY, Server


@contextmanager
def serve(folder: Path, **flags: object) -> Iterator[Server]:
    """A server on data in a folder, as a new process would open it."""
    settings = load(
        environment={},
        flags={
            "database.url": f"sqlite:///{folder}/lakebed.db",
            "blockstore.local.root": folder / "objects",
            "auth.secret_key": "0123456789abcdef0123456789abcdef",
            **{name.replace("__", "."): value for name, value in flags.items()},
        },
    )
    services = open_services(settings)
    try:
        yield Server(services)
    finally:
        services.close()


def commit(server: Server) -> str:
    path = f"/repositories/{REPOSITORY}/branches/{BRANCH}/commits"
    answer = server.call("POST", path, json={"message": "some"})
    assert answer.status_code == 201, answer.text
    return str(answer.json["id"])


def first_commit(folder: Path) -> str:
    """Set a server up, with a repository; return a commit of one object."""
    with serve(folder) as server:
        server.services.auth.setup("admin", ADMIN)
        body = {"name": REPOSITORY, "storage_namespace": f"local://lakes/{REPOSITORY}"}
        assert server.call("POST", "/repositories", json=body).status_code == 201
        server.put("a")
        return commit(server)
