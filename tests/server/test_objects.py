"""Objects over the API: what clients see in statuses, headers and bodies."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import quoted
from lakebed.block import Address, Between, FromOffset, Suffix
from lakebed.server.http.conditions import matches, requested_range
from tests.server.kit import REPOSITORY, Server, server

ON_MAIN = f"/repositories/{REPOSITORY}/branches/main/objects"
AT_MAIN = f"/repositories/{REPOSITORY}/refs/main/objects"


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        yield found


@pytest.mark.parametrize(
    "path",
    [
        "plain",
        "with space",
        "a+b",
        "100%",
        "per%2Fcent",
        "ünï/ç☃/🎉",
        "//double//",
        "../up",
        "./here",
        "ends/",
        "q?x=1&y#z",
        "'\"<>",
        "x" * 1024,
        "\x7f\x01",
        ".",
    ],
)
def test_a_path_comes_back_as_it_went(world: Server, path: str) -> None:
    world.put(path, path.encode())
    assert world.call("GET", AT_MAIN, params={"path": path}).content == path.encode()
    stat = world.call("GET", f"{AT_MAIN}/stat", params={"path": path}).json
    assert stat["path"] == path
    listed = world.call("GET", f"{AT_MAIN}/ls", params={"prefix": path, "amount": 1}).json
    assert listed["results"][0]["path"] == path
    assert world.call("DELETE", ON_MAIN, params={"path": path}).status_code == 204
    gone = world.call("GET", AT_MAIN, params={"path": path})
    assert (gone.status_code, gone.json["detail"]) == (
        404,
        f"object not found: {quoted(path.encode())}",
    )


@pytest.mark.parametrize(
    ("path", "status"), [("", 400), ("x" * 1025, 400), ("nul\x00", 400), ("x" * 2048, 400)]
)
def test_a_path_that_cannot_be_is_refused(world: Server, path: str, status: int) -> None:
    answer = world.call("POST", ON_MAIN, params={"path": path}, body=b"data")
    assert answer.status_code == status
    assert answer.json["message"]


def test_a_query_that_is_no_utf8_is_refused(world: Server) -> None:
    assert world.call("GET", AT_MAIN, query_string="path=%ff").status_code == 400
    assert world.call("GET", AT_MAIN, query_string="path=%00").status_code == 400


@pytest.mark.parametrize("query", ["prefix=a%00b", "after=%00", "%00=a"])
def test_a_query_with_a_nul_is_refused(world: Server, query: str) -> None:
    answer = world.call(
        "GET", f"/repositories/{REPOSITORY}/refs/main/objects/ls", query_string=query
    )
    assert answer.status_code == 400
    assert "NUL" in answer.json["message"]


def test_objects_are_found_by_a_part_of_their_paths(world: Server) -> None:
    for path in ("sought/Deep/one.csv", "sought/two.CSV", "sought/three.txt"):
        world.put(path)
    where = f"{AT_MAIN}/search"
    first = world.call("GET", where, params={"prefix": "sought/", "text": ".csv", "amount": 1}).json
    (found,) = first["results"]
    assert (found["path"], found["path_type"]) == ("sought/Deep/one.csv", "object")
    assert (found["size_bytes"], "metadata" in found) == (4, False)
    after = {"after": first["pagination"]["next_offset"]}
    rest = world.call("GET", where, params={"prefix": "sought/", "text": ".csv", **after}).json
    assert [each["path"] for each in rest["results"]] == ["sought/two.CSV"]
    assert rest["pagination"]["has_more"] is False
    for text in ("", "x" * 1025):
        assert world.call("GET", where, params={"text": text}).status_code == 400
    assert world.call("GET", where).status_code == 400


def test_an_object_beside_a_folder_of_its_name(world: Server) -> None:
    world.put("twin", b"object")
    world.put("twin/inside", b"inside")
    listed = world.call("GET", f"{AT_MAIN}/ls", params={"prefix": "twin", "delimiter": "/"}).json
    kinds = [(item["path"], item["path_type"]) for item in listed["results"]]
    assert kinds == [("twin", "object"), ("twin/", "common_prefix")]


def test_headers_of_a_download(world: Server) -> None:
    world.put("report.csv", b"0123456789")
    answer = world.call("GET", AT_MAIN, params={"path": "report.csv"})
    assert answer.status_code == 200
    assert answer.headers["etag"] == '"781e5e245d69b566979b86e28d23f2c7"'
    assert answer.headers["last-modified"].endswith("GMT")
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-length"] == "10"
    head = world.call("HEAD", AT_MAIN, params={"path": "report.csv"})
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == "10"
    assert head.headers["etag"] == answer.headers["etag"]


@pytest.mark.parametrize(
    ("wanted", "status", "body", "content_range"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-2", 206, b"89", "bytes 8-9/10"),
        ("bytes=5-100", 206, b"56789", "bytes 5-9/10"),
        ("bytes=-100", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=0-1,3-4", 200, b"0123456789", None),
        ("bytes=3-1", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
    ],
)
def test_ranges(
    world: Server, wanted: str, status: int, body: bytes | None, content_range: str | None
) -> None:
    world.put("digits", b"0123456789")
    answer = world.call("GET", AT_MAIN, params={"path": "digits"}, headers={"Range": wanted})
    assert answer.status_code == status
    assert answer.headers.get("content-range") == content_range
    if body is not None:
        assert answer.content == body
    head = world.call("HEAD", AT_MAIN, params={"path": "digits"}, headers={"Range": wanted})
    assert head.status_code == status


def test_a_download_that_is_known_already(world: Server) -> None:
    world.put("known", b"0123456789")
    etag = world.call("HEAD", AT_MAIN, params={"path": "known"}).headers["etag"]
    for mark, status in ((etag, 304), ('"other"', 200), (f'"other", {etag}', 304), ("*", 304)):
        answer = world.call(
            "GET", AT_MAIN, params={"path": "known"}, headers={"If-None-Match": mark}
        )
        assert answer.status_code == status


def test_conditional_uploads(world: Server) -> None:
    def put(data: bytes, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = world.call(
            "POST", ON_MAIN, params={"path": "conditional"}, body=data, headers=named
        )
        return answer.status_code

    assert put(b"1", If_Match="*") == 412
    assert put(b"1", If_None_Match="*") == 201
    assert put(b"2", If_None_Match="*") == 412
    etag = world.call("HEAD", AT_MAIN, params={"path": "conditional"}).headers["etag"]
    assert put(b"2", If_Match='"wrong"') == 412
    assert put(b"2", If_None_Match=etag) == 412
    assert put(b"2", If_Match=etag) == 201
    assert put(b"3", If_Match=etag) == 412
    assert world.call("GET", AT_MAIN, params={"path": "conditional"}).content == b"2"


def test_upload_by_form_with_metadata(world: Server) -> None:
    boundary = "----lakebed"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="content"; filename="x"\r\n'
        f"Content-Type: text/csv\r\n\r\na,b\r\n--{boundary}--\r\n"
    ).encode()
    answer = world.call(
        "POST",
        ON_MAIN,
        params={"path": "form"},
        body=body,
        headers={
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "X-Lakefs-Meta-Colour": "blue",
            "X-Lakefs-Internal-Part": "7",
        },
    )
    assert answer.status_code == 201
    assert answer.json["size_bytes"] == 3
    assert answer.json["content_type"] == "text/csv"
    assert answer.json["metadata"] == {"colour": "blue", "::lakefs::part": "7"}


@pytest.mark.parametrize("kind", ["text/\N{SNOWMAN}", "text/a\nX-Evil: 1"])
def test_an_object_whose_type_cannot_be_a_header_can_be_read(world: Server, kind: str) -> None:
    form = (
        f'--b\r\nContent-Disposition: form-data; name="content"\r\nContent-Type: {kind}\r\n\r\n'
        "abc\r\n--b--\r\n"
    )
    answer = world.call(
        "POST",
        f"/repositories/{REPOSITORY}/branches/main/objects",
        params={"path": "odd"},
        body=form.encode(),
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert answer.status_code == 201
    for method, text in (("GET", "abc"), ("HEAD", "")):
        read = world.call(
            method, f"/repositories/{REPOSITORY}/refs/main/objects", params={"path": "odd"}
        )
        assert (read.status_code, read.text) == (200, text)
        assert read.headers["Content-Type"] == "application/octet-stream"


def test_an_upload_without_a_type_gets_the_type_of_its_name(world: Server) -> None:
    where = f"/repositories/{REPOSITORY}/branches/main/objects"
    stored = world.call("POST", where, params={"path": "notes/a.ipynb"}, body=b"{}")
    assert stored.json["content_type"] == "application/x-ipynb+json"


def test_a_form_without_its_end_leaves_nothing(world: Server) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="content"\r\n\r\nhalf of it'
    answer = world.call(
        "POST",
        ON_MAIN,
        params={"path": "half"},
        body=body,
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert answer.status_code == 400
    assert world.call("GET", AT_MAIN, params={"path": "half"}).status_code == 404


def test_bulk_delete(world: Server) -> None:
    world.put("bulk/1")
    world.put("bulk/2")
    paths = ["bulk/1", "bulk/2", "bulk/none"]
    answer = world.call("POST", f"{ON_MAIN}/delete", json={"paths": paths})
    assert (answer.status_code, answer.json) == (200, {"errors": []})
    listed = world.call("GET", f"{AT_MAIN}/ls", params={"prefix": "bulk/"}).json
    assert listed["results"] == []
    too_many = [f"x{number}" for number in range(1001)]
    assert world.call("POST", f"{ON_MAIN}/delete", json={"paths": too_many}).status_code == 400


def test_bulk_delete_names_what_it_could_not(world: Server) -> None:
    answer = world.call("POST", f"{ON_MAIN}/delete", json={"paths": ["fine", "x" * 1025]})
    assert answer.status_code == 200
    (error,) = answer.json["errors"]
    assert (error["path"], error["status_code"]) == ("x" * 1025, 400)


def test_listing_by_pages(world: Server) -> None:
    for number in range(7):
        world.put(f"pages/{number}")
    seen, after, pages = [], "", 0
    while True:
        params = {"prefix": "pages/", "after": after, "amount": 3}
        page = world.call("GET", f"{AT_MAIN}/ls", params=params).json
        seen += [item["path"] for item in page["results"]]
        pages += 1
        assert page["pagination"]["results"] == len(page["results"])
        if not page["pagination"]["has_more"]:
            assert page["pagination"]["next_offset"] == ""
            break
        after = page["pagination"]["next_offset"]
    assert (seen, pages) == ([f"pages/{number}" for number in range(7)], 3)


@pytest.mark.parametrize(("amount", "status"), [(0, 200), (-1, 200), (5000, 400), ("many", 400)])
def test_amounts(world: Server, amount: object, status: int) -> None:
    answer = world.call("GET", f"{AT_MAIN}/ls", params={"amount": str(amount)})
    assert answer.status_code == status


def test_copy_and_metadata(world: Server) -> None:
    world.put("original", b"bytes")
    copied = world.call(
        "POST", f"{ON_MAIN}/copy", params={"dest_path": "copy"}, json={"src_path": "original"}
    )
    assert copied.status_code == 201
    assert world.call("GET", AT_MAIN, params={"path": "copy"}).content == b"bytes"
    answer = world.call(
        "PUT", f"{ON_MAIN}/stat/user_metadata", params={"path": "copy"}, json={"set": {"a": "b"}}
    )
    assert answer.status_code == 204
    for shown, expected in (("true", {"a": "b"}), ("false", None)):
        stat = world.call(
            "GET", f"{AT_MAIN}/stat", params={"path": "copy", "user_metadata": shown}
        ).json
        assert stat.get("metadata") == expected


def test_an_address_is_linked_on_a_condition(world: Server) -> None:
    backing = f"/repositories/{REPOSITORY}/branches/main/staging/backing"
    path = {"path": "linked-once"}
    given = world.call("GET", backing, params=path).json["physical_address"]
    world.services.foundation.block.put(Address.parse(given), [b"linked"])
    world.put("linked-once", b"there")

    def link(**headers: str) -> int:
        body = {"staging": {"physical_address": given}, "checksum": "0", "size_bytes": 6}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return world.call("PUT", backing, params=path, json=body, headers=named).status_code

    assert link(If_None_Match="*") == 412
    assert link(If_Match='"other"') == 412
    objects = f"/repositories/{REPOSITORY}/refs/main/objects"
    assert world.call("GET", objects, params=path).content == b"there"
    assert link(If_Match="*") == 200


def test_an_object_elsewhere_is_staged_on_a_condition(world: Server) -> None:
    world.put("elsewhere", b"there")
    at = f"/repositories/{REPOSITORY}/branches/main/objects"
    body = {"physical_address": "mem://other/x", "checksum": "0", "size_bytes": 1}

    def stage(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path = {"path": "elsewhere"}
        return world.call("PUT", at, params=path, json=body, headers=named).status_code

    assert stage(If_None_Match="*") == 412
    assert stage(If_Match='"other"') == 412
    objects = f"/repositories/{REPOSITORY}/refs/main/objects"
    assert world.call("GET", objects, params={"path": "elsewhere"}).content == b"there"
    assert stage(If_Match="*") == 201


def test_staging_by_address(world: Server) -> None:
    backing = f"/repositories/{REPOSITORY}/branches/main/staging/backing"
    given_out = world.call("GET", backing, params={"path": "linked"}).json
    foreign = world.call(
        "PUT",
        backing,
        params={"path": "linked"},
        json={
            "staging": {"physical_address": "mem://lakes/lake/elsewhere"},
            "checksum": "0",
            "size_bytes": 1,
        },
    )
    assert foreign.status_code == 400
    inside = world.call(
        "PUT",
        ON_MAIN,
        params={"path": "linked"},
        json={
            "physical_address": given_out["physical_address"],
            "checksum": "0",
            "size_bytes": 1,
        },
    )
    assert inside.status_code == 400
    assert world.call("GET", AT_MAIN, params={"path": "linked"}).status_code == 404


@given(st.text(alphabet="bytes=0123456789-, *abc", max_size=40))
def test_any_range_header_is_read_or_ignored(header: str) -> None:
    found = requested_range(header)
    assert found is None or isinstance(found, Between | FromOffset | Suffix)


@given(st.lists(st.text(alphabet="0123456789abcdef", min_size=1, max_size=8)), st.data())
def test_etag_lists(marks: list[str], data: st.DataObject) -> None:
    header = ", ".join(f'"{mark}"' for mark in marks)
    checksum = data.draw(st.sampled_from([*marks, "none"]))
    assert matches(header, checksum) == (checksum in marks)


def test_no_paths_at_all_are_deleted(world: Server) -> None:
    answer = world.call("POST", f"{ON_MAIN}/delete", json={"paths": []})
    assert (answer.status_code, answer.json) == (200, {"errors": []})


FIRST, LAST = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999


@pytest.mark.parametrize(
    ("mtime", "size", "status"),
    [
        (FIRST, 0, 201),
        (LAST, (1 << 63) - 1, 201),
        (FIRST - 1, 0, 400),
        (LAST + 1, 0, 400),
        (1 << 80, 0, 400),
        (0, -1, 400),
        (0, 1 << 63, 400),
    ],
)
def test_a_time_or_a_size_that_cannot_be_is_refused(
    world: Server, mtime: int, size: int, status: int
) -> None:
    body = {"physical_address": "mem://aside/x", "checksum": "00", "size_bytes": size}
    staged = world.call("PUT", ON_MAIN, params={"path": "at"}, json={**body, "mtime": mtime})
    assert staged.status_code == status, staged.text
    if status == 201:
        stat = world.call("GET", f"{AT_MAIN}/stat", params={"path": "at"}).json
        assert (stat["mtime"], stat.get("size_bytes")) == (mtime, size)


@pytest.mark.parametrize(
    ("date", "status"), [(FIRST, 201), (LAST, 201), (FIRST - 1, 400), (1 << 62, 400)]
)
def test_a_commit_of_a_time_that_cannot_be_is_refused(
    world: Server, date: int, status: int
) -> None:
    at = f"/repositories/{REPOSITORY}/branches/main/commits"
    body = {"message": "m", "date": date, "allow_empty": True}
    made = world.call("POST", at, json=body)
    assert made.status_code == status, made.text
    if status == 201:
        log = world.call("GET", f"/repositories/{REPOSITORY}/refs/main/commits").json
        assert log["results"][0]["creation_date"] == date
