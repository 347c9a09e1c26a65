"""What tests of the drivers of databases share."""

from collections.abc import Iterator

import pytest

from lakebed.testing.servers.object_stores import AZURE_ACCOUNT_KEY


@pytest.fixture(scope="module")
def aws_credentials() -> Iterator[None]:
    """Credentials as the local DynamoDB takes them: any."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "lakebed")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "lakebed-secret")
        yield


@pytest.fixture(scope="module")
def azure_key() -> Iterator[None]:
    """The key of Azurite's account, where the driver looks for it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AZURE_STORAGE_KEY", AZURE_ACCOUNT_KEY)
        yield


@pytest.fixture(scope="module")
def cosmos_key() -> Iterator[None]:
    """A key of an account, where the driver looks for it; the local Cosmos DB takes any."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AZURE_COSMOS_KEY", "bGFrZWJlZA==")
        yield
