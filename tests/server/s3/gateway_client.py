"""The gateway in this process, on memory: for what concerns requests and not processes."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any
from wsgiref.types import WSGIApplication
from xml.etree import ElementTree as ET

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakebed.auth import KeyPair, Statement
from lakebed.server.app import build
from lakebed.server.services import Services
from tests.server.kit import ADMIN, server
from tests.server.s3.kit import environ_of

HOST = "127.0.0.1:8000"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an error."""
        return ET.fromstring(self.body).findtext("Code") or ""


class GatewayClient:
    """An application, and signed requests to it."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._app: WSGIApplication = build(services)

    def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        pair: KeyPair | None = ADMIN,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Make a request; `target` is path and query, percent-encoded."""
        return self.send(self.signed(method, target, body, pair=pair, headers=headers), body)

    def signed(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        pair: KeyPair | None = ADMIN,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return a request that is signed and not sent yet."""
        url = f"http://{HOST}{target}"
        sent = dict(headers or {})
        if pair is not None:
            credentials = Credentials(pair.access_key_id, pair.secret_access_key)
            request = AWSRequest(method, url, headers=sent, data=body)
            S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
            sent = dict(request.headers.items())
        return environ_of(method, url, {**sent, "content-length": str(len(body))})

    def send(self, environ: dict[str, Any], body: bytes) -> Answer:
        """Make a request as a server would."""
        started: list[Any] = []

        def start(status: str, headers: list[tuple[str, str]], *_: object) -> Any:
            started[:] = [int(status[:3]), {name.lower(): value for name, value in headers}]

        answer = self._app(
            {
                **environ,
                "SERVER_PROTOCOL": "HTTP/1.1",
                "wsgi.errors": sys.stderr,
                "wsgi.input": BytesIO(body),
                "wsgi.url_scheme": "http",
            },
            start,
        )
        data = b"".join(answer)
        close = getattr(answer, "close", None)
        if close is not None:
            close()
        return Answer(started[0], started[1], data)

    def user(self, name: str, *statements: Statement) -> KeyPair:
        """Make a user with some permissions."""
        auth = self.services.auth
        auth.users.create(name)
        if statements:
            auth.policies.create(f"{name}-may", list(statements))
            auth.user_policies.add(name, f"{name}-may")
        new = auth.credentials.create(name)
        return KeyPair(access_key_id=new.access_key_id, secret_access_key=new.secret_access_key)


@contextmanager
def gateway_client(*, default_namespace_prefix: str | None = None) -> Iterator[GatewayClient]:
    with server() as served:
        services = served.services
        blockstore = replace(
            services.settings.blockstore, default_namespace_prefix=default_namespace_prefix
        )
        yield GatewayClient(
            replace(services, settings=replace(services.settings, blockstore=blockstore))
        )
