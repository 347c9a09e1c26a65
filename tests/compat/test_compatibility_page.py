"""docs/compatibility.md names operations that exist, and all that lakeFS does not have."""

import re
from pathlib import Path
from typing import Final

import lakefs_sdk

from lakebed.server.api.operations import ROUTES
from lakebed.server.s3.router import S3Operation

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"
OPERATIONS: Final = {route.operation for route in ROUTES}
MISSING: Final = {route.operation for route in ROUTES if route.status == 501}
OPERATIONS_OF_LAKEFS: Final = 134


def section(heading: str) -> str:
    return PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def operations(heading: str) -> list[str]:
    """The operations in the first column of the table below a heading."""
    rows = [line for line in section(heading).splitlines() if line.startswith("| ")][1:]
    return [name for row in rows for name in row.split(" | ")[0].removeprefix("| ").split(", ")]


def test_differences_are_those_of_operations_that_exist() -> None:
    found = operations("Differences")
    assert len(found) == len(set(found)) > 50
    assert set(found) <= OPERATIONS - MISSING - set(operations("Lakebed's own operations"))


def test_all_missing_operations_are_named() -> None:
    assert set(re.findall(r"\b\w+", section("Not implemented"))) & OPERATIONS == MISSING


def test_all_own_operations_are_named() -> None:
    """The Python client has a method for almost every operation of lakeFS, and for no other."""
    own = operations("Lakebed's own operations")
    assert len(own) == len(set(own))
    assert set(own) <= OPERATIONS
    assert len(OPERATIONS - set(own)) == OPERATIONS_OF_LAKEFS
    theirs = {
        name.replace("_", "").lower()
        for api in vars(lakefs_sdk).values()
        if isinstance(api, type) and api.__name__.endswith("Api")
        for name in vars(api)
        if not name.startswith("_") and not name.endswith("_with_http_info")
    }
    assert len(theirs) > 100
    assert theirs <= {name.lower() for name in OPERATIONS - set(own)}


def test_differences_of_s3_are_those_of_operations_that_exist() -> None:
    found = operations("S3")
    assert len(found) == len(set(found)) > 10
    assert set(found) <= {operation.value for operation in S3Operation}
