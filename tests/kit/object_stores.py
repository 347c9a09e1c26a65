"""Object storages: one server of each kind for all tests of a run, with buckets in it.

All tests load this module; the clients are imported by those that use them.
"""

import os
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.testing.servers.object_stores import (
    ACCESS_KEY_ID,
    AZURE_ACCOUNT,
    AZURE_ACCOUNT_KEY,
    SECRET_ACCESS_KEY,
    ObjectServer,
    shared_server,
)

if TYPE_CHECKING:
    from lakebed.block import AzureSettings, Namespace, S3Settings

BUCKET = "lake"
OTHER_BUCKET = "other"


@pytest.fixture(scope="session")
def seaweedfs_settings(tmp_path_factory: pytest.TempPathFactory) -> "S3Settings":
    """How to reach SeaweedFS, which has two buckets."""
    return s3_settings(_server("seaweedfs", tmp_path_factory))


@pytest.fixture(scope="session")
def moto_settings(tmp_path_factory: pytest.TempPathFactory) -> "S3Settings":
    """How to reach moto, which has the same buckets."""
    return s3_settings(_server("moto", tmp_path_factory))


@pytest.fixture(scope="session")
def azure_settings(tmp_path_factory: pytest.TempPathFactory) -> "AzureSettings":
    """How to reach Azurite, which has containers of the same names."""
    from azure.core.exceptions import ResourceExistsError
    from azure.storage.blob import BlobServiceClient

    from lakebed.block import AzureSettings

    server = _server("azurite", tmp_path_factory)
    with BlobServiceClient(server.endpoint, AZURE_ACCOUNT_KEY) as client:
        for container in (BUCKET, OTHER_BUCKET):
            with suppress(ResourceExistsError):
                client.create_container(container)
    return AzureSettings(AZURE_ACCOUNT, AZURE_ACCOUNT_KEY, server.endpoint)


def client_of(settings: "S3Settings") -> Any:
    """Return a client of boto3."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region,
        aws_access_key_id=settings.access_key_id,
        aws_secret_access_key=settings.secret_access_key,
    )


def versioned(settings: "S3Settings", *, locks: bool = False) -> "tuple[Any, Namespace]":
    """Make a bucket that keeps versions; return a client and a namespace in it."""
    from lakebed.block import Namespace

    client, bucket = client_of(settings), f"versioned-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=locks)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return client, Namespace.parse(f"s3://{bucket}/lake")


def s3_settings(server: ObjectServer) -> "S3Settings":
    """Make the buckets, if another worker did not; return how to reach them."""
    from lakebed.block import S3Settings

    settings = S3Settings(
        endpoint=server.endpoint,
        access_key_id=ACCESS_KEY_ID,
        secret_access_key=SECRET_ACCESS_KEY,
        path_style=True,
    )
    client = client_of(settings)
    for bucket in (BUCKET, OTHER_BUCKET):
        with suppress(
            client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists
        ):
            client.create_bucket(Bucket=bucket)
    client.close()
    return settings


def _server(name: str, tmp_path_factory: pytest.TempPathFactory) -> ObjectServer:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return shared_server(name, folder, while_pid=os.getpid())
    # The folder above is that of all workers, and their parent is the process that runs them.
    return shared_server(name, folder.parent, while_pid=os.getppid())
