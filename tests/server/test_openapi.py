"""The OpenAPI document of the REST API."""

from lakebed.server.api.openapi import describe
from lakebed.server.api.operations import ROUTES


def test_every_operation_and_type_is_described() -> None:
    document = describe(ROUTES, base_path="/api/v1")
    described = sum(len(operations) for operations in document["paths"].values())
    assert described == len(ROUTES)
    assert "Preview" in document["components"]["schemas"]
