"""Checks of multipart uploads, for drivers that store or check the parts themselves."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lakebed.block.errors import InvalidArgument, InvalidPart
from lakebed.block.store import PART_NUMBER_MAX, Part, PartInfo


def check_part_number(number: int) -> None:
    """Raise `InvalidArgument` unless the number is in 1 to `PART_NUMBER_MAX`."""
    if not 1 <= number <= PART_NUMBER_MAX:
        raise InvalidArgument(f"the part number must be 1 to {PART_NUMBER_MAX}, not {number}")


def check_order(named: Sequence[Part]) -> None:
    """Raise `InvalidPart` if no part is given or the part numbers do not ascend."""
    if not named:
        raise InvalidPart("completing an upload needs at least one part")
    for before, after in pairwise(named):
        if before.number >= after.number:
            raise InvalidPart(f"part {after.number} is listed after part {before.number}")


def check_parts(named: Sequence[Part], stored: Mapping[int, PartInfo]) -> None:
    """Raise `InvalidPart` as `check_order`, or if a part is not stored with its ETag."""
    check_order(named)
    for part in named:
        if part.number not in stored:
            raise InvalidPart(f"part {part.number} was not uploaded")
        if stored[part.number].etag != part.etag:
            raise InvalidPart(f"part {part.number} was uploaded with another ETag than {part.etag}")
