"""docs/compatibility.md names every operation, and says of each what the server does."""

import re
from collections import Counter
from pathlib import Path
from typing import Final

import lakefs_sdk

from lakebed.server.api.operations import ROUTES
from lakebed.server.s3.router import S3Operation

PAGE: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"
_REST: Final = re.compile(r"\| (\w+) \| `([A-Z]+ /\S+)` \| (yes|own|501) \| (.*)\|")
OPERATIONS_OF_LAKEFS: Final = 134


def rows(heading: str) -> list[str]:
    """The rows of the table below a heading, without its head."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_all_operations_of_the_api_are_described() -> None:
    found = {}
    for row in rows("All operations of the API"):
        match = _REST.fullmatch(row)
        assert match, row
        operation, request, here, _ = match.groups()
        assert operation not in found, operation
        found[operation] = (request, here == "501")
    wanted = {
        route.operation: (
            f"{route.method} {route.path.replace(':path}', '}')}",
            route.status == 501,
        )
        for route in ROUTES
    }
    assert found == wanted


def test_what_is_our_own_is_said_to_be() -> None:
    """The Python client has a method for almost every operation of lakeFS, and for no other."""
    theirs = {
        name.replace("_", "").lower()
        for api in vars(lakefs_sdk).values()
        if isinstance(api, type) and api.__name__.endswith("Api")
        for name in vars(api)
        if not name.startswith("_") and not name.endswith("_with_http_info")
    }
    named = set[str]()
    by_kind = Counter[str]()
    for row in rows("All operations of the API"):
        match = _REST.fullmatch(row)
        assert match, row
        operation, _, here, difference = match.groups()
        assert here != "own" or operation.lower() not in theirs, operation
        named.add(operation.lower())
        assert here == "yes" or difference.strip(), f"{operation}: say why"
        by_kind["own" if here == "own" else "theirs"] += 1
    assert by_kind["theirs"] == OPERATIONS_OF_LAKEFS
    assert len(theirs) > 100
    assert theirs <= named


def test_all_operations_of_s3_are_described() -> None:
    found = [row.split(" | ")[0].removeprefix("| ") for row in rows("S3")]
    assert found == [operation.value for operation in S3Operation]
