"""A server with a repository, for S3 clients of all kinds."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.kit.served import Served, Servers
from tests.system.s3_server import ACCESS_KEY, REPOSITORY, SECRET_KEY

Client = Any
"""Of boto3; its types forbid half of what tests try."""


@dataclass
class Gateway:
    """A server that runs, and how clients reach it."""

    served: Served
    repository: str = REPOSITORY
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    region: str = "us-east-1"

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def endpoint(self) -> str:
        """Host and port."""
        return self.url.removeprefix("http://")

    @property
    def environment(self) -> dict[str, str]:
        """Variables that clients look at."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, **options: Any) -> Client:
        """A boto3 client with its default settings; path style, since the host is an address."""
        # Slow to import, and all tests load this module.
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            config=Config(s3={"addressing_style": "path"}, **options),
        )


def start(servers: Servers, **sections: Any) -> Gateway:
    """Start a server with a repository; again in the same folder, it finds what was there."""
    served = servers.serve(module="tests.system.s3_server", processes={"workers": 1}, **sections)
    return Gateway(served)


@pytest.fixture(scope="session")
def gateway_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A server that all tests of the gateway share; nobody stops it."""
    servers = Servers(tmp_path_factory.mktemp("gateway"), [])
    prefix: dict[str, object] = {"default_namespace_prefix": "local://lakes/made"}
    yield start(servers, blockstore=prefix)
    servers.end()


@pytest.fixture(scope="module")
def gateway(gateway_server: Gateway) -> Gateway:
    """The server with a new repository, for the tests of one file."""
    key = (gateway_server.access_key, gateway_server.secret_key)
    with httpx.Client(base_url=f"{gateway_server.url}/api/v1", auth=key, timeout=60) as api:
        api.delete(f"/repositories/{REPOSITORY}").raise_for_status()
        namespace = f"local://lakes/{uuid.uuid4().hex}"
        new = {"name": REPOSITORY, "storage_namespace": namespace}
        api.post("/repositories", json=new).raise_for_status()
    return gateway_server
