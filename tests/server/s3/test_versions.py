"""Versions of objects in requests and answers of S3."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5
from typing import Any
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

import pytest

from lakebed.auth import Action, Effect, Statement
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID
from tests.server.kit import REPOSITORY
from tests.server.s3.gateway_client import Answer, GatewayClient, gateway_client

BUCKET = f"/{REPOSITORY}"
KEY = f"{BUCKET}/main/dir/a"
LISTING = f"{BUCKET}?versions&prefix=main%2F"
NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
MAIN = BranchID("main")


@dataclass
class Histories:
    """A gateway, and the commits of ``dir/a``: made, changed, removed."""

    gate: GatewayClient
    empty: str
    made: str
    changed: str
    removed: str


def commit(gate: GatewayClient) -> str:
    request = CommitRequest(committer="ann", message="change", allow_empty=True)
    commits = gate.services.catalog.commits
    return commits.commit(RepositoryID(REPOSITORY), MAIN, request).commit.id


@pytest.fixture(scope="module")
def history() -> Iterator[Histories]:
    with gateway_client() as gate:
        ids = [commit(gate)]
        for body in [b"one", b"two!"]:
            assert gate.ask("PUT", KEY, body).status == 200
            ids.append(commit(gate))
        assert gate.ask("DELETE", KEY).status == 204
        assert gate.ask("PUT", f"{BUCKET}/main/b%20b", b"b").status == 200
        ids.append(commit(gate))
        assert gate.ask("PUT", KEY, b"three").status == 200
        assert gate.ask("DELETE", f"{BUCKET}/main/b%20b").status == 204
        yield Histories(gate, *ids)


def listed(answer: Answer) -> ET.Element:
    assert answer.status == 200, answer.body
    root = ET.fromstring(answer.body)
    for each in root.iter():
        each.tag = each.tag.removeprefix(NAMESPACE)
    assert root.tag == "ListVersionsResult"
    return root


def items(root: ET.Element) -> list[tuple[str, str, str, str]]:
    """Kind, key, version and whether it is the latest."""
    return [
        (each.tag, each.findtext("Key", ""), each.findtext("VersionId", ""), latest)
        for each in root
        if (latest := each.findtext("IsLatest")) is not None
    ]


def test_a_listing(history: Histories) -> None:
    root = listed(history.gate.ask("GET", LISTING))
    assert items(root) == [
        ("DeleteMarker", "main/b b", "null", "true"),
        ("Version", "main/b b", history.removed, "false"),
        ("Version", "main/dir/a", "null", "true"),
        ("DeleteMarker", "main/dir/a", history.removed, "false"),
        ("Version", "main/dir/a", history.changed, "false"),
        ("Version", "main/dir/a", history.made, "false"),
    ]
    assert root.findtext("IsTruncated") == "false"
    version = root.findall("Version")[2]
    assert version.findtext("Size") == "4"
    assert version.findtext("ETag") == f'"{md5(b"two!").hexdigest()}"'
    assert version.findtext("StorageClass") == "STANDARD"
    assert version.findtext("Owner/ID") == "admin"
    dates = [
        datetime.fromisoformat(each.findtext("LastModified", ""))
        for each in root
        if each.findtext("Key") == "main/dir/a"
    ]
    assert dates == sorted(dates, reverse=True)


def items_and_prefixes(root: ET.Element) -> list[list[str | None]]:
    """The texts of all items but their times: uncommitted deletions have that of the request."""
    found = [each for each in root if len(each)]
    return [[one.text for one in each if one.tag != "LastModified"] for each in found]


@pytest.mark.parametrize("extra", ["", "&delimiter=%2F", "&encoding-type=url"])
def test_pages_end_where_the_next_begin(history: Histories, extra: str) -> None:
    whole = listed(history.gate.ask("GET", LISTING + extra))
    expected = items_and_prefixes(whole)
    found: list[list[str | None]] = []
    markers = ""
    while True:
        page = listed(history.gate.ask("GET", f"{LISTING}{extra}&max-keys=1{markers}"))
        new = items_and_prefixes(page)
        assert len(new) == 1
        found += new
        if page.findtext("IsTruncated") == "false":
            break
        key, version = page.findtext("NextKeyMarker"), page.findtext("NextVersionIdMarker", "")
        assert key
        key = unquote(key) if "encoding-type" in extra else key
        markers = f"&key-marker={quote(key, safe='')}&version-id-marker={version}"
    assert found == expected


def test_places_beside_the_ref(history: Histories) -> None:
    gate = history.gate
    assert items(listed(gate.ask("GET", f"{LISTING}&key-marker=zzz"))) == []
    assert len(items(listed(gate.ask("GET", f"{LISTING}&key-marker=a&version-id-marker=x")))) == 6
    assert items(listed(gate.ask("GET", f"{LISTING}&max-keys=0"))) == []
    branches = listed(gate.ask("GET", f"{BUCKET}?versions&delimiter=%2F"))
    assert [each.text for each in branches.findall("CommonPrefixes/Prefix")] == ["main/"]
    at_tag = listed(gate.ask("GET", f"{BUCKET}?versions&prefix={history.changed}%2F"))
    assert [item[2] for item in items(at_tag)] == [history.changed, history.made]
    assert gate.ask("GET", f"{BUCKET}?versions&prefix=none%2F").code == "NoSuchBucket"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_read_of_a_version(history: Histories, method: str) -> None:
    gate = history.gate
    answer = gate.ask(method, f"{KEY}?versionId={history.made}")
    assert (answer.status, answer.headers["content-length"]) == (200, "3")
    assert answer.headers["x-amz-version-id"] == history.made
    for target in [KEY, f"{KEY}?versionId=null"]:
        answer = gate.ask(method, target)
        assert (answer.status, answer.headers["content-length"]) == (200, "5")
        # The commit that changed it last is not known, or there is none.
        assert "x-amz-version-id" not in answer.headers
    for missing in [history.empty, history.removed, "0" * 64]:
        answer = gate.ask(method, f"{KEY}?versionId={missing}")
        assert answer.status == 404
        assert method == "HEAD" or answer.code == "NoSuchVersion"
    for wrong in ["", "main", history.made[:10]]:
        answer = gate.ask(method, f"{KEY}?versionId={wrong}")
        assert answer.status == 400
        assert method == "HEAD" or answer.code == "InvalidArgument"


def test_a_missing_version_is_no_damage(
    history: Histories, caplog: pytest.LogCaptureFixture
) -> None:
    assert history.gate.ask("GET", f"{KEY}?versionId={history.empty}").code == "NoSuchVersion"
    assert "bytes of an object are missing" not in caplog.text


def test_attributes_and_tags_of_a_version(history: Histories) -> None:
    headers = {"x-amz-object-attributes": "ObjectSize"}
    target = f"{KEY}?attributes&versionId={history.made}"
    answer = history.gate.ask("GET", target, headers=headers)
    assert b"<ObjectSize>3</ObjectSize>" in answer.body
    assert answer.headers["x-amz-version-id"] == history.made
    assert history.gate.ask("GET", f"{KEY}?tagging&versionId={history.made}").status == 200
    assert history.gate.ask("GET", f"{KEY}?acl&versionId={history.empty}").code == "NoSuchVersion"


def test_a_copy_of_a_version(history: Histories) -> None:
    gate = history.gate
    source = {"x-amz-copy-source": f"{REPOSITORY}/main/dir/a?versionId={history.made}"}
    answer = gate.ask("PUT", f"{BUCKET}/main/copy", headers=source)
    assert answer.status == 200
    assert answer.headers["x-amz-copy-source-version-id"] == history.made
    assert gate.ask("GET", f"{BUCKET}/main/copy").body == b"one"
    upload = gate.ask("POST", f"{BUCKET}/main/parts?uploads").body.decode()
    upload_id = upload.partition("<UploadId>")[2].partition("<")[0]
    part = f"{BUCKET}/main/parts?partNumber=1&uploadId={upload_id}"
    assert gate.ask("PUT", part, headers=source).headers["x-amz-copy-source-version-id"]
    missing = {"x-amz-copy-source": f"{REPOSITORY}/main/dir/a?versionId={history.empty}"}
    for target in [f"{BUCKET}/main/copy2", part]:
        assert gate.ask("PUT", target, headers=missing).code == "NoSuchVersion"
    assert gate.ask("DELETE", part).status == 204
    assert gate.ask("DELETE", f"{BUCKET}/main/copy").status == 204


def test_versions_are_not_deleted(history: Histories) -> None:
    gate = history.gate
    answer = gate.ask("DELETE", f"{KEY}?versionId={history.made}")
    assert (answer.status, answer.code) == (405, "MethodNotAllowed")
    assert b"delete the object without a version id" in answer.body
    body = (
        "<Delete><Object><Key>main/dir/a</Key></Object><Object><Key>main/dir/a</Key>"
        f"<VersionId>{history.made}</VersionId></Object></Delete>"
    ).encode()
    assert gate.ask("POST", f"{BUCKET}?delete", body).code == "MethodNotAllowed"
    assert gate.ask("GET", KEY).body == b"three"
    assert gate.ask("PUT", f"{BUCKET}/main/gone", b"x").status == 200
    assert gate.ask("DELETE", f"{BUCKET}/main/gone?versionId=null").status == 204
    assert gate.ask("GET", f"{BUCKET}/main/gone").status == 404


def test_a_version_needs_the_permission_to_read_its_object(history: Histories) -> None:
    gate = history.gate
    arn = f"arn:lakefs:fs:::repository/{REPOSITORY}/object/b b"
    statement = Statement(effect=Effect.ALLOW, actions=(Action.READ_OBJECT,), resource=arn)
    pair = gate.user("reader", statement)

    def ask(target: str, **options: Any) -> Answer:
        return gate.ask("GET", target, pair=pair, **options)

    assert ask(f"{BUCKET}/main/b%20b?versionId={history.removed}").body == b"b"
    assert ask(f"{KEY}?versionId={history.made}").code == "AccessDenied"
    assert ask(f"{KEY}?versionId={history.empty}").code == "AccessDenied"
    assert ask(LISTING).code == "AccessDenied"
