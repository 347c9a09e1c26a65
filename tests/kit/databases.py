"""What tests of the drivers of databases share."""

import pytest


@pytest.fixture
def aws_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials as the local DynamoDB takes them: any."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "lakebed")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "lakebed-secret")
