"""Uploads that nobody finishes: the command line shows each of them, and ends it."""

import boto3
import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.api_kit import RawClient, create_repository
from tests.system.cli_kit import CommandLine


def test_unfinished_uploads_are_listed_and_ended(
    sqlite_lakebed: LakebedServer,
    repository_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, uri = sqlite_lakebed, f"lakefs://{repository_name}"
    lakebed = CommandLine(server, monkeypatch, capsys)
    s3 = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
    )
    with RawClient(server) as client:
        create_repository(client, repository_name)
        backing = f"/repositories/{repository_name}/branches/main/staging/backing"
        links = [client.call("GET", backing, path=f"link{n}").json for n in range(3)]
        s3.create_multipart_upload(Bucket=repository_name, Key="main/parts")

        listed = lakebed.json("gc", "uploads", uri)
        assert [(each["kind"], each["path"]) for each in listed] == [
            ("link", "link0"),
            ("link", "link1"),
            ("link", "link2"),
            ("multipart", "parts"),
        ]
        assert [each["physical_address"] for each in listed[:3]] == [
            link["physical_address"] for link in links
        ]
        page = client.call("GET", f"/repositories/{repository_name}/gc/uploads", amount=2).json
        assert page["pagination"]["has_more"]
        assert [each["path"] for each in page["results"]] == ["link0", "link1"]

        code, _, said = lakebed.result("gc", "end-uploads", uri, "--yes")
        assert (code, "or --all" in said) == (2, True)
        assert "Ended 1 " in lakebed("gc", "end-uploads", uri, listed[1]["id"], "--yes")
        error = lakebed.error("gc", "end-uploads", uri, listed[1]["id"], "--yes")
        assert f"no unfinished upload {listed[1]['id']}" in error
        assert "Ended 3 " in lakebed("gc", "end-uploads", uri, "--all", "--yes")
        assert lakebed.json("gc", "uploads", uri) == []
        assert "Uploads" not in s3.list_multipart_uploads(Bucket=repository_name)
    s3.close()
