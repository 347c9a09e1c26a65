"""Values and ids of pull requests."""

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
"""Id of a pull request, unique within its repository; later ids sort first."""

TITLE_CHARACTERS_MAX: Final = 255
DESCRIPTION_CHARACTERS_MAX: Final = 20_000

_SECOND_US: Final = 1_000_000
_END_SECONDS: Final = 32_503_680_000
"""The year 3000; times in ids count down to it."""
# Twelve bytes encode to twenty characters, of which the last has one bit.
_ID: Final = re.compile("[0-9a-v]{19}[0g]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class PullStatus(StrEnum):
    """Status in the API; a pull request that is being merged is open."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


IN_PROGRESS: Final = frozenset({pb.PULL_STATE_MERGING, pb.PULL_STATE_REOPENING})
"""States in which a process is about to change the state, or died before doing so."""

_STATUSES: Final = {
    pb.PULL_STATE_CLOSED: PullStatus.CLOSED,
    pb.PULL_STATE_MERGED: PullStatus.MERGED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request, as read."""

    id: PullID
    status: PullStatus
    is_merging: bool
    """Whether a merge is in progress or interrupted."""
    title: str
    description: str
    author: str
    created: datetime
    closed: datetime | None
    """Time of closing or merging, or None if open."""
    source_branch: BranchID
    destination_branch: BranchID
    merged_commit_id: CommitID | None

    @classmethod
    def of(cls, record: Record[pb.PullRequest]) -> "PullRequest":
        found = record.message
        return cls(
            id=PullID(record.name.decode()),
            status=_STATUSES.get(found.state, PullStatus.OPEN),
            is_merging=found.state in IN_PROGRESS,
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
class Mergeability:
    """The expected result of a merge; of a merged pull request, its heads at the merge."""

    source_commit_id: CommitID | None
    """Head of the source, or None if the branch was deleted."""
    destination_commit_id: CommitID | None
    mergeable: bool | None = None
    """Whether a merge would succeed, or None if the pull request is not open."""
    conflicts: int | None = None
    """Number of conflicting objects, or None if there is nothing to merge."""
    reason: str = ""
    """Reason why an open pull request cannot be merged."""


def new_pull_id(runtime: Runtime) -> PullID:
    """Return an id that sorts before all earlier ids, by the clocks of servers."""
    seconds, part_us = divmod(now_us(runtime), _SECOND_US)
    left = (_END_SECONDS - seconds) % (1 << 32)
    drawn = left.to_bytes(4) + (_SECOND_US - part_us).to_bytes(3) + runtime.random_bytes(5)
    return PullID(b32hexencode(drawn).rstrip(b"=").decode().lower())


def check_pull_id(text: str) -> PullID:
    """Return a pull request id; raise `InvalidPull` if it is malformed."""
    if not _ID.fullmatch(text):
        raise InvalidPull(
            f"'{text}' is not a pull request id: ids have 20 characters, such as"
            " '4pi3sa85p80htbg1mll0'"
        )
    return PullID(text)


def check_title(title: str) -> str:
    """Return a title; raise `InvalidPull` if it is empty, too long, or has control characters."""
    if not title.strip() or _CONTROL.search(title) or len(title) > TITLE_CHARACTERS_MAX:
        raise InvalidPull(
            "the title of a pull request must be one line of 1 to"
            f" {TITLE_CHARACTERS_MAX} characters; this one has {len(title)}"
        )
    return title


def check_description(description: str) -> str:
    """Return a description; raise `InvalidPull` if it is too long."""
    if len(description) > DESCRIPTION_CHARACTERS_MAX:
        raise InvalidPull(
            f"the description has {len(description)} characters; at most"
            f" {DESCRIPTION_CHARACTERS_MAX} are allowed"
        )
    return description
