"""Every operation, tried by someone without its permission, and by someone with just that one."""

from collections.abc import Iterator

import pytest

from lakebed.auth import Action, Effect, KeyPair, Statement
from lakebed.server.s3.router import S3Operation
from tests.server.kit import REPOSITORY
from tests.server.s3.gateway_client import GatewayClient, gateway_client

pytestmark = pytest.mark.slow

BUCKET = f"/{REPOSITORY}"
KEY = f"{BUCKET}/main/folder/object"
REPOSITORY_ARN = f"arn:lakefs:fs:::repository/{REPOSITORY}"
OBJECT_ARN = f"{REPOSITORY_ARN}/object/folder/object"
DELETE = b"<Delete><Object><Key>main/folder/object</Key></Object></Delete>"
PARTS = (
    b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
    b"<ETag>8d777f385d3dfec8815d20f7496026dc</ETag></Part></CompleteMultipartUpload>"
)
SOURCE = {"x-amz-copy-source": f"{REPOSITORY}/main/folder/object"}

PRIVATE = {"x-amz-acl": "private"}
TAGGING = b"<Tagging><TagSet/></Tagging>"

Need = tuple[Action, str]
WRITE: Need = (Action.WRITE_OBJECT, OBJECT_ARN)
READ: Need = (Action.READ_OBJECT, OBJECT_ARN)
READ_REPOSITORY: Need = (Action.READ_REPOSITORY, REPOSITORY_ARN)

CASES: dict[S3Operation, tuple[str, str, bytes, dict[str, str], list[Need]]] = {
    S3Operation.LIST_BUCKETS: ("GET", "/", b"", {}, [(Action.LIST_REPOSITORIES, "*")]),
    S3Operation.HEAD_BUCKET: ("HEAD", BUCKET, b"", {}, [READ_REPOSITORY]),
    S3Operation.CREATE_BUCKET: (
        "PUT",
        "/made",
        b"",
        {},
        [
            (Action.CREATE_REPOSITORY, "arn:lakefs:fs:::repository/made"),
            (Action.ATTACH_STORAGE_NAMESPACE, "arn:lakefs:fs:::namespace/mem://lakes/made"),
        ],
    ),
    S3Operation.GET_BUCKET_LOCATION: ("GET", f"{BUCKET}?location", b"", {}, [READ_REPOSITORY]),
    S3Operation.GET_BUCKET_VERSIONING: ("GET", f"{BUCKET}?versioning", b"", {}, [READ_REPOSITORY]),
    S3Operation.GET_BUCKET_ACL: ("GET", f"{BUCKET}?acl", b"", {}, [READ_REPOSITORY]),
    S3Operation.PUT_BUCKET_ACL: (
        "PUT",
        f"{BUCKET}?acl",
        b"",
        PRIVATE,
        [(Action.UPDATE_REPOSITORY, REPOSITORY_ARN)],
    ),
    S3Operation.GET_BUCKET_ACCELERATE: ("GET", f"{BUCKET}?accelerate", b"", {}, [READ_REPOSITORY]),
    S3Operation.GET_BUCKET_ENCRYPTION: ("GET", f"{BUCKET}?encryption", b"", {}, [READ_REPOSITORY]),
    S3Operation.GET_BUCKET_LOGGING: ("GET", f"{BUCKET}?logging", b"", {}, [READ_REPOSITORY]),
    S3Operation.GET_BUCKET_NOTIFICATION: (
        "GET",
        f"{BUCKET}?notification",
        b"",
        {},
        [READ_REPOSITORY],
    ),
    S3Operation.GET_BUCKET_REQUEST_PAYMENT: (
        "GET",
        f"{BUCKET}?requestPayment",
        b"",
        {},
        [READ_REPOSITORY],
    ),
    S3Operation.LIST_OBJECTS: (
        "GET",
        f"{BUCKET}?prefix=main%2F",
        b"",
        {},
        [(Action.LIST_OBJECTS, REPOSITORY_ARN)],
    ),
    S3Operation.LIST_OBJECTS_V2: (
        "GET",
        f"{BUCKET}?list-type=2",
        b"",
        {},
        [(Action.LIST_BRANCHES, REPOSITORY_ARN)],
    ),
    S3Operation.LIST_OBJECT_VERSIONS: (
        "GET",
        f"{BUCKET}?versions&prefix=main%2F",
        b"",
        {},
        [(Action.LIST_OBJECTS, REPOSITORY_ARN), (Action.LIST_COMMITS, REPOSITORY_ARN)],
    ),
    S3Operation.LIST_MULTIPART_UPLOADS: (
        "GET",
        f"{BUCKET}?uploads",
        b"",
        {},
        [(Action.LIST_OBJECTS, REPOSITORY_ARN)],
    ),
    S3Operation.GET_OBJECT: ("GET", KEY, b"", {}, [READ]),
    S3Operation.HEAD_OBJECT: ("HEAD", KEY, b"", {}, [READ]),
    S3Operation.PUT_OBJECT: ("PUT", KEY, b"new", {}, [WRITE]),
    S3Operation.COPY_OBJECT: ("PUT", KEY, b"", SOURCE, [READ, WRITE]),
    S3Operation.DELETE_OBJECT: ("DELETE", KEY, b"", {}, [(Action.DELETE_OBJECT, OBJECT_ARN)]),
    S3Operation.GET_OBJECT_ATTRIBUTES: (
        "GET",
        f"{KEY}?attributes",
        b"",
        {"x-amz-object-attributes": "ETag"},
        [READ],
    ),
    S3Operation.GET_OBJECT_TAGGING: ("GET", f"{KEY}?tagging", b"", {}, [READ]),
    S3Operation.PUT_OBJECT_TAGGING: ("PUT", f"{KEY}?tagging", TAGGING, {}, [WRITE]),
    S3Operation.DELETE_OBJECT_TAGGING: ("DELETE", f"{KEY}?tagging", b"", {}, [WRITE]),
    S3Operation.GET_OBJECT_ACL: ("GET", f"{KEY}?acl", b"", {}, [READ]),
    S3Operation.PUT_OBJECT_ACL: ("PUT", f"{KEY}?acl", b"", PRIVATE, [WRITE]),
    S3Operation.CREATE_MULTIPART_UPLOAD: ("POST", f"{KEY}?uploads", b"", {}, [WRITE]),
    S3Operation.UPLOAD_PART: ("PUT", f"{KEY}?partNumber=2&uploadId=UPLOAD", b"part", {}, [WRITE]),
    S3Operation.UPLOAD_PART_COPY: (
        "PUT",
        f"{KEY}?partNumber=3&uploadId=UPLOAD",
        b"",
        SOURCE,
        [READ, WRITE],
    ),
    S3Operation.LIST_PARTS: ("GET", f"{KEY}?uploadId=UPLOAD", b"", {}, [WRITE]),
    S3Operation.COMPLETE_MULTIPART_UPLOAD: (
        "POST",
        f"{KEY}?uploadId=UPLOAD",
        PARTS,
        {},
        [WRITE],
    ),
    S3Operation.ABORT_MULTIPART_UPLOAD: ("DELETE", f"{KEY}?uploadId=UPLOAD", b"", {}, [WRITE]),
}


@pytest.fixture
def gate() -> Iterator[GatewayClient]:
    with gateway_client(default_namespace_prefix="mem://lakes") as opened:
        assert opened.ask("PUT", KEY, b"old").status == 200
        yield opened


def upload_id(gate: GatewayClient) -> str:
    answer = gate.ask("POST", f"{KEY}?uploads").body.decode()
    found = answer.partition("<UploadId>")[2].partition("<")[0]
    assert gate.ask("PUT", f"{KEY}?partNumber=1&uploadId={found}", b"data").status == 200
    return found


def allow(*needs: Need) -> list[Statement]:
    return [
        Statement(effect=Effect.ALLOW, actions=(action,), resource=resource)
        for action, resource in needs
    ]


def test_every_operation_is_tried() -> None:
    elsewhere = {S3Operation.DELETE_OBJECTS, S3Operation.POST_OBJECT}
    assert CASES.keys() | elsewhere == set(S3Operation)


@pytest.mark.parametrize("operation", CASES, ids=lambda operation: operation.name)
def test_an_operation_needs_its_permissions_and_no_more(
    gate: GatewayClient, operation: S3Operation
) -> None:
    method, target, body, headers, needs = CASES[operation]
    if "UPLOAD" in target:
        target = target.replace("UPLOAD", upload_id(gate))

    def ask(pair: KeyPair) -> int:
        return gate.ask(method, target, body, pair=pair, headers=headers).status

    assert ask(gate.user("nobody")) == 403
    for missing in needs:
        others = [need for need in needs if need != missing]
        if others:
            assert ask(gate.user(f"no-{missing[0].name}", *allow(*others))) == 403
    assert gate.ask("GET", KEY).body == b"old"
    unset = operation is S3Operation.GET_BUCKET_ENCRYPTION  # by the storage in memory
    assert ask(gate.user("somebody", *allow(*needs))) in ({404} if unset else {200, 204})


def test_each_key_of_many_needs_its_own_permission(gate: GatewayClient) -> None:
    gate.ask("PUT", f"{BUCKET}/main/other", b"kept")
    body = DELETE.replace(b"</Delete>", b"<Object><Key>main/other</Key></Object></Delete>")
    pair = gate.user("deleter", *allow((Action.DELETE_OBJECT, OBJECT_ARN)))
    answer = gate.ask("POST", f"{BUCKET}?delete", body, pair=pair).body.decode()
    assert "<Deleted><Key>main/folder/object</Key></Deleted>" in answer
    assert "<Error><Key>main/other</Key><Code>AccessDenied</Code>" in answer
    assert gate.ask("GET", KEY).code == "NoSuchKey"
    assert gate.ask("GET", f"{BUCKET}/main/other").body == b"kept"
