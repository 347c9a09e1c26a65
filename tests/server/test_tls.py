"""HTTPS by the server itself, spoken to by the clients of the standard library and of `httpx`."""

import hashlib
import ipaddress
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from lakebed.server.connections.listening import listen as open_port
from lakebed.server.connections.server import ConnectionServer
from lakebed.server.processes.preflight import CannotStart, check_certificate
from lakebed.server.settings import ListenSettings, ServerSettings
from tests.kit.served import PATIENCE_SECONDS, eventually

GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE: Final = os.urandom(1 << 20) * 8


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakebed")])
    now = datetime.now(UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "server.crt", folder / "server.key"
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return files


def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Answer with much, a piece at a time, or with the digest of what came."""
    headers = [("X-Scheme", environ["wsgi.url_scheme"])]
    if environ["PATH_INFO"] == "/large":
        start("200 OK", [*headers, ("Content-Length", str(len(LARGE)))])
        return (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    start("200 OK", headers)
    if environ["PATH_INFO"] == "/whole":
        return [LARGE]
    return [hashlib.sha256(environ["wsgi.input"].read()).hexdigest().encode()]


@pytest.fixture
def listen(tmp_path: Path) -> ListenSettings:
    certificate, key = write_certificate(tmp_path)
    return ListenSettings(port=0, tls_certificate=certificate, tls_key=key)


@pytest.fixture
def port(listen: ListenSettings) -> Iterator[int]:
    server = ConnectionServer(app, ServerSettings(listen=listen), open_port("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server._listener.getsockname()[1]
    server.stop()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def trusting(listen: ListenSettings) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=listen.tls_certificate)


def test_requests_and_large_answers_on_one_connection(listen: ListenSettings, port: int) -> None:
    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}", verify=trusting(listen), trust_env=False
    ) as client:
        for _ in range(2):
            posted = client.post("/", content=LARGE)
            assert posted.text == hashlib.sha256(LARGE).hexdigest()
            assert posted.headers["x-scheme"] == "https"
            assert client.get("/large").content == LARGE
            assert client.get("/whole").content == LARGE


def test_a_client_that_reads_late_gets_all(listen: ListenSettings, port: int) -> None:
    connection = HTTPSConnection("127.0.0.1", port, context=trusting(listen))
    for path in ("/large", "/whole"):
        connection.request("GET", path)
        answer = connection.getresponse()
        first = answer.read(10)
        assert first + answer.read() == LARGE
    connection.close()


def test_requests_that_come_in_one_record_are_all_answered(
    listen: ListenSettings, port: int
) -> None:
    empty = hashlib.sha256(b"").hexdigest().encode()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain,
        trusting(listen).wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(head)
        client.sendall(bytes(9000) + GET * 20)  # the body is received, and no more of the record
        received = b""
        while received.count(empty) < 20:
            received += client.recv(1 << 16)
    assert received.count(b"HTTP/1.1 200 OK") == 21


def test_who_does_not_speak_tls_is_cut_off_and_others_are_served(
    listen: ListenSettings, port: int
) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain,
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as silent,
    ):
        plain.sendall(GET)
        silent.sendall(b"\x16\x03")  # a handshake begins like this
        with suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(1000)
        verify = trusting(listen)
        assert httpx.get(f"https://127.0.0.1:{port}/", verify=verify, trust_env=False).is_success


def test_a_new_certificate_is_used_without_a_restart(
    listen: ListenSettings, port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = ssl.get_server_certificate(("127.0.0.1", port))
    (tmp_path / "new").mkdir()
    certificate, key = write_certificate(tmp_path / "new")
    assert listen.tls_certificate is not None
    assert listen.tls_key is not None
    with caplog.at_level(logging.WARNING):
        certificate.replace(listen.tls_certificate)
        eventually(lambda: "cannot be renewed" in caplog.text)  # the key is still the old one
    assert ssl.get_server_certificate(("127.0.0.1", port)) == before
    key.replace(listen.tls_key)
    eventually(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != before)
    with httpx.Client(verify=trusting(listen), trust_env=False) as client:
        assert client.get(f"https://127.0.0.1:{port}/").is_success


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("missing", "No such file or directory"),
        ("other key", "the key is not that of the certificate"),
        ("no certificate", "one of them is not a PEM file"),
    ],
)
def test_certificates_that_cannot_be_used(
    listen: ListenSettings, tmp_path: Path, wrong: str, reason: str
) -> None:
    assert listen.tls_certificate is not None
    if wrong == "missing":
        listen.tls_certificate.unlink()
    elif wrong == "no certificate":
        listen.tls_certificate.write_text("nothing")
    else:
        (tmp_path / "other").mkdir()
        other, _ = write_certificate(tmp_path / "other")
        other.replace(listen.tls_certificate)
    with pytest.raises(
        CannotStart, match=rf"cannot use the certificate .*server\.crt with the key .*{reason}"
    ):
        check_certificate(listen)


def test_a_key_without_a_certificate_is_refused() -> None:
    settings = ServerSettings(listen=ListenSettings(tls_key=Path("server.key")))
    with pytest.raises(Exception, match="set tls_certificate and tls_key, or neither"):
        settings.check()
