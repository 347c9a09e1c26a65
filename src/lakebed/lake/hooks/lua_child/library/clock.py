"""``time``: times in nanoseconds since 1970, layouts as in Go."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakebed.lake.hooks.lua_child.values import CallFailed, number, text

_SECOND: Final = 10**9
_ISO_LAYOUT: Final = "2006-01-02T15:04:05-07:00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HALF_DAY: Final = 12
_PIVOT_YEAR: Final = 69  # as in POSIX


def _offset(moment: datetime, separator: str, *, utc: str = "") -> str:
    offset = moment.utcoffset() or timedelta()
    if utc and not offset:
        return utc
    minutes = int(abs(offset).total_seconds()) // 60
    sign = "-" if offset < timedelta() else "+"
    return f"{sign}{minutes // 60:02}{separator}{minutes % 60:02}"


_Part = tuple[Callable[[datetime], str], str, str]
"""A layout element: its formatter, the pattern that parses it, and the name of its value."""
_PARTS: Final[dict[str, _Part]] = {
    "January": (lambda at: _MONTHS[at.month - 1], "|".join(_MONTHS), "month_name"),
    "Jan": (lambda at: _MONTHS[at.month - 1][:3], "|".join(x[:3] for x in _MONTHS), "month_name"),
    "Monday": (lambda at: _DAYS[at.weekday()], "|".join(_DAYS), ""),
    "Mon": (lambda at: _DAYS[at.weekday()][:3], "|".join(x[:3] for x in _DAYS), ""),
    "MST": (lambda at: at.tzname() or "UTC", "[A-Z]{3,5}", ""),
    "2006": (lambda at: f"{at.year:04}", r"\d{4}", "year"),
    "Z07:00": (lambda at: _offset(at, ":", utc="Z"), r"Z|[+-]\d\d:\d\d", "offset"),
    "-07:00": (lambda at: _offset(at, ":"), r"[+-]\d\d:\d\d", "offset"),
    "Z0700": (lambda at: _offset(at, "", utc="Z"), r"Z|[+-]\d{4}", "offset"),
    "-0700": (lambda at: _offset(at, ""), r"[+-]\d{4}", "offset"),
    "-07": (lambda at: _offset(at, "")[:3], r"[+-]\d\d", "offset"),
    "01": (lambda at: f"{at.month:02}", r"\d\d", "month"),
    "02": (lambda at: f"{at.day:02}", r"\d\d", "day"),
    "03": (lambda at: f"{at.hour % 12 or 12:02}", r"\d\d", "hour"),
    "04": (lambda at: f"{at.minute:02}", r"\d\d", "minute"),
    "05": (lambda at: f"{at.second:02}", r"\d\d", "second"),
    "06": (lambda at: f"{at.year % 100:02}", r"\d\d", "short_year"),
    "15": (lambda at: f"{at.hour:02}", r"\d\d", "hour"),
    "PM": (lambda at: "PM" if at.hour >= _HALF_DAY else "AM", "AM|PM", "half"),
    "pm": (lambda at: "pm" if at.hour >= _HALF_DAY else "am", "am|pm", "half"),
    "_2": (lambda at: f"{at.day:2}", r" ?\d{1,2}", "day"),
    "1": (lambda at: str(at.month), r"\d{1,2}", "month"),
    "2": (lambda at: str(at.day), r"\d{1,2}", "day"),
    "3": (lambda at: str(at.hour % 12 or 12), r"\d{1,2}", "hour"),
    "4": (lambda at: str(at.minute), r"\d{1,2}", "minute"),
    "5": (lambda at: str(at.second), r"\d{1,2}", "second"),
}
_LAYOUT: Final = re.compile("|".join(map(re.escape, _PARTS)))


def format_moment(moment: datetime, layout: str) -> str:
    """Format a time by a Go layout."""
    return _LAYOUT.sub(lambda found: _PARTS[found[0]][0](moment), layout)


def parse_moment(layout: str, value: str) -> datetime:
    """Parse a time by a Go layout; without a zone, in UTC. Raise `CallFailed` on a mismatch."""
    names: list[str] = []
    expression = ""
    end = 0
    for found in _LAYOUT.finditer(layout):
        _, part, name = _PARTS[found[0]]
        expression += re.escape(layout[end : found.start()]) + f"({part})"
        names.append(name)
        # As in Go, seconds may have a fraction without one in the layout.
        expression += r"(?:[.,]\d{1,9})?" if name == "second" else ""
        end = found.end()
    read = re.fullmatch(expression + re.escape(layout[end:]), value)
    if read is None:
        raise CallFailed(f"{value!r} does not match the layout {layout!r}")
    try:
        return _assemble(dict(zip(names, read.groups(), strict=True)))
    except ValueError as error:
        raise CallFailed(f"{value!r} is not a time: {error}") from error


def _assemble(read: dict[str, str]) -> datetime:
    hour = int(read.get("hour", "0"))
    if "half" in read:
        hour = hour % _HALF_DAY + (_HALF_DAY if read["half"].lower() == "pm" else 0)
    year = int(read.get("year", "0")) or _full_year(read.get("short_year", "01"))
    month = int(read.get("month", "1"))
    if "month_name" in read:
        month = 1 + [name[:3] for name in _MONTHS].index(read["month_name"][:3])
    return datetime(
        *(year, month, int(read.get("day", "1")), hour),
        *(int(read.get("minute", "0")), int(read.get("second", "0"))),
        tzinfo=_read_offset(read.get("offset", "Z")),
    )


def _full_year(short: str) -> int:
    year = int(short)
    return 1900 + year if year >= _PIVOT_YEAR else 2000 + year


def _read_offset(written: str) -> tzinfo:
    if written == "Z":
        return UTC
    digits = written[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or "0"))
    return timezone(-offset if written[0] == "-" else offset)


def _moment(nanoseconds: object, zone: object) -> datetime:
    name = "" if zone is None else text(zone).decode(errors="replace")
    try:
        found = ZoneInfo(name) if name and name != "UTC" else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CallFailed(f"unknown time zone {name!r}") from error
    return (_EPOCH + timedelta(seconds=int(number(nanoseconds)) // _SECOND)).astimezone(found)


def _format(nanoseconds: object, layout: object, zone: object = None) -> str:
    return format_moment(_moment(nanoseconds, zone), text(layout, 2).decode(errors="replace"))


def _format_iso(nanoseconds: object, zone: object = None) -> str:
    return format_moment(_moment(nanoseconds, zone), _ISO_LAYOUT)


def _parse(layout: object, value: object) -> int:
    written = text(layout).decode(errors="replace"), text(value, 2).decode(errors="replace")
    return int((parse_moment(*written) - _EPOCH).total_seconds()) * _SECOND


def _parse_iso(value: object) -> int:
    return _parse(_ISO_LAYOUT.encode(), value)


def _sleep(nanoseconds: object) -> None:
    time.sleep(max(0.0, number(nanoseconds) / _SECOND))


def _add(start: object, duration: object) -> int | float:
    given = duration if isinstance(duration, dict) else {}
    units = {"hour": 3600, "minute": 60, "second": 1}
    seconds = sum(number(given.get(unit, 0)) * length for unit, length in units.items())
    return number(start) + seconds * _SECOND


TIME: Final = {
    "now": time.time_ns,
    "format": _format,
    "format_iso": _format_iso,
    "formatISO": _format_iso,
    "sleep": _sleep,
    "since": lambda start: time.time_ns() - number(start),
    "add": _add,
    "parse": _parse,
    "parse_iso": _parse_iso,
    "parseISO": _parse_iso,
}
