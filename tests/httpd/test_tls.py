"""HTTPS of the server itself, with clients of the standard library and `httpx`."""

import hashlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.client import HTTPSConnection
from pathlib import Path
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

import httpx
import pytest

from lakebed.httpd import TLSContext, WSGIServer, listen
from tests.kit.certificates import write_certificate
from tests.kit.served import PATIENCE_SECONDS, eventually

GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE: Final = os.urandom(1 << 20) * 8


def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Respond with a long streamed body, or with the digest of the request's body."""
    headers = [("X-Scheme", environ["wsgi.url_scheme"])]
    if environ["PATH_INFO"] == "/large":
        start("200 OK", [*headers, ("Content-Length", str(len(LARGE)))])
        return (LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000))
    start("200 OK", headers)
    if environ["PATH_INFO"] == "/whole":
        return [LARGE]
    return [hashlib.sha256(environ["wsgi.input"].read()).hexdigest().encode()]


Certificate = tuple[Path, Path]
"""Files of a certificate and its key."""


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return write_certificate(tmp_path)


@pytest.fixture
def port(certificate: Certificate) -> Iterator[int]:
    server = WSGIServer(app, listen("127.0.0.1", 0), tls=TLSContext(*certificate))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield server._listener.getsockname()[1]
    server.stop()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def trusting(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate[0])


def test_requests_and_large_answers_on_one_connection(certificate: Certificate, port: int) -> None:
    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}", verify=trusting(certificate), trust_env=False
    ) as client:
        for _ in range(2):
            posted = client.post("/", content=LARGE)
            assert posted.text == hashlib.sha256(LARGE).hexdigest()
            assert posted.headers["x-scheme"] == "https"
            assert client.get("/large").content == LARGE
            assert client.get("/whole").content == LARGE


def test_a_client_that_reads_late_gets_all(certificate: Certificate, port: int) -> None:
    connection = HTTPSConnection("127.0.0.1", port, context=trusting(certificate))
    for path in ("/large", "/whole"):
        connection.request("GET", path)
        answer = connection.getresponse()
        first = answer.read(10)
        assert first + answer.read() == LARGE
    connection.close()


def test_requests_that_come_in_one_record_are_all_answered(
    certificate: Certificate, port: int
) -> None:
    empty = hashlib.sha256(b"").hexdigest().encode()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain,
        trusting(certificate).wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(head)
        client.sendall(bytes(9000) + GET * 20)  # the body is received, and no more of the record
        received = b""
        while received.count(empty) < 20:
            received += client.recv(1 << 16)
    assert received.count(b"HTTP/1.1 200 OK") == 21


def test_clients_without_tls_are_cut_off_and_others_are_served(
    certificate: Certificate, port: int
) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as plain,
        socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as silent,
    ):
        plain.sendall(GET)
        silent.sendall(b"\x16\x03")  # a handshake begins like this
        with suppress(ConnectionResetError):
            assert b"HTTP" not in plain.recv(1000)
        verify = trusting(certificate)
        assert httpx.get(f"https://127.0.0.1:{port}/", verify=verify, trust_env=False).is_success


@pytest.mark.slow
def test_a_new_certificate_is_used_without_a_restart(
    certificate: Certificate, port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = ssl.get_server_certificate(("127.0.0.1", port))
    (tmp_path / "new").mkdir()
    new_certificate, key = write_certificate(tmp_path / "new")
    with caplog.at_level(logging.WARNING):
        new_certificate.replace(certificate[0])
        eventually(
            lambda: "cannot reload the certificate" in caplog.text
        )  # the key is still the old one
    assert ssl.get_server_certificate(("127.0.0.1", port)) == before
    key.replace(certificate[1])
    eventually(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != before)
    with httpx.Client(verify=trusting(certificate), trust_env=False) as client:
        assert client.get(f"https://127.0.0.1:{port}/").is_success
