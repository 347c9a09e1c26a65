"""Uploads whose parts go to the storage by presigned URLs, past the server."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlsplit

import pytest

from lakebed.block import PART_BYTES_MAX, Address, ETag, NotSupported, UploadNotFound
from lakebed.engine.errors import BranchNotFound
from lakebed.engine.model import BranchID
from lakebed.lake.catalog import Catalog
from lakebed.lake.errors import (
    InvalidMetadata,
    InvalidParts,
    MultipartNotFound,
    PartMissing,
    PartTooSmall,
    WrongAddress,
)
from lakebed.lake.multipart.complete import PART_BYTES_MIN
from lakebed.lake.multipart.records import NamedPart, Target, etag_of_storage_etags
from lakebed.server.http.presigned import PART_PATH, URLSigner
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake

SIGNER = URLSigner(b"key")
FIRST = b"1" * PART_BYTES_MIN
LAST = b"end"
PATH = b"a"


@dataclass
class Begun:
    """An upload, its URLs, and the catalog that it was begun by."""

    catalog: Catalog
    lake: Lake
    target: Target
    urls: list[str]

    def send(self, url: str, data: bytes) -> NamedPart:
        """Do what the server does for the holder of a URL."""
        token = urlsplit(url).path.removeprefix(PART_PATH)
        opened = SIGNER.open_part(token, self.lake.clock.now())
        part = self.lake.block.put_part(*opened, [data], size=len(data))
        return NamedPart(opened.number, part.etag)


def begin(lake: Lake, parts: int = 2) -> Begun:
    engine, store, block = lake.engine, lake.store, lake.block
    catalog = Catalog(engine, store, block, lake.clock, lake.settings, signer=SIGNER)
    upload = catalog.presigned_uploads.create(REPOSITORY, MAIN, PATH, parts=parts)
    target = Target(REPOSITORY, MAIN, PATH, upload.id, upload.address)
    return Begun(catalog, lake, target, [each.url for each in upload.urls])


def send_all(begun: Begun) -> list[NamedPart]:
    return [begun.send(url, data) for url, data in zip(begun.urls, (FIRST, LAST), strict=True)]


def test_parts_become_an_object(lake: Lake) -> None:
    begun = begin(lake)
    named = send_all(begun)
    complete = partial(begun.catalog.completions.complete, begun.target, named)
    stats = complete(content_type="t/t", metadata={"k": "v"})
    assert lake.bytes_of(REPOSITORY, "main", PATH) == FIRST + LAST
    inner = b"".join(hashlib.md5(body).digest() for body in (FIRST, LAST))
    assert stats.checksum == f"{hashlib.md5(inner).hexdigest()}-2"
    assert (stats.content_type, stats.metadata) == ("t/t", {"k": "v"})
    assert stats.address == begun.target.address
    # A repeat says the same and changes nothing, whatever became of the path.
    lake.upload(PATH, "newer")
    assert complete(content_type="t/t", metadata={"k": "v"}) == stats
    assert lake.text("main", PATH) == "newer"
    for other in ({"content_type": "t/u"}, {"metadata": {"k": "w"}}):
        with pytest.raises(MultipartNotFound):
            complete(**{"content_type": "t/t", "metadata": {"k": "v"}} | other)  # type: ignore[arg-type]


def test_an_upload_without_urls_gets_them_one_by_one(lake: Lake) -> None:
    begun = begin(lake, parts=0)
    assert begun.urls == []
    url = begun.catalog.presigned_uploads.presign_part(begun.target, 7).url
    begun.send(url, b"old")
    named = begun.send(url, b"new")
    begun.catalog.completions.complete(begun.target, [named])
    assert lake.text("main", PATH) == "new"


@pytest.mark.parametrize("parts", [-1, 10_001])
def test_an_upload_has_not_more_parts_than_allowed(lake: Lake, parts: int) -> None:
    with pytest.raises(InvalidParts, match=f"not {parts}"):
        begin(lake, parts=parts)
    assert list(lake.reclaim.unfinished.list(REPOSITORY)) == []


def calls(begun: Begun, target: Target) -> list[Callable[[], object]]:
    """All that one can ask of an upload."""
    named = [NamedPart(1, hashlib.md5(LAST).hexdigest())]
    catalog = begun.catalog
    return [
        lambda: catalog.presigned_uploads.presign_part(target, 1),
        lambda: catalog.multiparts.put_presigned_part(target, 1, [b"x"], size=1),
        lambda: catalog.completions.complete(target, named),
        lambda: catalog.multiparts.abort(target),
    ]


def test_an_upload_is_for_one_path_one_branch_and_one_address(lake: Lake) -> None:
    begun = begin(lake, parts=1)
    begun.send(begun.urls[0], LAST)
    target = begun.target
    assert target.address is not None
    beside = Address(target.address.store, target.address.path + "x")
    wrong: list[tuple[Target, type[Exception]]] = [
        (replace(target, address=beside), WrongAddress),
        (replace(target, path=b"b"), MultipartNotFound),
        (replace(target, branch=DEV), MultipartNotFound),
        # Nor is it one of S3's: its parts have no records.
        (replace(target, address=None), MultipartNotFound),
    ]
    for other, error in wrong:
        for call in calls(begun, other):
            with pytest.raises(error):
                call()
    assert not lake.exists(PATH)
    assert list(begun.catalog.multiparts.list_open(REPOSITORY)) == []
    (unfinished,) = begun.lake.reclaim.unfinished.list(REPOSITORY)
    assert unfinished.address == target.address, "a collection knows of it"
    begun.catalog.completions.complete(target, [NamedPart(1, hashlib.md5(LAST).hexdigest())])
    assert lake.text("main", PATH) == "end"


def test_an_upload_of_s3_takes_no_presigned_parts(lake: Lake) -> None:
    begun = begin(lake)
    upload = lake.catalog.multiparts.create(REPOSITORY, MAIN, PATH)
    for call in calls(begun, Target(REPOSITORY, MAIN, PATH, upload.id, upload.address)):
        with pytest.raises(MultipartNotFound):
            call()


@pytest.mark.parametrize("ending", ["abort", "complete"])
def test_late_parts_do_not_revive_an_upload(lake: Lake, ending: str) -> None:
    begun = begin(lake, parts=1)
    named = begun.send(begun.urls[0], LAST)
    if ending == "abort":
        begun.catalog.multiparts.abort(begun.target)
    else:
        begun.catalog.completions.complete(begun.target, [named])
    with pytest.raises(UploadNotFound):
        begun.send(begun.urls[0], b"late")
    late = NamedPart(1, hashlib.md5(b"late").hexdigest())
    for call in (
        lambda: begun.catalog.presigned_uploads.presign_part(begun.target, 1),
        lambda: begun.catalog.completions.complete(begun.target, [late]),
        lambda: begun.catalog.multiparts.abort(begun.target),
    ):
        with pytest.raises(MultipartNotFound):
            call()
    assert lake.exists(PATH) == (ending == "complete")
    if ending == "complete":
        assert lake.text("main", PATH) == "end"
    assert list(lake.block.list_uploads(lake.repository.namespace)) == []


def test_a_part_that_changes_behind_the_decision_opens_the_upload_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin(lake, parts=1)
    named = begun.send(begun.urls[0], LAST)
    join = lake.block.complete_upload

    def late(*arguments: object) -> object:
        begun.send(begun.urls[0], b"END")
        return join(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(lake.block, "complete_upload", late)
    with pytest.raises(PartMissing, match="uploaded again"):
        begun.catalog.completions.complete(begun.target, [named])
    monkeypatch.undo()
    with pytest.raises(PartMissing):
        begun.catalog.completions.complete(begun.target, [named])
    newer = NamedPart(1, hashlib.md5(b"END").hexdigest())
    begun.catalog.completions.complete(begun.target, [newer])
    assert lake.text("main", PATH) == "END"


def test_incomplete_uploads_are_refused(lake: Lake) -> None:
    begun = begin(lake)
    small = [begun.send(url, LAST) for url in begun.urls]
    complete = partial(begun.catalog.completions.complete, begun.target)
    with pytest.raises(PartTooSmall):
        complete(small)
    with pytest.raises(PartMissing):
        complete([NamedPart(3, small[0].md5)])
    with pytest.raises(InvalidParts):
        complete([])
    with pytest.raises(InvalidMetadata):
        complete(small[:1], content_type="t\n")
    assert not lake.exists(PATH)
    complete(small[:1])


def test_parts_are_bounded(lake: Lake) -> None:
    begun = begin(lake)
    for number in (0, 10_001):
        with pytest.raises(InvalidParts):
            begun.catalog.presigned_uploads.presign_part(begun.target, number)
    with pytest.raises(InvalidParts, match="at most"):
        begun.catalog.multiparts.put_presigned_part(
            begun.target, 1, iter([]), size=PART_BYTES_MAX + 1
        )


def test_an_upload_needs_a_branch_and_somebody_who_signs(lake: Lake) -> None:
    begun = begin(lake)
    with pytest.raises(BranchNotFound):
        begun.catalog.presigned_uploads.create(REPOSITORY, BranchID("none"), PATH, parts=1)
    with pytest.raises(NotSupported):
        lake.catalog.presigned_uploads.create(REPOSITORY, MAIN, PATH, parts=1)
    assert not lake.catalog.presigning.parts_supported
    assert len(list(lake.reclaim.unfinished.list(REPOSITORY))) == 1


def test_marks_of_parts_need_not_be_hashes() -> None:
    opaque = [NamedPart(1, ETag("aZ-9")), NamedPart(2, ETag("/+x"))]
    assert etag_of_storage_etags(opaque) != etag_of_storage_etags(opaque[::-1])
    assert etag_of_storage_etags(opaque).endswith("-2")
