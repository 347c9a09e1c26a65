"""Every upload that keeps a collection from assuming a quiet repository can be seen and ended."""

from collections.abc import Callable

import pytest

from lakebed.engine.errors import RepositoryNotFound
from lakebed.engine.model import RepositoryID
from lakebed.formats.gc_files import GCFileKind
from lakebed.lake.errors import InvalidLink, MultipartNotFound, UploadNotUnfinished
from tests.kit.lake import MAIN, REPOSITORY, Lake
from tests.kit.unfinished import begin, completed_half, linked_half, open_link, open_multipart
from tests.reclaim.test_gc_prepare import end, prepare_pages, table

KINDS: list[Callable[[Lake], None]] = [open_link, linked_half, open_multipart, completed_half]


def finish_one_of_each(lake: Lake) -> None:
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")
    lake.block.put(given.address, [b"linked"])
    lake.catalog.links.link(REPOSITORY, MAIN, b"linked", given.address, checksum="c")
    target, part = begin(lake, b"completed")
    lake.catalog.completions.complete(target, [part])


def blocking(lake: Lake) -> list[str]:
    """The addresses of the uploads that a preparation shows as open."""
    prepared, _ = prepare_pages(lake)
    rows = table(lake, end(lake, prepared), GCFileKind.UPLOADS).to_pylist()
    return sorted(row["address"] for row in rows if row["open"])


@pytest.mark.parametrize("make", KINDS)
def test_an_upload_whose_life_is_over_does_not_block_a_quiet_run(
    lake: Lake, make: Callable[[Lake], None]
) -> None:
    """Also where no Cleaner removes its record."""
    lake.upload(b"there", "staged")
    make(lake)
    settings = lake.settings
    lives = [settings.link_life_seconds, settings.longest_hold_seconds]
    life = [*lives, *[settings.multipart_life_seconds] * 2][KINDS.index(make)]
    lake.clock.ahead_seconds += life
    assert len(blocking(lake)) == 1
    assert len(list(lake.reclaim.unfinished.list(REPOSITORY))) == 1
    lake.clock.ahead_seconds += settings.longest_request_seconds + settings.skew_seconds + 1
    assert blocking(lake) == []
    assert list(lake.reclaim.unfinished.list(REPOSITORY)) == []


def test_open_uploads_that_block_a_run_are_listed_and_can_be_ended(lake: Lake) -> None:
    lake.upload(b"there", "before")
    finish_one_of_each(lake)
    for make in KINDS * 2:
        make(lake)
    unfinished = lake.reclaim.unfinished
    listed = list(unfinished.list(REPOSITORY))
    assert sorted(str(upload.address) for upload in listed) == blocking(lake)
    assert [upload.kind for upload in listed] == ["link", "link", "multipart", "multipart"] * 2
    assert [upload.begun for upload in listed] == sorted(upload.begun for upload in listed)
    assert list(unfinished.list(REPOSITORY, after=listed[2].id)) == listed[3:]
    for upload in listed:
        unfinished.end(REPOSITORY, upload.id)
        with pytest.raises(UploadNotUnfinished, match=upload.id):
            unfinished.end(REPOSITORY, upload.id)
    assert blocking(lake) == []
    assert list(unfinished.list(REPOSITORY)) == []
    assert list(lake.block.list_uploads(lake.repository.namespace)) == []
    assert lake.text("main", b"linked") == "linked"
    assert lake.text("main", b"completed") == "data"
    assert lake.text("main", b"there") == "before"


def test_ended_uploads_cannot_be_completed(lake: Lake) -> None:
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"a")
    lake.block.put(given.address, [b"data"])
    target, part = begin(lake, b"b")
    for upload in list(lake.reclaim.unfinished.list(REPOSITORY)):
        lake.reclaim.unfinished.end(REPOSITORY, upload.id)
    with pytest.raises(InvalidLink):
        lake.catalog.links.link(REPOSITORY, MAIN, b"a", given.address, checksum="c")
    with pytest.raises(MultipartNotFound):
        lake.catalog.completions.complete(target, [part])
    assert not lake.exists(b"a")
    assert not lake.exists(b"b")


def test_missing_uploads_are_not_ended(lake: Lake) -> None:
    open_multipart(lake)
    for upload_id in ("0", "f" * 36, "../links", "\0"):
        with pytest.raises(UploadNotUnfinished):
            lake.reclaim.unfinished.end(REPOSITORY, upload_id)
    with pytest.raises(RepositoryNotFound):
        lake.reclaim.unfinished.list(RepositoryID("other"))
    assert len(list(lake.reclaim.unfinished.list(REPOSITORY))) == 1
