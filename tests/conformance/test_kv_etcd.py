"""etcd, by a real server of one member."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.kv import StoreUnavailable, open_store
from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import etcd_server, etcd_url
from tests.kit.certificates import write_certificate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with etcd_server(durable=False) as server:
        yield etcd_url(server.port)


class TestEtcdStore(StoreConformance):
    bulk = 4_000

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url


def test_etcd_with_client_certificates(tmp_path: Path) -> None:
    server_cert, server_key = write_certificate(tmp_path)
    cert, key = write_certificate(tmp_path, "client")
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(server_cert.read_bytes() + cert.read_bytes())
    settings = (
        *("--cert-file", str(server_cert), "--key-file", str(server_key)),
        *("--client-cert-auth", "--trusted-ca-file", str(trusted)),
    )
    with etcd_server(durable=True, settings=settings) as server:
        url = f"{etcd_url(server.port).removesuffix('?durable=true')}?tls=true&ca={server_cert}"
        with open_store(f"{url}&cert={cert}&key={key}") as store:
            store.set(b"p", b"key", b"value")
            assert store.get(b"p", b"key").value == b"value"
        with pytest.raises(StoreUnavailable):
            open_store(url)
