"""ETags of imported objects: local storage names no MD5, so they are derived."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from tests.server.kit import Server, server
from tests.server.s3.gateway_client import GatewayClient

BRANCHES = "/repositories/lake/branches"
OBJECTS = "/repositories/lake/refs/main/objects"
MD5 = re.compile("[0-9a-f]{32}(-[0-9]+)?")


class Imported:
    """A server whose branch main has what lies in a folder."""

    def __init__(self, api: Server, folder: Path) -> None:
        self.api = api
        self.s3 = GatewayClient(api.services)
        self.folder = folder
        folder.mkdir()
        for name in ("one", "two"):
            (folder / name).write_text("same size")
        self.import_all()

    def import_all(self) -> None:
        source = {"path": "local://old-lake/", "destination": "in/", "type": "common_prefix"}
        body = {"paths": [source], "commit": {"message": "import"}}
        started = self.api.call("POST", f"{BRANCHES}/main/import", json=body)
        assert started.status_code == 202, started.text
        status = self.api.call("GET", f"{BRANCHES}/main/import", params={"id": started.json["id"]})
        assert status.json["completed"], status.text

    def get(self, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        found = self.api.call("GET", OBJECTS, params={"path": "in/one"}, headers=named)
        assert self.s3.ask("GET", "/lake/main/in/one", headers=named).status == found.status_code
        return found.status_code

    def etag(self, path: str = "in/one", ref: str = "main") -> str:
        """Return the ETag of an object: the same wherever it is shown."""
        at_ref = f"/repositories/lake/refs/{ref}/objects"
        head = self.api.call("HEAD", at_ref, params={"path": path}).headers["etag"]
        stat = self.api.call("GET", f"{at_ref}/stat", params={"path": path}).json["checksum"]
        listed = self.api.call("GET", f"{at_ref}/ls", params={"prefix": path}).json["results"]
        over_s3 = self.s3.ask("HEAD", f"/lake/{ref}/{path}").headers["etag"]
        listing = f"/lake?prefix={quote(f'{ref}/{path}', safe='')}"
        page = ET.fromstring(self.s3.ask("GET", listing).body)
        in_page = page.findtext("{*}Contents/{*}ETag")
        assert {head, f'"{stat}"', f'"{listed[0]["checksum"]}"', over_s3, in_page} == {head}
        return head


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Imported]:
    local = {"blockstore__type": "local", "blockstore__local__root": str(tmp_path)}
    with server(**local) as api:
        yield Imported(api, tmp_path / "old-lake")


def test_each_imported_object_has_an_etag_of_its_own(lake: Imported) -> None:
    one, two = lake.etag("in/one").strip('"'), lake.etag("in/two").strip('"')
    assert one != two
    assert one
    assert not MD5.fullmatch(one)
    assert "-" in one  # else older SDKs for Java take it for the MD5 of the bytes


def test_uploaded_objects_keep_their_md5_beside_imported_ones(lake: Imported) -> None:
    lake.api.put("in/three", b"0123456789")
    assert lake.etag("in/three") == '"781e5e245d69b566979b86e28d23f2c7"'
    listed = lake.api.call("GET", f"{OBJECTS}/ls").json["results"]
    assert [f'"{item["checksum"]}"' for item in listed] == [
        lake.etag("in/one"),
        lake.etag("in/three"),
        lake.etag("in/two"),
    ]


def test_an_object_that_is_imported_again_has_another_etag(lake: Imported) -> None:
    before = lake.etag()
    assert lake.get(If_None_Match=before) == 304
    (lake.folder / "one").write_text("same SIZE")
    lake.import_all()
    assert lake.etag() != before
    assert lake.etag(ref="main~1") == before
    assert lake.etag("in/two") == lake.etag("in/two", ref="main~1")
    assert lake.get(If_None_Match=before) == 200
    assert lake.get(If_None_Match='""') == 200


def test_an_object_that_changed_since_its_import_is_gone_with_conditions_too(
    lake: Imported,
) -> None:
    etag = lake.etag()
    (lake.folder / "one").write_text("other")
    assert lake.get() == 410
    assert lake.get(If_None_Match=etag) == 410
    assert lake.get(If_None_Match="*") == 410
    assert lake.get(If_None_Match='"other"') == 410


def test_conditional_writes_over_an_imported_object(lake: Imported) -> None:
    etag = lake.etag()

    def put(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = lake.api.call(
            "POST", f"{BRANCHES}/main/objects", params={"path": "in/one"}, headers=named, body=b"x"
        )
        return answer.status_code

    assert put(If_Match='""') == 412
    assert put(If_None_Match=etag) == 412
    assert put(If_Match=etag) == 201


def test_copies_over_s3_compare_the_etag_of_an_imported_source(lake: Imported) -> None:
    def copy(mark: str) -> int:
        headers = {
            "x-amz-copy-source": "/lake/main/in/one",
            "x-amz-copy-source-if-match": mark,
        }
        return lake.s3.ask("PUT", "/lake/main/copied", headers=headers).status

    assert copy('""') == 412
    assert copy(lake.etag()) == 200


def test_the_first_part_of_an_imported_object_is_all_of_it(lake: Imported) -> None:
    part = lake.s3.ask("GET", "/lake/main/in/one?partNumber=1")
    assert (part.status, part.body) == (206, b"same size")


def test_listings_give_no_urls_of_imported_objects(lake: Imported) -> None:
    """Such a URL would read other bytes, once the object at the place has changed."""
    lake.api.put("in/three", b"0123456789")
    listed = lake.api.call("GET", f"{OBJECTS}/ls", params={"presign": "true"}).json["results"]
    with_url = [item["path"] for item in listed if item.get("physical_address_expiry")]
    assert with_url == ["in/three"]
    assert listed[0]["physical_address"] == "local://old-lake/one"
    (lake.folder / "one").write_text("other")
    asked = {"path": "in/one", "presign": "true"}
    assert lake.api.call("GET", f"{OBJECTS}/stat", params=asked).status_code == 410
