"""Speed of the S3 gateway, as ratios to floors of the same server in the same run.

The floor of reads is a route that verifies a signature and answers; that of writes one that keeps
the body in a file and notes it in a record, both durable.
"""

import argparse
import itertools
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

import httpx
import yaml
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.http_load import requests_per_second
from benchmarks.report import Row, report
from benchmarks.s3_app import ADMIN, REPOSITORY
from lakebed.server.s3.sigv4 import verify

CONNECTIONS: Final = 16
TURNS: Final = 5
KIBIBYTE: Final = b"x" * 1024
PART_BYTES: Final = 8 << 20
_AUTH: Final = S3SigV4Auth(
    Credentials(ADMIN.access_key_id, ADMIN.secret_access_key), "s3", "us-east-1"
)


def main(arguments: list[str] | None = None) -> int:
    """Measure everything and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    return report(measure(tiny=parser.parse_args(arguments).tiny))


def measure(*, tiny: bool) -> list[Row]:
    """Return all measurements."""
    with tempfile.TemporaryDirectory() as folder, _server(Path(folder)) as port:
        meter = _Meter(port, seconds=0.05 if tiny else 1.0, keys=20 if tiny else 1000)
        return [*meter.small(), meter.large(2 if tiny else 25), _verifying(200 if tiny else 20_000)]


@dataclass(frozen=True, slots=True)
class _Load:
    """Requests of one kind."""

    method: str
    targets: list[str]
    body: bytes = b""


class _Meter:
    def __init__(self, port: int, *, seconds: float, keys: int) -> None:
        self._port = port
        self._url = f"http://127.0.0.1:{port}"
        self._seconds = seconds
        self._keys = keys

    def small(self) -> list[Row]:
        """Requests about small objects."""
        objects = [f"/{REPOSITORY}/main/small/{number:04d}" for number in range(self._keys)]
        self._fill(objects)
        pages = f"/{REPOSITORY}?list-type=2&prefix=main%2Fsmall%2F"
        verified, head, get, listed = self._rates(
            _Load("GET", ["/floor/verify"]),
            _Load("HEAD", objects),
            _Load("GET", objects),
            _Load("GET", [pages]),
        )
        bare_put, put = self._rates(
            _Load("PUT", ["/floor/put"], KIBIBYTE), _Load("PUT", objects, KIBIBYTE)
        )
        return [
            Row("verify a signature and answer (floor)", "server", verified, None, None),
            Row("durable put of 1 KiB (floor)", "server", bare_put, None, None),
            Row("HEAD", "s3", head, head / verified, 0.4),
            Row("GET 1 KiB", "s3", get, get / verified, 0.3),
            Row("PUT 1 KiB", "s3", put, put / bare_put, 0.5),
            Row(f"LIST {self._keys} keys", "s3", listed, listed / verified, None),
        ]

    def large(self, parts: int) -> Row:
        """An object in parts, in MB a second, one part after the other."""
        body = b"x" * PART_BYTES
        with httpx.Client(base_url=self._url, timeout=120, trust_env=False) as client:
            begun = time.perf_counter()
            for _ in range(parts):
                _send(client, "PUT", f"{self._url}/floor/put", body)
            floor = time.perf_counter() - begun
            begun = time.perf_counter()
            self._upload(client, body, parts)
            took = time.perf_counter() - begun
        megabytes = parts * PART_BYTES / 1e6
        return Row(f"multipart upload of {megabytes:.0f} MB, in MB", "s3", megabytes / took,
                   floor / took, 0.5)  # fmt: skip

    def _upload(self, client: httpx.Client, body: bytes, parts: int) -> None:
        url = f"{self._url}/{REPOSITORY}/main/large"
        answer = _send(client, "POST", f"{url}?uploads", b"").text
        upload_id = answer.partition("<UploadId>")[2].partition("<")[0]
        lines = []
        for number in range(1, parts + 1):
            part = f"{url}?partNumber={number}&uploadId={upload_id}"
            etag = _send(client, "PUT", part, body).headers["etag"]
            lines.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        whole = f"<CompleteMultipartUpload>{''.join(lines)}</CompleteMultipartUpload>"
        _send(client, "POST", f"{url}?uploadId={upload_id}", whole.encode())

    def _fill(self, objects: list[str]) -> None:
        with httpx.Client(timeout=60, trust_env=False) as client:
            for target in objects:
                _send(client, "PUT", self._url + target, KIBIBYTE)

    def _rates(self, *loads: _Load) -> list[float]:
        """How many requests of each are answered in a second; they take turns, so that whatever
        else the machine does meanwhile slows down all of them."""
        rates: list[list[float]] = [[] for _ in loads]
        for _ in range(TURNS):
            for load, found in zip(loads, rates, strict=True):
                found.append(self._rate(load))
        return [median(found) for found in rates]

    def _rate(self, load: _Load) -> float:
        requests = [self._request(load.method, target, load.body) for target in load.targets]
        return requests_per_second(
            self._port,
            itertools.cycle(requests),
            connections=CONNECTIONS,
            seconds=self._seconds,
            with_bodies=load.method != "HEAD",
        )

    def _request(self, method: str, target: str, body: bytes) -> bytes:
        headers = _signed(method, self._url + target, body)
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        return "\r\n".join([*lines, "", ""]).encode() + body


def _signed(method: str, url: str, body: bytes) -> dict[str, str]:
    request = AWSRequest(method, url, data=body)
    _AUTH.add_auth(request)
    host = url.removeprefix("http://").partition("/")[0]
    return {**dict(request.headers.items()), "Host": host, "Content-Length": str(len(body))}


def _send(client: httpx.Client, method: str, url: str, body: bytes) -> httpx.Response:
    answer = client.request(method, url, content=body, headers=_signed(method, url, body))
    answer.raise_for_status()
    return answer


def _verifying(times: int) -> Row:
    """Verifying alone, without a server."""
    url = f"http://127.0.0.1/{REPOSITORY}/main/folder/object.parquet"
    headers = _signed("GET", url, b"")
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": f"/{REPOSITORY}/main/folder/object.parquet",
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }
    now = datetime.now(UTC)
    begun = time.perf_counter()
    for _ in range(times):
        verify(environ, lambda _: ("admin", ADMIN.secret_access_key), now=now)
    return Row("verify a signature, alone", "", times / (time.perf_counter() - begun), None, None)


@contextmanager
def _server(folder: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    file = folder / "lakebed.yaml"
    settings = {
        "listen": {"port": port},
        "processes": {"workers": 1},
        "database": {"url": f"sqlite:///{folder}/lakebed.db"},
        "blockstore": {"local": {"root": str(folder / "objects")}},
        "auth": {"secret_key": "a key for benchmarks only"},
        "logging": {"level": "warning"},
    }
    file.write_text(yaml.safe_dump(settings))
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.s3_app", str(file)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("ready")
            yield port
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
