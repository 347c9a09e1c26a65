"""The rules of multipart uploads, for drivers that keep or check the parts themselves."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lakebed.block.adapter import PART_NUMBER_MAX, Part, PartInfo
from lakebed.block.errors import InvalidArgument, InvalidPart


def check_part_number(number: int) -> None:
    """Refuse what cannot be the number of a part.

    Raises:
        InvalidArgument: It is not within 1 to `PART_NUMBER_MAX`.
    """
    if not 1 <= number <= PART_NUMBER_MAX:
        raise InvalidArgument(f"parts are numbered from 1 to {PART_NUMBER_MAX}, not {number}")


def check_parts(named: Sequence[Part], stored: Mapping[int, PartInfo]) -> None:
    """Refuse to complete an upload with parts that it does not have.

    Raises:
        InvalidPart: A part is not stored with that ETag, numbers do not ascend, or none is named.
    """
    if not named:
        raise InvalidPart("an upload is completed with at least one part")
    for part in named:
        if part.number not in stored:
            raise InvalidPart(f"part {part.number} was not uploaded")
        if stored[part.number].etag != part.etag:
            raise InvalidPart(f"part {part.number} was uploaded with another ETag than {part.etag}")
    for before, after in pairwise(named):
        if before.number >= after.number:
            raise InvalidPart(f"part {after.number} is named after part {before.number}")


def check_sizes(parts: Sequence[PartInfo], part_bytes_min: int) -> None:
    """Refuse to complete an upload with parts that are too small.

    Raises:
        InvalidPart: A part that is not the last has fewer than `part_bytes_min` bytes.
    """
    for part in parts[:-1]:
        if part.size < part_bytes_min:
            raise InvalidPart(
                f"part {part.number} has {part.size} bytes; all but the last need {part_bytes_min}"
            )
