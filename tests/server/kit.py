"""A server in this process, on memory: for what concerns requests and not processes."""

import base64
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from falcon.testing import Result, TestClient

from lakebed.auth import KeyPair
from lakebed.lake.places import parse_namespace
from lakebed.lake.tasks import run_inline
from lakebed.server.app import build, open_services
from lakebed.server.config_files import load
from lakebed.server.http.pipeline import BeginSpan
from lakebed.server.services import Services

ADMIN = KeyPair(access_key_id="AKIAJADMIN", secret_access_key="admin-secret")
REPOSITORY = "lake"
BRANCH = "main"


UNTYPED = "none; added by the tests"
"""Stands for the Content-Type that an answer did not have."""


def typed(app: WSGIApplication) -> WSGIApplication:
    """An application whose answers all have a type: Python's checks of WSGI insist on one."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            bodiless = status.startswith(("204", "304"))
            if not bodiless and not any(name.lower() == "content-type" for name, _ in headers):
                headers = [*headers, ("Content-Type", UNTYPED)]
            return start_response(status, headers, *rest)

        return app(environ, start)

    return answer


class Server:
    """An application, and requests to it."""

    def __init__(self, services: Services, begin_span: BeginSpan | None = None) -> None:
        self.services = services
        self._client = TestClient(typed(build(services, begin_span)))

    def call(
        self, method: str, path: str, *, pair: KeyPair | None = ADMIN, **kwargs: Any
    ) -> Result:
        """Make a request to the API."""
        headers = dict(kwargs.pop("headers", {}))
        if pair is not None:
            text = f"{pair.access_key_id}:{pair.secret_access_key}"
            headers["Authorization"] = "Basic " + base64.b64encode(text.encode()).decode()
        return self.request(method, f"/api/v1{path}", headers=headers, **kwargs)

    def request(self, method: str, path: str, **kwargs: Any) -> Result:
        """Make a request."""
        kwargs.setdefault("host", "localhost")
        return self._client.simulate_request(method, path, **kwargs)

    def put(self, path: str, data: bytes = b"data", branch: str = BRANCH) -> None:
        """Upload an object."""
        answer = self.call(
            "POST",
            f"/repositories/{REPOSITORY}/branches/{branch}/objects",
            params={"path": path},
            body=data,
        )
        assert answer.status_code == 201, answer.text


@contextmanager
def server(**flags: object) -> Iterator[Server]:
    """A server that is set up, with a repository; `flags` are settings, with __ for the dots."""
    with opened(**flags) as found:
        services = found.services
        services.auth.setup("admin", ADMIN)
        namespace = f"{services.catalog.storage_scheme}://lakes/{REPOSITORY}"
        services.catalog.repositories.create(
            REPOSITORY, parse_namespace(namespace), committer="admin"
        )
        yield found


@contextmanager
def opened(**flags: object) -> Iterator[Server]:
    """A server as it finds its database: an empty one, if nothing else is said."""
    settings = load(
        environment={},
        flags={
            "database.url": "memory://",
            "blockstore.type": "memory",
            "auth.secret_key": "0123456789abcdef0123456789abcdef",
            **{name.replace("__", "."): value for name, value in flags.items()},
        },
    )
    services = open_services(settings, run_in_background=run_inline)
    try:
        yield Server(services)
    finally:
        services.close()
