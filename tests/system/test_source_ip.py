"""Policies that ask where a request comes from, over connections from several addresses.

Every address of 127.0.0.0/8 is this machine, so a client can choose which one it calls from.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.kit.s3_gateway import Gateway, start
from tests.kit.served import Servers
from tests.system.s3_server import REPOSITORY

DIRECT: Final = "127.0.0.1"
PROXY: Final = "127.0.0.2"
OFFICE: Final = "10.1.2.3"
ELSEWHERE: Final = "203.0.113.5"
LIST: Final = f"/{REPOSITORY}?prefix=main%2F"

OFFICE_ONLY: Final[list[dict[str, object]]] = [
    {
        "effect": "allow",
        "action": ["fs:*"],
        "resource": "*",
        "condition": {"IpAddress": {"SourceIp": ["10.0.0.0/8"]}},
    }
]
THIS_MACHINE_ONLY: Final[list[dict[str, object]]] = [
    {"effect": "allow", "action": ["fs:*"], "resource": "*"},
    {
        "effect": "deny",
        "action": ["*"],
        "resource": "*",
        "condition": {"NotIpAddress": {"SourceIp": [DIRECT]}},
    },
]


def is_allowed(answer: httpx.Response, refused: int, reason: str) -> bool:
    """Whether a request was let in; if not, it must be for want of a permission."""
    if answer.status_code == 200:
        return True
    assert answer.status_code == refused, answer.text
    assert reason in answer.text
    return False


def client_at(source: str) -> httpx.Client:
    """A client that calls from one of the addresses of this machine."""
    transport = httpx.HTTPTransport(local_address=source, verify=False)
    return httpx.Client(transport=transport, timeout=60)


class Lakebed:
    """A server, two users whose policies have conditions, and requests from where one likes."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.keys: dict[str, tuple[str, str]] = {}
        self._clients = {source: client_at(source) for source in (DIRECT, PROXY)}
        self._add_user("office", OFFICE_ONLY)
        self._add_user("local", THIS_MACHINE_ONLY)

    def as_admin(self, method: str, path: str, body: object = None) -> httpx.Response:
        pair = self.gateway.access_key, self.gateway.secret_key
        return self._send(method, f"/api/v1{path}", source=DIRECT, auth=pair, json=body)

    def by_rest(self, user: str, source: str, headers: Mapping[str, Any]) -> bool:
        path = f"/api/v1/repositories/{REPOSITORY}"
        answer = self._send("GET", path, source=source, auth=self.keys[user], headers=headers)
        return is_allowed(answer, 401, "insufficient permissions")

    def by_s3(self, user: str, source: str, headers: Mapping[str, Any]) -> bool:
        request = self._signed(user, S3SigV4Auth)
        answer = self._send("GET", LIST, source=source, headers={**request.headers, **headers})
        return is_allowed(answer, 403, "<Code>AccessDenied</Code>")

    def by_presigned_url(self, user: str, source: str, headers: Mapping[str, Any]) -> bool:
        url = self._signed(user, S3SigV4QueryAuth).url or ""
        path = url.removeprefix(self.gateway.url)
        answer = self._send("GET", path, source=source, headers=headers)
        return is_allowed(answer, 403, "<Code>AccessDenied</Code>")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _signed(self, user: str, signer: type[S3SigV4Auth | S3SigV4QueryAuth]) -> AWSRequest:
        request = AWSRequest("GET", self.gateway.url + LIST)
        signer(Credentials(*self.keys[user]), "s3", "us-east-1").add_auth(request)
        return request

    def _add_user(self, name: str, statements: list[dict[str, object]]) -> None:
        made = self.as_admin("POST", "/auth/users", {"id": name})
        assert made.status_code == 201, made.text
        policy = {"id": name, "statement": statements}
        made = self.as_admin("POST", "/auth/policies", policy)
        assert made.status_code == 201, made.text
        made = self.as_admin("PUT", f"/auth/users/{name}/policies/{name}")
        assert made.status_code == 201, made.text
        made = self.as_admin("POST", f"/auth/users/{name}/credentials")
        assert made.status_code == 201, made.text
        self.keys[name] = made.json()["access_key_id"], made.json()["secret_access_key"]

    def _send(self, method: str, path: str, *, source: str, **options: Any) -> httpx.Response:
        return self._clients[source].request(method, self.gateway.url + path, **options)


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakebed]:
    """A server that trusts a proxy."""
    servers = Servers(tmp_path_factory.mktemp("proxied"), [])
    trusting: dict[str, object] = {"trusted_proxies": ["127.0.0.2", "192.168.0.0/16"]}
    lakebed = Lakebed(start(servers, listen=trusting))
    yield lakebed
    lakebed.close()
    servers.end()


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lakebed]:
    """A server that trusts nobody."""
    servers = Servers(tmp_path_factory.mktemp("direct"), [])
    lakebed = Lakebed(start(servers))
    yield lakebed
    lakebed.close()
    servers.end()


def forwarded(value: str | bytes) -> dict[str, Any]:
    return {"X-Forwarded-For": value}


APIS = pytest.mark.parametrize("api", ["by_rest", "by_s3", "by_presigned_url"])


@APIS
@pytest.mark.parametrize(
    ("source", "headers", "office", "local"),
    [
        (DIRECT, {}, False, True),
        # Nobody else is believed.
        (DIRECT, forwarded(OFFICE), False, True),
        (DIRECT, forwarded(ELSEWHERE), False, True),
        (PROXY, forwarded(OFFICE), True, False),
        (PROXY, forwarded(f"{OFFICE}:4711, 192.168.1.1"), True, False),
        (PROXY, forwarded(f"::ffff:{OFFICE}"), True, False),
        (PROXY, forwarded(DIRECT), False, True),
        (PROXY, forwarded(ELSEWHERE), False, False),
        # What the client itself had sent stands left of what the proxy knows.
        (PROXY, forwarded(f"{OFFICE}, {ELSEWHERE}"), False, False),
        (PROXY, forwarded(f"{DIRECT}, 192.168.1.1, {ELSEWHERE}"), False, False),
        (PROXY, forwarded(b"\xe4, " + OFFICE.encode()), True, False),
        # Nobody knows, which counts against the caller.
        (PROXY, forwarded("unknown"), False, False),
        # The proxy itself.
        (PROXY, {}, False, False),
        (PROXY, {"Forwarded": f"for={OFFICE}"}, False, False),
    ],
)
def test_behind_a_trusted_proxy(
    proxied: Lakebed, api: str, source: str, headers: dict[str, Any], *, office: bool, local: bool
) -> None:
    ask = getattr(proxied, api)
    assert (ask("office", source, headers), ask("local", source, headers)) == (office, local)


@APIS
@pytest.mark.parametrize("headers", [{}, forwarded(OFFICE), forwarded(DIRECT)])
def test_without_a_trusted_proxy(direct: Lakebed, api: str, headers: dict[str, Any]) -> None:
    ask = getattr(direct, api)
    assert ask("local", DIRECT, headers)
    assert not ask("local", PROXY, headers)
    assert not ask("office", DIRECT, headers)
    assert not ask("office", PROXY, headers)


def test_the_access_log_names_the_client(proxied: Lakebed) -> None:
    for source, given, logged in (
        (PROXY, ELSEWHERE, ELSEWHERE),
        (DIRECT, ELSEWHERE, DIRECT),
        (PROXY, "unknown", "unknown"),
    ):
        request_id = f"{source}-{given}"
        headers = {**forwarded(given), "X-Request-ID": request_id}
        proxied.by_rest("local", source, headers)
        lines = [json.loads(line) for line in proxied.gateway.served.log().splitlines()]
        assert [line["client"] for line in lines if line.get("request_id") == request_id] == [
            logged
        ]


def test_a_policy_with_a_wrong_network_is_refused(proxied: Lakebed) -> None:
    condition = {"IpAddress": {"SourceIp": ["10.0.0.0/99"]}}
    statement = {"effect": "allow", "action": ["fs:*"], "resource": "*", "condition": condition}
    answer = proxied.as_admin("POST", "/auth/policies", {"id": "wrong", "statement": [statement]})
    assert answer.status_code == 400
    assert "invalid address or network '10.0.0.0/99'" in answer.json()["message"]
    assert proxied.as_admin("GET", "/auth/policies/wrong").status_code == 404
