"""Conditional reads and copies of an object, by ETag or time."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto

from lakebed.formats import Entry
from lakebed.lake.model import ObjectStats
from lakebed.server.http.conditions import etag, matches


class ConditionResult(Enum):
    """Outcome of the conditions of a request."""

    GO_ON = auto()
    NOT_MODIFIED = auto()
    FAILED = auto()


def evaluate(stats: ObjectStats | Entry, header: Callable[[str], str | None]) -> ConditionResult:
    """Evaluate the conditions of a request; `header` returns a header of the request.

    A condition on the ETag overrides the condition on the time, which is less exact.
    """
    modified = stats.mtime.replace(microsecond=0)  # times in headers are whole seconds
    if_match, if_none_match = header("If-Match"), header("If-None-Match")
    if if_match is not None:
        if not matches(if_match, stats.checksum):
            return ConditionResult.FAILED
    elif (until := _time(header("If-Unmodified-Since"))) is not None and modified > until:
        return ConditionResult.FAILED
    if if_none_match is not None:
        if matches(if_none_match, stats.checksum):
            return ConditionResult.NOT_MODIFIED
    elif (since := _time(header("If-Modified-Since"))) is not None and modified <= since:
        return ConditionResult.NOT_MODIFIED
    return ConditionResult.GO_ON


def is_unchanged(stats: ObjectStats, validator: str) -> bool:
    """Whether an object still matches ``If-Range``, by its ETag or its time."""
    if validator.startswith('"'):
        return validator == etag(stats.checksum)
    return _time(validator) == stats.mtime.replace(microsecond=0)


def _time(text: str | None) -> datetime | None:
    """Return the time in a header, or None if unreadable: the condition is then ignored."""
    if text is None:
        return None
    try:
        time = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
