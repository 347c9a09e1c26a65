"""What tests of the drivers of databases share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def aws_credentials() -> Iterator[None]:
    """Credentials as the local DynamoDB takes them: any."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "lakebed")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "lakebed-secret")
        yield
