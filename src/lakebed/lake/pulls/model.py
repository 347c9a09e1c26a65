"""Pull requests as the doors see them, and their ids."""

import re
from base64 import b32hexencode
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, NewType

from lakebed.base.runtime import Runtime, now_us, to_datetime
from lakebed.engine.model import BranchID, CommitID
from lakebed.kv.records import Record
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import InvalidPull

PullID = NewType("PullID", str)
"""Names a pull request within its repository. The later one is made, the smaller is its id."""

TITLE_CHARACTERS_MAX: Final = 255
DESCRIPTION_CHARACTERS_MAX: Final = 20_000

_SECOND_US: Final = 1_000_000
_END_SECONDS: Final = 32_503_680_000
"""The year 3000, from which the times in ids count down."""
# Twelve bytes make twenty characters, of which the last one holds a single bit.
_ID: Final = re.compile("[0-9a-v]{19}[0g]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class PullStatus(StrEnum):
    """What the API says of a pull request; one that is being merged is open."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


UNDER_WAY: Final = frozenset({pb.PULL_STATE_MERGING, pb.PULL_STATE_REOPENING})
"""The states in which some process is about to change the state, or died of it."""

_STATUSES: Final = {
    pb.PULL_STATE_CLOSED: PullStatus.CLOSED,
    pb.PULL_STATE_MERGED: PullStatus.MERGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request as it was read."""

    id: PullID
    status: PullStatus
    is_merging: bool
    """Whether a merge is under way, or was cut off."""
    title: str
    description: str
    author: str
    created: datetime
    closed: datetime | None
    """When it was closed or merged."""
    source_branch: BranchID
    destination_branch: BranchID
    merged_commit_id: CommitID | None

    @classmethod
    def of(cls, record: Record[pb.PullRequest]) -> "PullRequest":
        """Return what a record holds."""
        found = record.message
        return cls(
            id=PullID(record.name.decode()),
            status=_STATUSES.get(found.state, PullStatus.OPEN),
            is_merging=found.state in UNDER_WAY,
            title=found.title,
            description=found.description,
            author=found.author,
            created=to_datetime(found.created_us),
            closed=to_datetime(found.closed_us) if found.closed_us else None,
            source_branch=BranchID(found.source_branch),
            destination_branch=BranchID(found.destination_branch),
            merged_commit_id=CommitID(found.merged_commit_id) if found.merged_commit_id else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a merge would find. Once a pull request is merged: what it found."""

    source_commit_id: CommitID | None
    """The head of the source; None: the branch is gone."""
    destination_commit_id: CommitID | None
    mergeable: bool | None = None
    """None: it is not open."""
    conflicts: int | None = None
    """How many objects both sides changed differently; None: there is nothing to merge."""
    hindrance: str = ""
    """Why it is open and cannot be merged."""


def new_pull_id(runtime: Runtime) -> PullID:
    """Return an id that sorts before all that were drawn earlier, by the clocks of servers."""
    seconds, part_us = divmod(now_us(runtime), _SECOND_US)
    left = (_END_SECONDS - seconds) % (1 << 32)
    drawn = left.to_bytes(4) + (_SECOND_US - part_us).to_bytes(3) + runtime.random_bytes(5)
    return PullID(b32hexencode(drawn).rstrip(b"=").decode().lower())


def check_pull_id(text: str) -> PullID:
    """Return the id of a pull request, if it can be one.

    Raises:
        InvalidPull: It cannot.
    """
    if not _ID.fullmatch(text):
        raise InvalidPull(
            f"'{text}' is not the id of a pull request: these have 20 characters, such as"
            " '4pi3sa85p80htbg1mll0'"
        )
    return PullID(text)


def check_title(title: str) -> str:
    """Return the title of a pull request, if it can be one.

    Raises:
        InvalidPull: It cannot.
    """
    if not title.strip() or _CONTROL.search(title) or len(title) > TITLE_CHARACTERS_MAX:
        raise InvalidPull(
            "a pull request needs a title: one line of up to"
            f" {TITLE_CHARACTERS_MAX} characters; this one has {len(title)}"
        )
    return title


def check_description(description: str) -> str:
    """Return the description of a pull request, if it can be one.

    Raises:
        InvalidPull: It is too long.
    """
    if len(description) > DESCRIPTION_CHARACTERS_MAX:
        raise InvalidPull(
            f"the description has {len(description)} characters, and may have"
            f" {DESCRIPTION_CHARACTERS_MAX}"
        )
    return description
