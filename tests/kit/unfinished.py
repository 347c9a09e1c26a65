"""Uploads that were begun and not finished, of every kind."""

import pytest

from lakebed.engine.errors import PreconditionFailed
from lakebed.engine.staging.writer import Condition, if_absent
from lakebed.formats import Entry
from lakebed.lake.errors import MultipartNotFound
from lakebed.lake.multipart.records import NamedPart, Target
from tests.kit.lake import MAIN, REPOSITORY, Lake


def open_link(lake: Lake) -> None:
    lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"never linked")


def linked_half(lake: Lake) -> None:
    """A link that was decided, and not staged."""
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"there")
    lake.block.put(given.address, [b"data"])
    with pytest.raises(PreconditionFailed):
        lake.catalog.links.link(
            REPOSITORY, MAIN, b"there", given.address, checksum="c", condition=if_absent
        )


def begin(lake: Lake, path: bytes) -> tuple[Target, NamedPart]:
    upload_id = lake.catalog.multiparts.create(REPOSITORY, MAIN, path).id
    target = Target(REPOSITORY, MAIN, path, upload_id)
    part = lake.catalog.multiparts.put_part(target, 1, [b"data"], size=4)
    return target, NamedPart(1, part.md5)


def open_multipart(lake: Lake) -> None:
    begin(lake, b"never completed")


def completed_half(lake: Lake) -> None:
    """A multipart upload that was decided, and not staged."""
    target, part = begin(lake, b"there")
    with pytest.raises(PreconditionFailed):
        lake.catalog.completions.complete(target, [part], condition=first_only())
    with pytest.raises(MultipartNotFound):
        lake.catalog.multiparts.abort(target)


def first_only() -> Condition:
    """A condition that holds before the decision, and not after it."""
    answers = iter([True])

    def holds(_found: Entry | None) -> bool:
        return next(answers, False)

    return holds
