"""The server with two routes more: the floors that the S3 gateway is measured against.

- ``/floor/verify`` verifies a signature and answers.
- ``/floor/put`` does that too, and keeps the body: a file and a record, both durable.
"""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from lakebed.auth import KeyPair
from lakebed.block import Namespace
from lakebed.lake.places import parse_namespace
from lakebed.server.app import build, open_services
from lakebed.server.config_files import load
from lakebed.server.http.bodies import Body
from lakebed.server.http.pipeline import Pipeline, Step
from lakebed.server.processes.supervisor import serve
from lakebed.server.s3.sigv4 import verify
from lakebed.server.settings import ServerSettings

ADMIN = KeyPair(access_key_id="AKIAJBENCH", secret_access_key="bench-secret")
REPOSITORY = "lake"
FLOOR = Namespace.parse("local://lakes/floor")


def create(settings: ServerSettings) -> WSGIApplication:
    """Return the application of a worker."""
    services = open_services(settings)
    app = build(services)

    def floor(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        now = datetime.fromtimestamp(services.runtime.now(), UTC)
        verify(environ, services.auth.secret_for, now=now)
        if path.startswith("/floor/put"):
            name = services.runtime.random_bytes(16).hex()
            body = Body(environ, seconds_max=600)
            stored = services.foundation.block.put(FLOOR.address(name), body.chunks())
            services.foundation.store.set(b"floor", name.encode(), stored.md5.encode())
        start("200 OK", [("Content-Length", "0")])
        return [b""]

    traced = Pipeline([Step.of("app", floor)])

    def choose(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        is_floor = environ["PATH_INFO"].startswith("/floor/")
        return traced(environ, start) if is_floor else app(environ, start)

    return choose


def main(file: str) -> None:
    """Make a repository and serve it."""
    settings = load(Path(file), environment={})
    services = open_services(settings)
    services.auth.setup("admin", ADMIN)
    services.catalog.repositories.create(
        REPOSITORY, parse_namespace(f"local://lakes/{REPOSITORY}"), committer="admin"
    )
    services.close()
    serve(settings, factory="benchmarks.s3_app:create", on_ready=_say_ready)


def _say_ready(endpoint: str) -> None:
    sys.stdout.write(f"ready {endpoint}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
