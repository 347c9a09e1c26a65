"""Client certificates of all drivers with TLS, by a server that requires them."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from pymysql.constants import CLIENT

from lakebed.kv import InvalidArgument, StoreUnavailable, open_store
from tests.kit.certificates import write_certificate

URLS = {
    "etcd": "etcd://127.0.0.1:{port}/lakebed",
    "mysql": "mysql://user:password@127.0.0.1:{port}/lakebed",
    "valkey": "valkey://127.0.0.1:{port}/0",
    "cassandra": "cassandra://127.0.0.1:{port}/lakebed",
    "hbase": "hbase://127.0.0.1:{port}/lakebed",
    "mongodb": "mongodb://127.0.0.1:{port}/lakebed",
}


class Listener:
    """A server that finishes TLS handshakes, and closes the connections."""

    def __init__(self, folder: Path, scheme: str, *, host: str = "127.0.0.1") -> None:
        self.ca, key = write_certificate(folder, host=host)
        self.cert, self.key = write_certificate(folder, "client")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.ca, key)
        self._context.load_verify_locations(self.cert)
        self._context.verify_mode = ssl.CERT_REQUIRED
        # A refused certificate of TLS 1.3 is known to the client after its handshake only.
        self._context.maximum_version = ssl.TLSVersion.TLSv1_2
        self._greets = scheme == "mysql"
        self.certificates: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._url = URLS[scheme].format(port=self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve)

    def url(self, **options: object) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"{self._url}?tls=true&ca={self.ca}&{query}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:  # the end
                return
            with plain, suppress(OSError):
                self._answer(plain)

    def _answer(self, plain: socket.socket) -> None:
        plain.settimeout(10)
        if self._greets:
            can = CLIENT.SSL | CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION | CLIENT.PLUGIN_AUTH
            low, high = can & 0xFFFF, can >> 16
            salt, plugin = b"12345678", b"mysql_native_password\0"
            greeting = (
                *(b"\x0a8.0.0\0", struct.pack("<I", 1), salt, b"\0", struct.pack("<H", low)),
                *(b"\x21\2\0", struct.pack("<H", high), b"\x15", bytes(10)),
                *(b"123456789012\0", plugin),
            )
            packet = b"".join(greeting)
            plain.sendall(struct.pack("<I", len(packet)) + packet)
            plain.recv(36, socket.MSG_WAITALL)
        with self._context.wrap_socket(plain, server_side=True) as encrypted:
            certificate = encrypted.getpeercert(binary_form=True)
            assert certificate is not None
            self.certificates.append(certificate)


@pytest.fixture(params=sorted(URLS))
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    with Listener(tmp_path, request.param) as listener:
        yield listener


def test_a_client_certificate_reaches_the_server(listener: Listener, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(listener.cert.read_bytes() + listener.key.read_bytes())
    with pytest.raises(StoreUnavailable):
        open_store(listener.url(cert=both))
    assert ssl.PEM_cert_to_DER_cert(listener.cert.read_text()) in listener.certificates


@pytest.mark.parametrize("scheme", sorted(URLS.keys() - {"mongodb"}))
def test_the_key_may_be_in_a_file_of_its_own(scheme: str, tmp_path: Path) -> None:
    with Listener(tmp_path, scheme) as listener:
        with pytest.raises(StoreUnavailable):
            open_store(listener.url(cert=listener.cert, key=listener.key))
        assert listener.certificates


def test_without_a_certificate_the_server_refuses(listener: Listener) -> None:
    with pytest.raises(StoreUnavailable):
        open_store(listener.url())
    assert not listener.certificates


@pytest.mark.parametrize("scheme", sorted(URLS))
def test_the_certificate_of_another_host_is_refused(scheme: str, tmp_path: Path) -> None:
    with Listener(tmp_path, scheme, host="127.0.0.2") as listener:
        both = tmp_path / "both.pem"
        both.write_bytes(listener.cert.read_bytes() + listener.key.read_bytes())
        with pytest.raises(StoreUnavailable):
            open_store(listener.url(cert=both))
        assert not listener.certificates


@pytest.mark.parametrize("scheme", sorted(URLS))
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("ca={folder}/server.crt", "ca without TLS: add tls=true"),
        ("cert=/nowhere&ca=/nowhere", "ca and cert without TLS: add tls=true"),
        ("tls=false&cert=/nowhere", "cert without TLS: add tls=true"),
        ("tls=true&ca=/nowhere", "cannot read the certificates in /nowhere"),
        ("tls=true&cert=/nowhere", "cannot use the client certificate in /nowhere: .*No such"),
        ("tls=true&cert={folder}/server.crt", r"client certificate in .*server\.crt"),
        ("tls=true&cert={folder}/secret.pem", r"private key in .*secret\.pem has a password"),
    ],
)
def test_unusable_options_are_refused(
    scheme: str, options: str, complaint: str, tmp_path: Path
) -> None:
    write_certificate(tmp_path)
    cert, key = write_certificate(tmp_path, "encrypted", password=b"secret-word")
    (tmp_path / "secret.pem").write_bytes(cert.read_bytes() + key.read_bytes())
    url = f"{URLS[scheme].format(port=1)}?{options.format(folder=tmp_path)}"
    with pytest.raises(InvalidArgument, match=complaint):
        open_store(url)


@pytest.mark.parametrize("scheme", sorted(URLS.keys() - {"mongodb"}))
def test_a_key_needs_its_certificate(scheme: str, tmp_path: Path) -> None:
    server, _ = write_certificate(tmp_path)
    _, other = write_certificate(tmp_path, "other")
    url = URLS[scheme].format(port=1)
    with pytest.raises(InvalidArgument, match="key without cert: add cert="):
        open_store(f"{url}?tls=true&key={other}")
    with pytest.raises(InvalidArgument, match=r"server\.crt with the private key in .*other\.key"):
        open_store(f"{url}?tls=true&cert={server}&key={other}")


def test_mongodb_takes_certificate_and_key_from_one_file() -> None:
    with pytest.raises(InvalidArgument, match="append the private key to the file of cert"):
        open_store("mongodb://127.0.0.1:1/lakebed?tls=true&cert=/a&key=/b")
