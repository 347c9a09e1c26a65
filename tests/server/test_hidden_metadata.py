"""What the catalog keeps in the metadata of entries for itself is in no answer of either API."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from lakebed.engine.model import RepositoryID
from lakebed.lake.entry_metadata import RESERVED
from lakebed.lake.model import ObjectStats
from lakebed.server.api.operations import ROUTES
from lakebed.server.api.routes import Route
from tests.server.kit import BRANCH, REPOSITORY, Server, server
from tests.server.operations import PATH, filled, request
from tests.server.s3.gateway_client import GatewayClient

pytestmark = pytest.mark.slow

STAGED = "folder/staged"
ONCE = "folder/once"
"""Written on a condition, by a request with an id."""
BEFORE = "before"
"""A branch from before there was any object."""

# A range is a file of the storage as it is, and so has all metadata of its entries.
AS_IT_IS = {"getMetadataObject"}
WALKED = [
    route
    for route in ROUTES
    if (isinstance(route.needs, tuple) or route.body is None) and route.operation not in AS_IT_IS
]
READS = [route for route in WALKED if route.method in {"GET", "HEAD"}]
WRITES = [route for route in WALKED if route not in READS]

# Where the requests that other tests make would show no object.
QUERIES: dict[str, dict[str, str]] = {
    "diffRefs": {"include_right_stats": "true"},
    "logCommits": {"objects": PATH},
}
REFS = {"diffRefs": BEFORE, "findMergeBase": BEFORE}

S3_TARGETS = [
    ("GET", "/"),
    ("HEAD", f"/{REPOSITORY}"),
    ("GET", f"/{REPOSITORY}?prefix=main%2F"),
    ("GET", f"/{REPOSITORY}?list-type=2&prefix=main%2F&fetch-owner=true"),
    ("GET", f"/{REPOSITORY}?uploads"),
    ("GET", f"/{REPOSITORY}/main/{PATH}?uploadId=UPLOAD"),
    ("GET", f"/{REPOSITORY}/main/{PATH}"),
    ("GET", f"/{REPOSITORY}/main/{PATH}?partNumber=1"),
    ("HEAD", f"/{REPOSITORY}/main/{PATH}"),
    ("GET", f"/{REPOSITORY}/main/{PATH}?attributes"),
    ("GET", f"/{REPOSITORY}/main/{PATH}?tagging"),
    ("GET", f"/{REPOSITORY}/main/{PATH}?acl"),
    ("GET", f"/{REPOSITORY}/main/{ONCE}"),
    ("GET", f"/{REPOSITORY}/main/{ONCE}?attributes"),
]


@dataclass
class TwoClients:
    """A server with objects that have reserved metadata of every kind."""

    api: Server
    s3: GatewayClient
    upload_id: str
    """Of an upload that is open."""

    def stat(self, path: str) -> ObjectStats:
        objects = self.api.services.catalog.objects
        return objects.stat(RepositoryID(REPOSITORY), BRANCH, path.encode())


@contextmanager
def opened() -> Iterator[TwoClients]:
    with server() as api:
        s3 = GatewayClient(api.services)
        at = f"/repositories/{REPOSITORY}/branches"
        made = api.call("POST", at, json={"name": BEFORE, "source": BRANCH})
        assert made.status_code == 201, made.text
        put_in_parts(s3, PATH)
        done = api.call("POST", f"{at}/{BRANCH}/commits", json={"message": "objects"})
        assert done.status_code == 201, done.text
        put_in_parts(s3, STAGED)
        once = {"If-None-Match": "*", "amz-sdk-invocation-id": "0" * 32}
        assert s3.ask("PUT", f"/{REPOSITORY}/main/{ONCE}", b"data", headers=once).status == 200
        yield TwoClients(api, s3, begin(s3, PATH))


@pytest.fixture(scope="module")
def world() -> Iterator[TwoClients]:
    """For what only reads."""
    with opened() as found:
        yield found


def begin(s3: GatewayClient, path: str) -> str:
    """Begin an upload whose object will have a header and a checksum."""
    headers = {"Content-Encoding": "gzip", "x-amz-checksum-algorithm": "CRC32"}
    begun = s3.ask("POST", f"/{REPOSITORY}/main/{path}?uploads", headers=headers)
    return begun.body.decode().partition("<UploadId>")[2].partition("<")[0]


def put_in_parts(s3: GatewayClient, path: str) -> None:
    """Upload an object in one part."""
    target = f"/{REPOSITORY}/main/{path}?uploadId={begin(s3, path)}"
    etag = s3.ask("PUT", f"{target}&partNumber=1", b"data").headers["etag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
    assert s3.ask("POST", target, body.encode()).status == 200


def test_the_objects_have_such_metadata(world: TwoClients) -> None:
    for path in (PATH, STAGED):
        stats = world.stat(path)
        assert {name.removeprefix(RESERVED) for name in stats.reserved} == {
            "checksum",
            "header::content-encoding",
            "parts",
        }
        assert stats.metadata == {}
    assert f"{RESERVED}requests" in world.stat(ONCE).reserved


def answer_of(world: TwoClients, route: Route) -> str:
    """Make a request; return all that was answered."""
    method, _, kwargs = request(route)
    params = {**kwargs.pop("params", {}), **QUERIES.get(route.operation, {})}
    path = filled(route, ref=REFS.get(route.operation, BRANCH))
    answer = world.api.call(method, path, params=params, **kwargs)
    return f"{answer.headers} {answer.content.decode(errors='replace')}"


@pytest.mark.parametrize("route", READS, ids=lambda route: route.operation)
def test_no_answer_to_a_read_has_them(world: TwoClients, route: Route) -> None:
    assert RESERVED not in answer_of(world, route)


@pytest.mark.parametrize("route", WRITES, ids=lambda route: route.operation)
def test_no_answer_to_a_write_has_them(route: Route) -> None:
    with opened() as fresh:
        assert RESERVED not in answer_of(fresh, route)


@pytest.mark.parametrize("operation", ["statObject", "listObjects", "diffRefs", "diffBranch"])
def test_the_walk_sees_the_objects(world: TwoClients, operation: str) -> None:
    route = next(each for each in READS if each.operation == operation)
    assert (STAGED if operation == "diffBranch" else PATH) in answer_of(world, route)


def test_no_answer_of_the_gateway_has_them(world: TwoClients) -> None:
    for method, target in S3_TARGETS:
        headers = {"x-amz-object-attributes": "Checksum,ObjectParts,ETag"}
        answer = world.s3.ask(method, target.replace("UPLOAD", world.upload_id), headers=headers)
        assert answer.status in {200, 206}, (target, answer.body)
        assert RESERVED not in f"{answer.headers} {answer.body.decode(errors='replace')}"
