"""Moments as numbers: records and files keep microseconds since 1970, in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Final

from lakebed.base.runtime import Runtime

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(seconds: float) -> int:
    """Return seconds (since 1970, or of a duration) as whole microseconds."""
    return int(seconds * 1e6)


def now_us(runtime: Runtime) -> int:
    """Return the time on the wall clock, in microseconds since 1970."""
    return to_us(runtime.now())


def from_datetime(moment: datetime) -> int:
    """Return a moment with a time zone as microseconds since 1970; nothing is rounded."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(microseconds: int) -> datetime:
    """Return microseconds since 1970 as a moment in UTC; nothing is rounded."""
    return _EPOCH + microseconds * _MICROSECOND
