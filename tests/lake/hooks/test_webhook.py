"""Webhooks against a real server that behaves badly."""

import ipaddress
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakebed.lake.hooks import network
from lakebed.lake.hooks.network import Network
from lakebed.lake.hooks.outputs import MASK
from lakebed.lake.hooks.settings import HookLimits
from tests.lake.hooks.kit import BadServer, Connection, bad_server, run


def answer_ok(connection: Connection) -> None:
    connection.answer(200, b"fine")


def echo(connection: Connection) -> None:
    headers = json.dumps(connection.received.headers)
    connection.answer(200, (connection.received.line + headers).encode())


def redirect(connection: Connection) -> None:
    connection.answer(302, b"", "Location: /ok")


def cut(connection: Connection) -> None:
    connection.client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")


def stay_silent(connection: Connection) -> None:
    connection.client.recv(1)  # until the client gives up


def send_heads_slowly(connection: Connection) -> None:
    connection.client.sendall(b"HTTP/1.1 200 OK\r\n")
    while not connection.stop.wait(0.05):
        connection.client.sendall(b"A: b\r\n")


def send_body_slowly(connection: Connection) -> None:
    connection.client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not connection.stop.wait(0.05):
        connection.client.sendall(b"x")


def send_without_end(connection: Connection) -> None:
    connection.client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while not connection.stop.is_set():
        connection.client.sendall(b"x" * 65536)


def send_heads_without_end(connection: Connection) -> None:
    connection.client.sendall(b"HTTP/1.1 200 OK\r\n")
    while not connection.stop.is_set():
        connection.client.sendall(b"A: " + b"x" * 65536)


def talk_nonsense(connection: Connection) -> None:
    connection.client.sendall(b"220 mail.example.com ESMTP\r\n")


BEHAVIOURS = {
    "/ok": answer_ok,
    "/echo": echo,
    "/500": lambda connection: connection.answer(500, b"broken"),
    "/redirect": redirect,
    "/cut": cut,
    "/silent": stay_silent,
    "/slow-head": send_heads_slowly,
    "/slow-body": send_body_slowly,
    "/endless": send_without_end,
    "/endless-head": send_heads_without_end,
    "/nonsense": talk_nonsense,
    "/hang-up": lambda _: None,
}


@pytest.fixture(scope="module")
def server() -> Iterator[BadServer]:
    with bad_server(BEHAVIOURS) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_received(server: BadServer) -> None:
    server.received.clear()


def test_the_event_is_sent(server: BadServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_TOKEN", "t0k3n-öf-mine")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # not used
    ran = run(
        "webhook",
        {
            "url": f"{server.url}/echo?a=b#part",
            "query_params": {"key": ["{{ ENV.LAKEFSACTION_TOKEN }}", "two"], "x": "y z"},
            "headers": {
                "Authorization": "Bearer {{ ENV.LAKEFSACTION_TOKEN }}",
                "content-type": "text/plain",
            },
        },
    )
    assert ran.error is None
    (received,) = server.received
    assert received.line == ("POST /echo?a=b&key=t0k3n-%C3%B6f-mine&key=two&x=y+z HTTP/1.1")
    assert received.headers["content-type"] == "application/json"
    assert received.headers["authorization"] == "Bearer t0k3n-öf-mine"
    assert received.headers["x-lakebed-run-id"] == "run-1"
    assert json.loads(received.body) == {
        "event_type": "pre-commit",
        "event_time": "2026-01-02T03:04:05Z",
        "action_name": "checks",
        "hook_id": "my_hook",
        "repository_id": "repo",
        "branch_id": "main",
        "source_ref": "main",
        "commit_message": "clean data",
        "committer": "jane",
        "commit_metadata": {"key": "value"},
    }
    # The log has the request and the answer, which echoes both, without the secret.
    assert "t0k3n" not in ran.output
    assert ran.output.count(MASK) == 4
    assert "Response: 200" in ran.output


@pytest.mark.slow  # it waits for what never comes
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/500", "the webhook returned status 500"),
        ("/redirect", "status 302 (redirects are not followed)"),
        ("/cut", "the response is incomplete or not HTTP"),
        ("/nonsense", "the response is incomplete or not HTTP"),
        ("/hang-up", "the response is incomplete or not HTTP"),
        ("/endless-head", "the response is incomplete or not HTTP"),
        ("/silent", "the hook timed out"),
        ("/slow-head", "the hook timed out"),
        ("/slow-body", "the hook timed out"),
    ],
)
def test_a_bad_answer_fails_the_hook(server: BadServer, path: str, error: str) -> None:
    ran = run("webhook", {"url": server.url + path, "timeout": "1s"})
    assert error in str(ran.error)
    assert f"Failed: {ran.error}" in ran.output
    assert [each.line for each in server.received] == [f"POST {path} HTTP/1.1"]


def test_of_an_answer_without_end_only_the_beginning_is_read(server: BadServer) -> None:
    ran = run("webhook", {"url": server.url + "/endless"})
    assert ran.error is None
    assert len(ran.output) < (1 << 20) + 100


def test_a_hook_that_is_cancelled_ends(server: BadServer) -> None:
    asked = iter([False, False, False])
    ran = run("webhook", {"url": server.url + "/silent"}, is_cancelled=lambda: next(asked, True))
    assert ran.error == "the hook was cancelled"


def test_an_unreachable_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = run("webhook", {"url": f"http://127.0.0.1:{port}/"})
    assert "connection failed" in str(ran.error)
    ran = run("webhook", {"url": "http://no-such-host.invalid/"})
    assert "host not found" in str(ran.error)


def test_a_header_cannot_be_split(server: BadServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEFSACTION_BAD", "a\r\nX-Other: b")
    headers = {"X-One": "{{ ENV.LAKEFSACTION_BAD }}"}
    ran = run("webhook", {"url": server.url + "/ok", "headers": headers})
    assert ran.error == "the header X-One contains a line break or a control character"
    assert not server.received


def test_private_addresses_are_refused(server: BadServer, caplog: pytest.LogCaptureFixture) -> None:
    refused = run("webhook", {"url": server.url + "/ok"}, settings=HookLimits())
    assert "127.0.0.1: hooks are not allowed to send requests" in str(refused.error)
    by_name = run("webhook", {"url": f"http://localhost:{server.port}/ok"}, settings=HookLimits())
    assert str(by_name.error).startswith("localhost: hooks are not allowed to send requests")
    # What an internal name stands for is told to the operator alone.
    assert "127.0.0.1" not in f"{by_name.error}{by_name.output}"
    assert "127.0.0.1" in caplog.text
    assert not server.received
    listed = HookLimits(allowed_networks=("127.0.0.0/30",))
    assert run("webhook", {"url": server.url + "/ok"}, settings=listed).error is None


def test_a_name_is_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that changes its address between the check and the connection gains nothing."""
    answers = iter(["127.0.0.2", "127.0.0.3"])
    asked: list[str] = []

    def look_up(host: str, port: int, **_: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    only_one = HookLimits(allowed_networks=("127.0.0.2/32",))
    with bad_server(BEHAVIOURS, "127.0.0.2") as other:
        ran = run("webhook", {"url": f"http://changes.example:{other.port}/ok"}, settings=only_one)
        assert ran.error is None
        assert asked == ["changes.example"]
        assert other.received[0].headers["host"] == f"changes.example:{other.port}"


def test_the_name_in_a_certificate_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = make_certificate(tmp_path, "good.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda _host, port, **_: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))],
    )
    with bad_server(BEHAVIOURS, tls=context) as server:
        unknown = run("webhook", {"url": f"https://good.example:{server.port}/ok"})
        assert "TLS connection failed" in str(unknown.error)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        network.new_ssl_context.cache_clear()
        try:
            good = run("webhook", {"url": f"https://good.example:{server.port}/ok"})
            other = run("webhook", {"url": f"https://other.example:{server.port}/ok"})
        finally:
            network.new_ssl_context.cache_clear()
    assert good.error is None
    assert "TLS connection failed" in str(other.error)
    assert names == ["good.example", "good.example", "other.example"]


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


PUBLIC = ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "::ffff:8.8.8.8"]
PRIVATE = ["10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "::1", "fd12::1", "100.64.0.1"]
PRIVATE += ["::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fec0::1"]
NEVER = ["169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"]
NEVER += ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1"]
NEVER += ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "192.0.0.192"]
# IPv4 addresses in forms that some networks still take for what they hold, and what nobody has.
NEVER += ["::169.254.169.254", "::ffff:0:a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "4000::1"]


@pytest.mark.parametrize("text", PUBLIC + PRIVATE + NEVER)
def test_allowed_addresses_of_webhooks(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert Network(HookLimits()).is_allowed(address) is (text in PUBLIC)
    private = HookLimits(allow_private_networks=True)
    assert Network(private).is_allowed(address) is (text not in NEVER)


def test_link_local_addresses_only_by_name() -> None:
    named = HookLimits(allowed_networks=("169.254.0.0/16",))
    assert Network(named).is_allowed(ipaddress.ip_address("169.254.169.254"))
