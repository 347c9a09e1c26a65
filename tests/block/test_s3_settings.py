"""Wrong settings of S3: each is reported in a sentence, and none ends in a panic."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import (
    Address,
    BlockError,
    Forbidden,
    InvalidAddress,
    Namespace,
    S3Settings,
    StorageUnavailable,
    open_block,
)
from lakebed.block.drivers.s3.store import S3BlockStore
from lakebed.server.background import check_storage as check_services
from lakebed.server.config_files import read
from lakebed.server.processes.preflight import check_storage
from tests.server.kit import opened

BUCKET = Namespace.parse("s3://bucket/lake/")
KEYS = S3Settings(access_key_id="id", secret_access_key="secret-word")


class Refusing(ThreadingHTTPServer):
    """A storage that answers each request with the same error, or with an empty listing."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.refusal: tuple[int, str] | None = None
        self.paths: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """Ignore disconnected clients."""


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Refusing

    def do_GET(self) -> None:
        self.server.paths.append(self.path)
        status, body = 200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        if self.server.refusal is not None:
            status, code = self.server.refusal
            body = f"<Error><Code>{code}</Code><Message>m</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def storage() -> Iterator[Refusing]:
    with Refusing() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def probe(endpoint: str, namespace: Namespace | None = BUCKET) -> None:
    with open_block(replace(KEYS, endpoint=endpoint)) as block:
        block.probe(namespace)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (None, False),
        ("https://s3.eu-central-1.amazonaws.com", False),
        ("https://minio.example.com:9000", False),
        ("http://127.0.0.1:9000", True),
        ("http://[::1]:9000", True),
        ("http://localhost:9000", True),
        ("http://minio:9000/s3", True),
    ],
)
def test_the_bucket_goes_into_the_path_where_no_host_name_could_hold_it(
    endpoint: str | None, expected: bool
) -> None:
    assert S3Settings(endpoint=endpoint).uses_path_style is expected
    for chosen in (True, False):
        assert S3Settings(endpoint=endpoint, path_style=chosen).uses_path_style is chosen


def test_requests_to_an_address_name_the_bucket_in_the_path(storage: Refusing) -> None:
    probe(storage.endpoint)
    assert storage.paths[0].startswith("/bucket?")


def test_a_panic_of_a_library_is_an_error_with_a_sentence() -> None:
    """The library panics if a bucket name precedes an IP address in the host."""
    settings = replace(KEYS, endpoint="http://127.0.0.1:9", path_style=False)
    address = Address.parse("s3://bucket/path")
    with closing(S3BlockStore(settings, ThreadRuntime())) as block:
        with pytest.raises(StorageUnavailable, match="check the endpoint"):
            block.head(address)
        for call in (
            lambda: block.get(address),
            lambda: block.put(address, [b"x"]),
            lambda: block.create(address, b"x"),
            lambda: block.presign_get(address, expires_seconds=60),
        ):
            with pytest.raises(StorageUnavailable):
                call()


@pytest.mark.parametrize(
    ("refused", "error", "said"),
    [
        ((403, "InvalidAccessKeyId"), Forbidden, "unknown access key id"),
        ((403, "SignatureDoesNotMatch"), Forbidden, "the secret access key does not match"),
        ((403, "RequestTimeTooSkewed"), Forbidden, "the clock of this machine"),
        (
            (403, "AccessDenied"),
            Forbidden,
            "do not allow access to s3://bucket/lake/: 403 AccessDenied",
        ),
        ((404, "NoSuchBucket"), InvalidAddress, "no bucket or container s3://bucket"),
        ((500, "InternalError"), StorageUnavailable, "500 InternalError"),
    ],
)
def test_one_signed_request_tells_what_is_wrong(
    storage: Refusing, refused: tuple[int, str], error: type[BlockError], said: str
) -> None:
    storage.refusal = refused
    with pytest.raises(error, match=said) as caught:
        probe(storage.endpoint)
    assert "secret-word" not in str(caught.value)
    assert len(storage.paths) == 1


def test_without_a_bucket_in_mind_keys_may_be_good_for_some_only(storage: Refusing) -> None:
    storage.refusal = (403, "AccessDenied")
    probe(storage.endpoint, None)
    storage.refusal = (403, "InvalidAccessKeyId")
    with pytest.raises(Forbidden, match=f"the S3 storage at {storage.endpoint}"):
        probe(storage.endpoint, None)


def test_the_check_of_the_settings_asks_the_storage(storage: Refusing, tmp_path: Path) -> None:
    def problems(endpoint: str) -> list[str]:
        (tmp_path / "lakebed.yaml").write_text(
            "blockstore:\n  type: s3\n  default_namespace_prefix: s3://bucket/lake/\n"
            f"  s3: {{endpoint: '{endpoint}', access_key_id: id, secret_access_key: secret-word}}\n"
            "database: {url: 'memory://'}\n"
        )
        return check_storage(read(tmp_path / "lakebed.yaml", environment={}))

    assert problems(storage.endpoint) == []
    storage.refusal = (404, "NoSuchBucket")
    (problem,) = problems(storage.endpoint)
    assert problem.startswith("blockstore.s3: no bucket or container s3://bucket")
    (unreachable,) = problems("http://127.0.0.1:9")
    assert "no response" in unreachable
    assert "EndpointConnectionError" in unreachable
    assert "127.0.0.1:9" in unreachable


def test_a_server_that_starts_logs_what_is_wrong(
    storage: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    storage.refusal = (403, "SignatureDoesNotMatch")
    keys = {"access_key_id": "id", "secret_access_key": "secret-word"}
    flags = {f"blockstore__s3__{name}": value for name, value in keys.items()}
    endpoint = {"blockstore__s3__endpoint": storage.endpoint}
    with opened(blockstore__type="s3", **flags, **endpoint) as server:
        check_services(server.services)
    assert "cannot use the storage: the credentials do not allow access" in caplog.text
    assert "secret-word" not in caplog.text
