"""The rules of multipart uploads, for drivers that keep or check the parts themselves."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lakebed.block.errors import InvalidArgument, InvalidPart
from lakebed.block.store import PART_NUMBER_MAX, Part, PartInfo


def check_part_number(number: int) -> None:
    """Refuse what cannot be the number of a part.

    Raises:
        InvalidArgument: It is not within 1 to `PART_NUMBER_MAX`.
    """
    if not 1 <= number <= PART_NUMBER_MAX:
        raise InvalidArgument(f"parts are numbered from 1 to {PART_NUMBER_MAX}, not {number}")


def check_order(named: Sequence[Part]) -> None:
    """Refuse to complete an upload with no parts, or with parts that are out of order.

    Raises:
        InvalidPart: Numbers do not ascend, or none is named.
    """
    if not named:
        raise InvalidPart("an upload is completed with at least one part")
    for before, after in pairwise(named):
        if before.number >= after.number:
            raise InvalidPart(f"part {after.number} is named after part {before.number}")


def check_parts(named: Sequence[Part], stored: Mapping[int, PartInfo]) -> None:
    """Refuse to complete an upload with parts that it does not have.

    Raises:
        InvalidPart: A part is not stored with that ETag, numbers do not ascend, or none is named.
    """
    check_order(named)
    for part in named:
        if part.number not in stored:
            raise InvalidPart(f"part {part.number} was not uploaded")
        if stored[part.number].etag != part.etag:
            raise InvalidPart(f"part {part.number} was uploaded with another ETag than {part.etag}")
